"""Bounds along the graph in fp16, held on the simulator to the model in float64: random graphs,
all of whose tensors are outputs, with ordinary and extreme inputs, and graphs of a few nodes in
which one part of the bound is nearly reached, so that it may not be missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.lower.half_bound import half_rounding
from delegate.model.graph import Activation, DType, Graph, Padding
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.mul import MulOptions
from delegate.ops.operator import Known
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from delegate.partition.half import in_half
from delegate.partition.half_bounds import TensorBound, tensor_bounds
from delegate.partition.rules import facts_of
from rk3588_conformance.builder import options as tables
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.cut_model import exposed_model
from rk3588_conformance.generated.exact_graph import OPERATORS, exact_values
from rk3588_conformance.generated.float_graphs import float_graph
from rk3588_conformance.generated.judge import Run

GIVEN = {"device": "simulator", "float": "fp16", "deny_ops": ""}
OPTIONS = Options.from_mapping(GIVEN, {})
LARGEST = 65504.0
PLACES = 64
"""Pixels of the small graphs."""

Array = Any
Range = tuple[float, float]
Bounds = dict[int, TensorBound]


def whole(model: bytes, inputs: Range) -> tuple[Graph, Bounds] | None:
    """The bounds of a model that is one partition; None: it is not, or the
    judge does not know an operator.
    """
    if {node.op for node in read_graph(model).nodes} - OPERATORS - {"DEQUANTIZE"}:
        return None
    result = compile_model(model, OPTIONS)
    if {r.op for r in result.rejections} - {"DEQUANTIZE"} or len(result.partitions) != 1:
        return None
    (made,) = result.partitions
    return result.graph, tensor_bounds(result.graph, made.partition, made.layers, inputs)


def shares(
    graph: Graph, bounds: Bounds, ours: dict[int, Array], feeds: dict[int, Array]
) -> dict[int, float]:
    """By output with a bound, the largest error as a share of it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = exact_values(graph, feeds)
    found = {}
    for tensor, result in ours.items():
        bound = bounds.get(tensor)  # None: it is a constant
        if bound is not None and np.isfinite(bound.error):
            error = float(np.abs(result.astype(np.float64) - exact[tensor]).max())
            assert bound.low <= exact[tensor].min()
            assert exact[tensor].max() <= bound.high
            assert np.isfinite(result).all()
            found[tensor] = error / bound.error if bound.error else (np.inf if error else 0.0)
    return found


def near_halves(values: Array) -> Array:
    """What lies in the middle of two fp16 near ``values``, which rounding moves most."""
    below = np.clip(values, -LARGEST, LARGEST).astype(np.float16)
    below = np.minimum(below, np.nextafter(np.float16(LARGEST), np.float16(0)))
    above = np.nextafter(below, np.float16(np.inf))
    return ((below.astype(np.float64) + above.astype(np.float64)) / 2).astype(np.float32)


def feeds_of(
    rng: np.random.Generator, shapes: dict[int, Sequence[int]], inputs: Range
) -> Iterator[dict[int, Array]]:
    """Inputs: random ones, middles of two fp16, ends of the range, and far smaller numbers."""
    low, high = inputs
    kinds: tuple[Callable[[Array], Array], ...] = (
        lambda shape: rng.uniform(low, high, shape),
        lambda shape: near_halves(rng.uniform(low, high, shape)),
        lambda shape: rng.choice(np.array([low, high]), shape),
        lambda shape: rng.uniform(low, high, shape) * 2.0 ** rng.integers(-40, 0, shape),
        lambda shape: near_halves(high - (high - low) * rng.random(shape) / 64),
    )
    for kind in kinds:
        yield {
            t: np.clip(kind(tuple(shape)), low, high).astype(np.float32)
            for t, shape in shapes.items()
        }


def worst_shares(model: bytes, inputs: Range, seed: int) -> dict[int, float] | None:
    made = whole(model, inputs)
    if made is None:
        return None
    graph, bounds = made
    runner = Run(model, is_delegated=True, options=GIVEN)
    shapes = {t: graph.tensor(t).shape for t in graph.inputs}
    worst: dict[int, float] = {}
    for feeds in feeds_of(np.random.default_rng(seed), shapes, inputs):
        for tensor, share in shares(graph, bounds, runner.run(feeds), feeds).items():
            worst[tensor] = max(worst.get(tensor, 0.0), share)
    return worst


RANGES: dict[Range, int] = {
    (-1, 1): 50,
    (0, 6): 50,
    (-1000, 1000): 40,
    (-(2.0**-14), 2.0**-14): 50,
    (-LARGEST, LARGEST): 4,
}
"""And how many tensors have a bound there, at least."""


@pytest.mark.parametrize(("inputs", "least"), RANGES.items(), ids=str)
def test_random_graphs_are_within_their_bounds(inputs: Range, least: int) -> None:
    held = 0
    for seed in range(100):
        drawn = float_graph(seed)
        model = exposed_model(drawn.content)
        found = worst_shares(model, inputs, seed)
        if found is None:
            continue
        assert {t: share for t, share in found.items() if share > 1} == {}, seed
        held += len(found)
    assert held >= least


