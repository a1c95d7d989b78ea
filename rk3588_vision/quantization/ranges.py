"""Ranges of a float model's tensors, measured over pictures, and what int8 demands of them.

In: a prepared float model and inputs. Out: a range per tensor, from the least and the greatest
value of every input. Three rules change what was measured: the input's range is that of all pixels;
a tensor that only a RELU reads has the range of the RELU's result, since int8 saturates; and
tensors that operators only move values between (RESHAPE, CONCATENATION, pooling, ...) share one
range, since int8 has one scale for them.

And ranges of weights that leave room for the bias, an int32 of the scale (input's scale x weight's
scale). A channel whose weights are nearly zero has a tiny scale, in which its bias does not fit:
the quantiser saturates it, and TensorFlow Lite's sums wrap. Such channels get a larger range, which
costs them nothing: next to the bias the weights are nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError
from delegate.host.delegated import ReferenceModel
from delegate.model.graph import ABSENT, Activation, DType, Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import Role
from delegate.ops.shared.common import keeps_quantization
from delegate.ops.shared.parts import int8_parts_keep_quantization
from rk3588_vision.quantization.float_model import FloatModel

Range = tuple[float, float]
Extremes = dict[int, npt.NDArray[np.float64]]
"""By tensor: of every sample, a row with the least and the greatest value."""

_LIMITS: Final = {
    Activation.RELU: (0.0, math.inf),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}
"""The range that is left of values, of activations that only cut them."""


def measure_extremes(
    model: FloatModel,
    samples: Iterable[Callable[[dict[str, Any]], npt.NDArray[Any]]],
    *,
    done: Callable[[], None] = lambda: None,
) -> Extremes:
    """Run the model once per sample and return the extremes of every activation but the input.
    ``samples`` make the input that they are given the runtime's details of; ``done`` is called
    after each.

    Raises ModelError for a model that the runtime refuses or that gives values beyond float32.
    """
    wanted = [t for t in model.activations() if t not in model.graph.inputs]
    rows: list[list[Range]] = []
    runner = ReferenceModel.load(model.content, reference_kernels=False, tensors=wanted)
    for sample in samples:
        runner.run([sample(runner.inputs[0])])
        rows.append([_ends(runner.tensor(tensor), model, tensor) for tensor in wanted])
        done()
    ends = np.array(rows)
    return {tensor: ends[:, place] for place, tensor in enumerate(wanted)}


def _ends(values: npt.NDArray[Any], model: FloatModel, tensor: int) -> Range:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not np.isfinite([low, high]).all():
        name = model.graph.tensor(tensor).name
        raise ModelError(f"{model.source}: tensor {tensor} {name!r} has values that are not finite")
    return low, high


def ranges_of(
    graph: Graph, extremes: Extremes, pixels: Range, share: float = 1.0
) -> dict[int, Range]:
    """Return ranges that hold the extremes of a ``share`` of the samples at either end."""
    measured = {
        tensor: (float(np.quantile(ends[:, 0], 1.0 - share)), float(np.quantile(ends[:, 1], share)))
        for tensor, ends in extremes.items()
    }
    return constrained(graph, measured | {graph.inputs[0]: pixels})


def constrained(graph: Graph, measured: dict[int, Range]) -> dict[int, Range]:
    """Return the ranges under the rules at the head of this module."""
    ranges = dict(measured)
    followers = {n.inputs[0]: n.outputs[0] for n in graph.nodes if _limits(n) is not None}
    for tensor in relu_limits(graph):
        if tensor in ranges and followers[tensor] in ranges:
            ranges[tensor] = ranges[followers[tensor]]
    for group in moved_together(graph):
        known = [ranges[tensor] for tensor in group if tensor in ranges]
        if known:
            joined = min(low for low, _ in known), max(high for _, high in known)
            ranges.update({tensor: joined for tensor in group if tensor in ranges})
    return ranges


def relu_limits(graph: Graph) -> dict[int, Range]:
    """Return the tensors that a RELU alone reads, with what it leaves of them. What operators only
    move is left out: it has to keep its source's scale.
    """
    readers = Counter(t for node in graph.nodes for t in node.inputs)
    moved = {t for node in graph.nodes if _keeps_scale(node) for t in node.outputs}
    others = moved.union(graph.outputs, graph.inputs)
    return {
        node.inputs[0]: limits
        for node in graph.nodes
        if (limits := _limits(node)) is not None
        and readers[node.inputs[0]] == 1
        and node.inputs[0] not in others
    }


def _limits(node: Node) -> Range | None:
    """Return what a node that is an activation leaves of values; None: it does something else."""
    activation = Activation.__members__.get(node.op)
    return None if activation is None else _LIMITS.get(activation)


def _keeps_scale(node: Node) -> bool:
    """Return whether the int8 kernel of a node has one scale for what it reads and writes."""
    operator = OPERATORS.get(node.op)
    rules = () if operator is None else operator.rules
    return keeps_quantization in rules or int8_parts_keep_quantization in rules


def moved_together(graph: Graph) -> list[set[int]]:
    """Return the sets of float32 tensors between which operators only move values."""
    group_of: dict[int, set[int]] = {}
    for node in graph.nodes:
        if not _keeps_scale(node):
            continue
        joined: set[int] = set()
        for tensor in (*node.inputs, *node.outputs):
            if tensor >= 0 and graph.tensor(tensor).dtype is DType.FLOAT32:
                joined |= group_of.get(tensor, {tensor})
        group_of.update(dict.fromkeys(joined, joined))
    return list({id(group): group for group in group_of.values()}.values())


_LARGEST_BIAS = 1 << 24
"""In steps: 64 times what nine products of 8 bits can reach, far below int32."""
_WEIGHT_STEPS, _INPUT_STEPS = 127, 255

Bounds = npt.NDArray[np.float32]


def weight_bounds(graph: Graph, ranges: Mapping[int, Range]) -> dict[int, Bounds]:
    """Return the largest magnitude per channel, with the axes kept, of weights that need more than
    they have.
    """
    found: dict[int, Bounds] = {}
    for node in graph.nodes:
        operator = OPERATORS.get(node.op)
        weights = None if operator is None else operator.weights(node)
        if operator is None or weights is None:
            continue
        bias = next(iter(operator.inputs_of(node, Role.BIAS)), ABSENT)
        if bias == ABSENT:
            continue
        source = next(iter(operator.feature_inputs(node)))
        if source in ranges:
            arrays = graph.tensor(weights).constant, graph.tensor(bias).constant
            bounds = _bounds(*arrays, operator.weights_axis, ranges[source])
            if bounds is not None:
                found[weights] = np.maximum(bounds, found.get(weights, bounds))
    return found


def _bounds(
    weights: npt.NDArray[Any] | None, bias: npt.NDArray[Any] | None, axis: int, source: Range
) -> Bounds | None:
    """Return the bounds of one layer's channels; None: the weights' own will do."""
    if weights is None or bias is None or bias.size != weights.shape[axis]:
        return None
    low, high = source
    step = (max(high, 0.0) - min(low, 0.0)) / _INPUT_STEPS
    if step <= 0.0:
        return None
    others = tuple(a for a in range(weights.ndim) if a != axis)
    largest = np.abs(_floats(weights)).max(axis=others, keepdims=True)
    needed = np.abs(_floats(bias)) / (_LARGEST_BIAS * step) * _WEIGHT_STEPS
    bounds = np.maximum(largest, needed.reshape(largest.shape)).astype(np.float32)
    return bounds if (bounds > largest).any() else None


def _floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return array.astype(np.float64)
