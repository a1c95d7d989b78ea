"""Bound how operands' errors reach results in fp16: ``Spread`` of operators. Beside it comes what
the device rounds in the node itself (``delegate.lower.half.bound``).

A clamp moves nothing further apart, so a fused activation changes nothing here. Imported for float
models only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import EwOperation
from delegate.model.graph import DType, Graph, Node
from delegate.ops.operator import Known, KnownOf, Moved, Ranges, Spread
from delegate.ops.shared import half_ranges
from delegate.ops.shared.half_ranges import bias_behind, kernels

Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of results before the fused activation: their ``ranges``, and the ``spread`` of
    operands' errors in them.
    """

    ranges: Ranges
    spread: Spread


_STEEPEST_HARD_SWISH: Final = 1.5
"""At 3: (2 * 3 + 3) / 6."""


def of_choice(graph: Graph, node: Node, known_of: KnownOf) -> Moved:
    """Bound what is among the float32 inputs' values, or lies between them, wherever that is."""
    given = (t for t in node.inputs if t >= 0 and graph.tensor(t).dtype is DType.FLOAT32)
    known = [of_all(known_of(t)) for t in given]
    return np.max([one.error for one in known], axis=0), np.max([one.size for one in known], axis=0)


def of_all(known: Known) -> Known:
    """``known``, of all channels together."""
    error, size = (part.max(keepdims=True) for part in (known.error, known.size))
    return replace(known, error=error, size=size)


def by_channel(_: Graph, node: Node, known_of: KnownOf) -> Moved:
    """Bound what is among the first input's values of the same channel, or lies between them."""
    known = known_of(node.inputs[0])
    return known.error, known.size


BY_CHANNEL: Final = Proof(half_ranges.of_means, by_channel)
"""The proof of what lies between values of a channel of the first input."""


def sums(feature: int, outputs_axis: int, *, is_depthwise: bool = False) -> Proof:
    """Return the proof for ``half_ranges.of_sums``: every error times the weight that it meets."""

    def found(graph: Graph, node: Node, known_of: KnownOf) -> Moved:
        weights = np.abs(kernels(graph, node, outputs_axis))
        known = known_of(node.inputs[feature])
        bias = np.abs(bias_behind(graph, node, feature))
        error, size = (_summed(weights, part, is_depthwise) for part in (known.error, known.size))
        return error, size + bias

    return Proof(half_ranges.of_sums(feature, outputs_axis), found)


def _summed(weights: Real, values: Real, is_depthwise: bool) -> Real:
    """``values``, of every input channel or of all, times weights, whose last axis those are, or
    which have one of them for as many outputs each.
    """
    outputs = len(weights)
    if is_depthwise:
        totals = weights.reshape(outputs, -1).sum(1)
        return np.asarray(totals * np.repeat(values, outputs // len(values)))
    inputs = weights.shape[-1]
    totals = weights.reshape(outputs, -1, inputs).sum(1)
    one_each = values if len(values) == inputs else np.full(inputs, values.max())
    return np.asarray(totals @ one_each)


def pair(operation: EwOperation) -> Proof:
    """Return the proof of a sum, a difference, a product, or the larger or smaller one."""

    def found(_: Graph, node: Node, known_of: KnownOf) -> Moved:
        first, second = map(known_of, node.inputs)
        if operation in (EwOperation.ADD, EwOperation.SUBTRACT):
            return first.error + second.error, first.size + second.size
        if operation is EwOperation.MULTIPLY:
            moved = first.error * second.size + second.error * first.size
            return moved, first.size * second.size
        return np.maximum(first.error, second.error), np.maximum(first.size, second.size)

    return Proof(half_ranges.of_pair(operation), found)


def of_slopes(slopes: Callable[[Graph, Node], npt.NDArray[Any]]) -> Spread:
    """Return the spread of negative values times a slope, and of others as they are."""

    def found(graph: Graph, node: Node, known_of: KnownOf) -> Moved:
        steepest = np.maximum(1.0, np.abs(slopes(graph, node).astype(np.float64).reshape(-1)))
        known = known_of(node.inputs[0])
        return known.error * steepest, known.size * steepest

    return found


def of_function(slope: float, most: float) -> Spread:
    """Return the spread of a function that is nowhere steeper than ``slope`` and has no larger
    magnitude.
    """

    def found(_: Graph, node: Node, known_of: KnownOf) -> Moved:
        error = known_of(node.inputs[0]).error
        return error * slope, np.full_like(error, most)

    return found


def of_hard_swish(_: Graph, node: Node, known_of: KnownOf) -> Moved:
    """Its magnitude is at most the operand's."""
    known = known_of(node.inputs[0])
    return known.error * _STEEPEST_HARD_SWISH, known.size