class Small:
    """A graph of ``inputs`` maps of ``channels``, one pixel after the other, or of ``shapes``."""

    def __init__(
        self, channels: int = 8, inputs: int = 1, shapes: Sequence[Sequence[int]] = ()
    ) -> None:
        self.builder = ModelBuilder("small")
        given = shapes or [(1, PLACES, 1, channels)] * inputs
        self.shape = tuple(given[0])
        self.last = [
            self.builder.input(f"x{n}", shape, DType.FLOAT32) for n, shape in enumerate(given)
        ]

    def made(self, op: str, *constants: Array, table: Any = None, channels: int = 0) -> Small:
        """Behind ``op`` of what is there and ``constants``."""
        builder = self.builder
        given = [builder.constant("c", np.asarray(c, np.float32)) for c in constants]
        shape = (*self.shape[:3], channels or self.shape[3])
        result = builder.tensor(op, shape, DType.FLOAT32)
        builder.operator(op, (*self.last, *given), (result,), table)
        self.last, self.shape = [result], shape
        return self

    def conv(self, weights: Array, bias: Array = 0.0, table: Any = None) -> Small:
        """``weights``: outputs by inputs."""
        outputs = len(weights)
        return self.made(
            "CONV_2D",
            np.asarray(weights)[:, np.newaxis, np.newaxis],
            np.full(outputs, bias),
            table=table or ConvOptions(),
            channels=outputs,
        )

    @property
    def model(self) -> bytes:
        self.builder.output(self.last[0])
        return self.builder.build()


HALFWAY = 1 + 2.0**-11
"""Between two fp16."""

APART: Range = (1, HALFWAY)


def apart(rows: Sequence[float]) -> Small:
    """Numbers near 0 that are nearly 2^-5 times each of ``rows`` off, the sum of errors of numbers
    near 1.
    """
    weights = np.repeat(np.asarray(rows)[:, np.newaxis], 63, axis=1)
    return Small(63).conv(weights, -weights.sum(1))


def product(rows: int, inputs: int, outputs: int) -> Small:
    """Of two computed matrices."""
    small = Small(shapes=((1, 1, rows, inputs), (1, 1, inputs, outputs)))
    table = tables.of(BatchMatMulOptions(False, False, False))
    return small.made("BATCH_MATMUL", table=table, channels=outputs)


def averages() -> Small:
    """Of two pixels each."""
    small = Small(1)
    small.shape = (1, PLACES - 1, 1, 1)
    table = tables.of(PoolOptions(Padding.VALID, 1, 1, 1, 2, Activation.NONE))
    return small.made("AVERAGE_POOL_2D", table=table)


SUBNORMAL: Range = (-(2.0**-16), 2.0**-16)

NEARLY_REACHED: dict[str, tuple[Callable[[], Small], Range]] = {
    "the input's rounding": (lambda: Small().made("RELU"), (-2, 2)),
    "of subnormal numbers": (lambda: Small().made("RELU"), (-(2.0**-16), 2.0**-16)),
    "at the ends of fp16": (lambda: Small().made("RELU"), (-LARGEST, LARGEST)),
    "errors of operands, summed": (lambda: Small(7).conv(np.ones((1, 7))), (0, 1 + 2.0**-10)),
    "their negative weights": (lambda: Small(7).conv(-np.ones((1, 7))), (0, 1 + 2.0**-10)),
    "channel by channel": (
        lambda: apart([1, 8]).made("RELU").conv([[8, 0], [0, 1]]),
        APART,
    ),
    "of depthwise taps": (
        lambda: Small(3).made(
            "DEPTHWISE_CONV_2D",
            np.ones((1, 3, 1, 3)),
            np.zeros(3),
            table=DepthwiseOptions(),
        ),
        (0, 1 + 2.0**-10),
    ),
    "the result's rounding": (lambda: Small(1).conv([[1.0]], 1.0), (0, 2.0**-11)),
    "the weights' rounding": (lambda: Small(1).conv([[HALFWAY]]), (0, 1 - 2.0**-11)),
    "a constant's rounding": (
        lambda: Small(1).made("MUL", [HALFWAY], table=MulOptions()),
        (0, 1 - 2.0**-10),
    ),
    "both factors": (lambda: Small(1, 2).made("MUL", table=MulOptions()), (0, 1.375)),
    "both factors of all products": (lambda: product(4, 7, 3), APART),
    "of a subnormal sum": (lambda: Small(1).conv([[0.5]]), SUBNORMAL),
    "of a subnormal product": (
        lambda: Small(1).made("MUL", [0.5], table=MulOptions()),
        SUBNORMAL,
    ),
    "of a subnormal product of matrices": (lambda: product(8, 1, 8), (0, 2.0**-12)),
    "of a subnormal mean": (averages, SUBNORMAL),
    "the table of LOGISTIC": (lambda: Small(128).made("LOGISTIC"), (-1, 1)),
    "the table of TANH": (lambda: Small(128).made("TANH"), (-1, 1)),
    "both summands": (lambda: Small(1, 2).made("ADD", table=AddOptions()), (0, 1)),
    "both of a difference": (lambda: Small(1, 2).made("SUB", table=SubOptions()), (-1, 1)),
    "the larger": (lambda: Small(1, 2).made("MAXIMUM"), (-1, 2)),
    "a slope": (lambda: Small(1).made("PRELU", [[[3.0]]]), (-1 - 2.0**-10, 1)),
    "HARD_SWISH, the steepest": (lambda: Small(1).made("HARD_SWISH"), (2.5, 3 - 2.0**-9)),
    "the slope of LOGISTIC": (lambda: apart([1]).made("LOGISTIC"), APART),
    "the slope of TANH": (lambda: apart([1]).made("TANH"), APART),
    "several nodes": (
        lambda: apart([1]).made("RELU6").conv([[-3.0]], 3.0).made("HARD_SWISH").conv([[0.5]]),
        APART,
    ),
}
"""A part of the bound, and a graph, with its inputs' range, in which half of it is too little."""


