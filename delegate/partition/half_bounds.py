"""How far tensors of a partition in fp16 are from exact ones: the bounds of its nodes, taken along
the graph.

Exact are the model's own float weights in real arithmetic, and the partition's inputs as the host
has them, float32 within a stated range. The device rounds those to fp16. At every node errors of
operands move the result by what the operator makes of them, and the node's own bound comes beside
that. What was moved is never further apart than the ends of what the operator gives at all, so
clamps and tables end the growth. Nothing is known behind a value that fp16 may not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.lower.half_bound import EXACT, HalfBound, half_rounding, widest
from delegate.lower.lowered import Layer
from delegate.model.graph import DType, Graph, Node
from delegate.model.partition import Partition
from delegate.ops.operator import Known, Operator, is_in_half
from delegate.ops.shared.half_ranges import ANYTHING
from delegate.partition.rules import facts_of

_LARGEST: Final = float(np.finfo(np.float16).max)
_NOTHING: Final = Known(-np.inf, np.inf, np.array([np.inf]), np.array([np.inf]))


@dataclass(frozen=True, slots=True)
class TensorBound:
    """The bound of a tensor, all of whose exact values are from ``low`` to ``high``: |device -
    exact| is at most ``error``, which is infinite where fp16 may not hold the values.
    """

    low: float
    high: float
    error: float

    @property
    def says_something(self) -> bool:
        """Whether less than the whole range is between device and exact value."""
        return self.error < self.high - self.low


def tensor_bounds(
    graph: Graph, partition: Partition, layers: Sequence[Layer], inputs: tuple[float, float]
) -> dict[int, TensorBound]:
    """Return the bound of every float32 tensor that ``partition``, which became ``layers``, writes,
    in its nodes' order. ``inputs``: from where to where all values of its float32 inputs are.
    """
    low, high = inputs
    if not -_LARGEST <= low <= high <= _LARGEST:
        raise ValueError(f"inputs from {low:g} to {high:g}: fp16 ends at {_LARGEST:g}")
    most = max(-low, high)
    rounded = half_rounding(most)
    given = Known(low, high, np.array([rounded]), np.array([min(most + rounded, _LARGEST)]))
    known = {t: given for t in partition.inputs if graph.tensor(t).dtype is DType.FLOAT32}
    bounds = _node_bounds(layers)
    operators = facts_of(graph).operators
    found: dict[int, TensorBound] = {}
    for index in partition.nodes:
        node = graph.node(index)
        operator = operators[node.op].of(graph, node)
        bound = bounds.get(index, EXACT) if is_in_half(graph, node) else None
        result = _NOTHING if bound is None else _result(graph, node, operator, known, bound)
        for tensor in node.outputs:
            if graph.tensor(tensor).dtype is DType.FLOAT32:
                known[tensor] = result
                found[tensor] = TensorBound(result.low, result.high, float(result.error.max()))
    return found


def _node_bounds(layers: Sequence[Layer]) -> dict[int, HalfBound | None]:
    """Return the bound of each node that has a layer, which is its own, or its and that of paddings
    before it.
    """
    found: dict[int, HalfBound | None] = {}
    for layer in layers:
        index = layer.nodes[-1]
        both = (found.get(index, EXACT), layer.bound)
        held = [bound for bound in both if bound is not None]
        found[index] = widest(held) if len(held) == len(both) else None
    return found


def _result(
    graph: Graph, node: Node, operator: Operator, known: Mapping[int, Known], bound: HalfBound
) -> Known:
    """Return what is known of the results of ``node``, whose own bound is ``bound``."""

    def known_of(tensor: int) -> Known:
        constant = graph.tensor(tensor).constant
        return known.get(tensor, _NOTHING) if constant is None else _constant(constant)

    def exact_ends(tensor: int) -> tuple[float, float]:
        return known_of(tensor).low, known_of(tensor).high

    def device_ends(tensor: int) -> tuple[float, float]:
        one = known_of(tensor)
        error = float(one.error.max())
        return max(one.low - error, -_LARGEST), min(one.high + error, _LARGEST)

    operands = [known_of(t) for t in operator.feature_inputs(node) if t >= 0]
    if operator.ranges is None or operator.spread is None:
        return _NOTHING
    if not all(np.isfinite(one.error).all() for one in operands):
        return _NOTHING
    low, high = (np.atleast_1d(end) for end in operator.ranges(graph, node, exact_ends))
    least, most = operator.ranges(graph, node, device_ends)
    moved, terms = operator.spread(graph, node, known_of)
    # Of exact results of the device's operands.
    size = np.maximum(np.abs(least), np.abs(most))
    largest = max(float(one.size.max()) for one in operands)
    own = bound.error(terms, largest, size)
    error = np.minimum(moved, most - least) + own
    # What any operands give is between these ends on the device, too, which rounds it once more.
    lowest, highest = operator.ranges(graph, node, lambda _: ANYTHING)
    rounding = half_rounding(np.maximum(np.abs(lowest), np.abs(highest)))
    error = np.minimum(error, highest - lowest + rounding)
    if not (size + own <= _LARGEST).all():
        return replace(_NOTHING, low=float(low.min()), high=float(high.max()))
    size = np.minimum(np.maximum(np.abs(low), np.abs(high)) + error, _LARGEST)
    return Known(float(low.min()), float(high.max()), error, size)


def _constant(values: npt.NDArray[np.generic]) -> Known:
    """A constant of an operand is one number, one of every channel, or taken as one magnitude."""
    numbers = values.astype(np.float64)
    sizes = np.abs(numbers).reshape(-1)
    if numbers.shape[-1:] != sizes.shape:
        sizes = sizes.max(keepdims=True)
    return Known(float(numbers.min()), float(numbers.max()), np.zeros_like(sizes), sizes)
