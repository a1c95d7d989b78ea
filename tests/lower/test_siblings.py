"""Convolutions of one map joined to one: each result is the reference kernel's, as it was apart."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from delegate._native import Executable
from delegate.chip.chips import DEFAULT
from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import CompiledPartition, compile_partition
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.random_layers import Numbers
from tests.lower.reference import differences, random_inputs, tflite_outputs, whole_graph

COARSE, FINE = Quantization((0.11,), (-128,)), Quantization((0.0173,), (-128,))
RELU = Activation.RELU
POINT = Window(1, 1, 1, 1)


@dataclass(frozen=True)
class Case:
    """Convolutions of so many ``kernels`` of one map. ``results``: the quantisation of each."""

    kernels: tuple[int, ...] = (32, 64)
    size: tuple[int, int] = (9, 14)
    channels: int = 21
    window: Window = POINT
    activation: Activation = RELU
    results: tuple[Quantization, ...] = (COARSE, FINE)
    per_channel: bool = True
    dtype: DType = DType.INT8
    images: int = 1


STRIDED = Window(3, 2, 2, 1, padding=Padding.SAME)
JOINED = {
    "scales apart": Case(),
    "three": Case((32, 32, 64), results=(COARSE, FINE, COARSE)),
    "per tensor": Case(per_channel=False),
    "a kernel and strides": Case(window=STRIDED, size=(12, 11)),
    "one row": Case(size=(1, 53)),
    "two images": Case(images=2),
    "no activation": Case(activation=Activation.NONE),
    "one scale, clamped": Case(activation=Activation.RELU6, results=(FINE, FINE)),
}
APART = {
    "other zero points": Case(results=(COARSE, Quantization((0.11,), (3,)))),
    "clamped by other scales": Case(activation=Activation.RELU6),
    "parts of groups": Case((16, 32)),
    "uint8": Case(
        dtype=DType.UINT8, results=(Quantization((0.11,), (0,)), Quantization((0.02,), (0,)))
    ),
}


def siblings(case: Case, *, seen: bool = False, has_function: bool = False) -> bytes:
    """Each result goes through a PAD, which nothing joins; ``seen``: it is a result itself."""
    rng = np.random.default_rng(sum(case.kernels) + case.size[0])
    b = Net("siblings", rng)
    given = Quantization((0.11,), (-7 if case.dtype is DType.INT8 else 121,))
    x = b.input("x", (case.images, *case.size, case.channels), case.dtype, given)
    numbers = Numbers(
        per_channel=case.per_channel and case.dtype is DType.INT8, activation=case.activation
    )
    for number, kernels in enumerate(case.kernels):
        one = replace(numbers, output=case.results[number])
        y = b.conv(x, kernels, case.window, one, name=f"sibling{number}")
        if has_function:  # SiLU: both operators read the result
            gate = b.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,)))
            y = b.function("MUL", (y, gate), FINE, MulOptions())
        b.output(y if seen else b.pad(y, ((0, 0), (1, 0), (0, 2), (0, 0)), name=f"pad{number}"))
    return b.build()


def compiled(model: bytes, numerics: str = "exact", chip=DEFAULT) -> CompiledPartition:
    graph = read_graph(model)
    return compile_partition(graph, whole_graph(graph), chip, numerics=numerics)


def convolutions(model: bytes, numerics: str = "exact", chip=DEFAULT) -> list[tuple[int, ...]]:
    """Return the nodes of every layer that convolves."""
    layers = compiled(model, numerics, chip).layers
    return [layer.nodes for layer in layers if layer.op == "CONV_2D"]


@pytest.mark.parametrize("case", JOINED.values(), ids=JOINED)
def test_joined_convolutions_give_what_they_gave_apart(case: Case) -> None:
    model = siblings(case)
    (nodes,) = convolutions(model)
    assert nodes == tuple(range(0, 2 * len(case.kernels), 2))
    for seed in range(2):
        assert not any(d.any() for d in differences(model, np.random.default_rng(seed)))


@pytest.mark.parametrize("case", JOINED.values(), ids=JOINED)
def test_by_default_each_is_within_a_step(case: Case) -> None:
    model = siblings(case)
    assert len(convolutions(model, "auto")) == 1
    graph = read_graph(model)
    partition = whole_graph(graph)
    given = random_inputs(graph, partition.inputs, np.random.default_rng(5))
    expected = tflite_outputs(model, partition, given)
    ours = Executable(compiled(model, "auto").program, "simulator").run(given)
    for mine, theirs in zip(ours, expected, strict=True):
        assert np.abs(mine.astype(int) - theirs.astype(int)).max() <= 1


@pytest.mark.parametrize("case", APART.values(), ids=APART)
def test_others_stay_apart(case: Case) -> None:
    assert len(convolutions(siblings(case))) == len(case.kernels)


def test_results_and_what_a_function_follows_stay_apart() -> None:
    assert len(convolutions(siblings(Case(), seen=True))) == 2
    assert len(convolutions(siblings(Case(), has_function=True), "auto")) == 2


def test_the_host_puts_results_of_different_scales_where_they_belong() -> None:
    rng = np.random.default_rng(4)
    b = Net("edges", rng)
    x = b.input("x", (1, 6, 5, 20), DType.INT8, COARSE)
    for number, scaling in enumerate((COARSE, FINE)):
        numbers = Numbers(per_channel=True, activation=RELU, output=scaling)
        y = b.conv(x, 32, POINT, numbers, name=f"sibling{number}")
        b.output(b.transpose(y, (0, 3, 1, 2), name=f"turned{number}"))
    model = b.build()
    assert convolutions(model) == [(0, 2)]
    assert not any(d.any() for d in differences(model, rng))


def test_rk3576_joins_them_too() -> None:
    assert len(convolutions(siblings(Case()), "auto", RK3576)) == 1


@pytest.mark.parametrize("is_last", [False, True], ids=["first", "last"])
def test_one_of_them_in_a_concatenation(is_last: bool) -> None:
    """A stage of CSP: the first branch goes on, and both meet. The other one lies beside it."""
    rng = np.random.default_rng(8)
    b = Net("csp", rng)
    x = b.input("x", (1, 10, 7, 24), DType.INT8, COARSE)
    numbers = Numbers(per_channel=True, activation=RELU, output=FINE)
    branches = [b.conv(x, 32, POINT, numbers, name=f"branch{n}") for n in range(2)]
    window = Window(3, 3, 1, 1, padding=Padding.SAME)
    more = b.conv(branches[0], 32, window, numbers, name="more")
    parts = (more, branches[1]) if is_last else (branches[1], more)
    whole = b.concatenation(parts, axis=3)
    model = b.build(b.conv(whole, 19, POINT, numbers, name="end"))
    nodes = convolutions(model)
    assert nodes == [(0, 1), (2,), (4,)]
    assert len(compiled(model).layers) == len(nodes)
    assert not any(d.any() for d in differences(model, rng))