@pytest.mark.parametrize("part", NEARLY_REACHED)
def test_nothing_is_left_out(part: str) -> None:
    """The error is within the bound, and beyond half of it."""
    make, inputs = NEARLY_REACHED[part]
    found = worst_shares(make().model, inputs, 1)
    assert found is not None
    (share,) = found.values()
    assert 0.5 < share <= 1


@pytest.mark.parametrize("seed", range(20))
def test_products_of_two_matrices_are_no_further_apart_than_said(seed: int) -> None:
    """Of operands at the ends of what is known of them, channel by channel: what errors move, and
    the magnitudes of the terms, are reached and never exceeded.
    """
    rng = np.random.default_rng(seed)
    rows, inputs, outputs = (int(n) for n in rng.integers(1, 40, 3))
    graph = read_graph(product(rows, inputs, outputs).model)
    graph = in_half(graph, "fp16")
    (node,) = graph.nodes
    operator = facts_of(graph).operators[node.op].of(graph, node)
    assert operator.spread is not None
    assert operator.ranges is not None
    known = {}
    for tensor, channels in zip(node.inputs, (inputs, outputs), strict=True):
        error, size = rng.uniform(0, 0.1, channels), rng.uniform(0.2, 5, channels)
        known[tensor] = Known(-float(size.max()), float(size.max()), error, size)
    moved, terms = operator.spread(graph, node, known.__getitem__)
    reached, magnitudes = 0.0, 0.0
    for first, second in product_of_ends(known[node.inputs[0]], known[node.inputs[1]], inputs):
        reached, magnitudes = max(reached, first), max(magnitudes, second)
    assert reached <= float(moved.max()) * (1 + 1e-12)
    assert magnitudes == pytest.approx(float(terms.max()))
    low, high = operator.ranges(graph, node, lambda t: (known[t].low, known[t].high))
    assert high.max() == pytest.approx(magnitudes)
    assert low.min() == pytest.approx(-magnitudes)


def product_of_ends(first: Known, second: Known, inputs: int) -> Iterator[tuple[float, float]]:
    """How far the sum of ``inputs`` products of the largest channels is off where both operands'
    errors add up, and its magnitude. Each pixel may have any of the channels' values.
    """
    for x, dx in zip(first.size, first.error, strict=True):
        for y, dy in zip(second.size, second.error, strict=True):
            # The exact operands are dx and dy nearer to 0 than the device's.
            yield inputs * (x * y - (x - dx) * (y - dy)), inputs * x * y


def test_a_clamp_ends_the_growth() -> None:
    graph, bounds = _of(Small(1).conv([[1000.0]], 0.0, ConvOptions(activation=Activation.RELU6)))
    bound = bounds[graph.outputs[0]]
    assert 6 <= bound.error <= 6 * (1 + 2.0**-8)
    assert not bound.says_something


def test_behind_what_fp16_may_not_hold_nothing_is_known() -> None:
    graph, bounds = _of(Small(1).conv([[2.0]]).made("RELU6").made("LOGISTIC"))
    assert not np.isfinite(bounds[graph.outputs[0]].error)
    graph, bounds = _of(Small(1).conv([[0.99]]).made("RELU6").made("LOGISTIC"))
    assert bounds[graph.outputs[0]].error < 1.01


def _of(small: Small) -> tuple[Graph, Bounds]:
    made = whole(small.model, (-LARGEST, LARGEST))
    assert made is not None
    return made


@pytest.mark.parametrize("inputs", [(1, 0), (0, 65505), (-np.inf, 0), (np.nan, 0)])
def test_inputs_have_to_be_a_range_within_fp16(inputs: Range) -> None:
    with pytest.raises(ValueError, match="inputs from"):
        whole(Small(1).made("RELU").model, inputs)


def test_half_rounding_is_reached_and_never_exceeded() -> None:
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (every[1:] + every[:-1]) / 2
    moved = np.abs(middles - middles.astype(np.float16))
    for most in (2.0**-24, 2.0**-14, 0.3, 1.0, HALFWAY, 1.5, 2.0, 2047.0, LARGEST):
        assert half_rounding(most) == moved[middles <= most].max(initial=2.0**-25)
