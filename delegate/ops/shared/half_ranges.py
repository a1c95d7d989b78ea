"""Bound the values of float32 tensors, as far as a model's constants prove it.

Nothing is known of what comes from the CPU; clamps, tables and weights bound what follows from
them. Imported for float models only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from delegate.lower.half.stages import HALF_MOST, RELU6_MOST
from delegate.lower.numerics.pipeline import EwOperation
from delegate.model.graph import Activation, Graph, Node
from delegate.ops.operator import (
    Ends,
    GraphFacts,
    Operator,
    RangeOf,
    Ranges,
    constraint,
    named,
)
from delegate.ops.shared.common import activation_of

Range = tuple[float, float]

ANYTHING: Final = (-np.inf, np.inf)

_LOWEST_HARD_SWISH: Final = -0.375
_LOWEST_GELU: Final = -0.171

_RELATIVE: Final = 2.0**-9
_ABSOLUTE: Final = 2.0**-24
"""The widening of a range for what the roundings of a result may add."""


_known: WeakKeyDictionary[GraphFacts, dict[int, Ends]] = WeakKeyDictionary()


def half_ranges(facts: GraphFacts) -> dict[int, Ends]:
    """Return the ranges of results of nodes in fp16, by tensor, before what fp16 cannot hold is
    lost.
    """
    if facts not in _known:
        _known[facts] = _found(facts)
    return _known[facts]


def _found(facts: GraphFacts) -> dict[int, Ends]:
    found: dict[int, Ends] = {}

    def range_of(tensor: int) -> Range:
        constant = facts.graph.tensor(tensor).constant
        if constant is not None:
            return float(constant.min()), float(constant.max())
        if tensor not in found or beyond(found[tensor]) is not None:
            return ANYTHING
        low, high = (float(ends) for ends in (found[tensor][0].min(), found[tensor][1].max()))
        return low - _RELATIVE * abs(low) - _ABSOLUTE, high + _RELATIVE * abs(high) + _ABSOLUTE

    for node in facts.graph.nodes:
        operator = facts.known_operator(node)
        if operator is None or operator.ranges is None:
            continue
        try:
            low, high = operator.ranges(facts.graph, node, range_of)
            found[node.outputs[0]] = np.atleast_1d(low), np.atleast_1d(high)
        except Exception:  # the node's own rules say what is wrong with it
            continue
    return found


def beyond(ends: Ends) -> int | None:
    """Return the first channel that has values beyond fp16's, all of them or, where both ends are
    known, some; None: there is none.
    """
    low, high = ends
    surely = (low > HALF_MOST) | (high < -HALF_MOST)
    known = np.isfinite(low) & np.isfinite(high)
    reaches = known & (np.maximum(np.abs(low), np.abs(high)) > HALF_MOST)
    wrong = surely | reaches
    return int(wrong.argmax()) if wrong.any() else None


@constraint(most=int(HALF_MOST))
def half_range(facts: GraphFacts, node: Node) -> str | None:
    """Results in fp16 must not be proven to reach beyond -{most} to {most}: not all of a channel,
    nor any where constants bound what the node reads.
    """
    ends = half_ranges(facts).get(node.outputs[0])
    channel = None if ends is None else beyond(ends)
    if ends is None or channel is None:
        return None
    low, high = (float(end[channel]) for end in ends)
    of = f"channel {channel} of " if len(ends[0]) > 1 else ""
    return f"{of}{named(facts.outputs(node)[0])} reaches from {low:.6g} to {high:.6g}"


def clamped(ends: Ends, activation: Activation) -> Ends:
    """Return ``ends`` behind a fused activation."""
    if activation is Activation.NONE:
        return ends
    most = RELU6_MOST if activation is Activation.RELU6 else np.inf
    low, high = (np.clip(end, 0.0, most) for end in ends)
    return low, high


def behind_activation(operator: Operator, ranges: Ranges) -> Ranges:
    """Return ``ranges``, of results before the fused activation, behind it."""

    def found(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        return clamped(ranges(graph, node, range_of), activation_of(operator, node))

    return found


def of_sums(feature: int, outputs_axis: int) -> Ranges:
    """Return the ranges of sums of input number ``feature``, or of padding, times the weights
    (input 1), and of the bias, the input behind both.
    """

    def found(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        weights = kernels(graph, node, outputs_axis)
        weights = weights.reshape(len(weights), -1)
        rising, falling = (f(weights, 0.0).sum(1) for f in (np.maximum, np.minimum))
        low, high = _with_zero(range_of(node.inputs[feature]))
        bias = bias_behind(graph, node, feature)
        return (
            _times(rising, low) + _times(falling, high) + bias,
            _times(rising, high) + _times(falling, low) + bias,
        )

    return found


def kernels(graph: Graph, node: Node, outputs_axis: int) -> npt.NDArray[np.float64]:
    """Return the weights (input 1), output channels first."""
    constant = graph.tensor(node.inputs[1]).constant
    assert constant is not None
    return np.moveaxis(constant.astype(np.float64), outputs_axis, 0)


def bias_behind(graph: Graph, node: Node, feature: int) -> npt.NDArray[np.float64]:
    """Return the input behind the weights and input number ``feature``; 0: there is none."""
    behind = [t for t in node.inputs[max(feature, 1) + 1 :] if t >= 0]
    values = graph.tensor(behind[0]).constant if behind else np.zeros(1)
    assert values is not None
    return values.astype(np.float64)


def _times(weights: npt.NDArray[np.float64], end: float) -> npt.NDArray[np.float64]:
    """Multiply ``weights`` by ``end``. A weight of 0 gives 0, whatever it meets."""
    with np.errstate(invalid="ignore"):
        return np.where(weights == 0, 0.0, weights * end)


def _with_zero(values: Range) -> Range:
    return min(values[0], 0.0), max(values[1], 0.0)


def _ends(low: float, high: float) -> Ends:
    return np.array([low]), np.array([high])


def of_means(_: Graph, node: Node, range_of: RangeOf) -> Ends:
    """Return the range of what lies between values of the first input, or is one of them."""
    return _ends(*range_of(node.inputs[0]))


def of_padded(_: Graph, node: Node, range_of: RangeOf) -> Ends:
    """Return the range of the first input's values and zeros."""
    return _ends(*_with_zero(range_of(node.inputs[0])))


def within(low: float, high: float) -> Ranges:
    """Return a range that holds whatever the input is."""
    return lambda graph, node, range_of: _ends(low, high)


def of_hard_swish(_: Graph, node: Node, range_of: RangeOf) -> Ends:
    """Return the range of HARD_SWISH, from its lowest point, at -1.5."""
    return _ends(_LOWEST_HARD_SWISH, _with_zero(range_of(node.inputs[0]))[1])


def of_gelu(_: Graph, node: Node, range_of: RangeOf) -> Ends:
    """Return the range of GELU, from its lowest point, near -0.75."""
    return _ends(_LOWEST_GELU, _with_zero(range_of(node.inputs[0]))[1])


def of_slopes(slopes: Sequence[float], values: Range) -> Ends:
    """Return the range of values whose negative ones are multiplied by a slope."""
    below = [slope * min(values[0], 0.0) for slope in slopes if slope]
    return _ends(min(0.0, *below, 0.0), max(0.0, values[1], *below))


def of_pair(operation: EwOperation) -> Ranges:
    """Return the ranges of any value of one operand and any of the other."""

    def found(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        first, second = map(range_of, node.inputs)
        if operation is EwOperation.SUBTRACT:
            second = -second[1], -second[0]
        if operation in (EwOperation.ADD, EwOperation.SUBTRACT):
            return _ends(first[0] + second[0], first[1] + second[1])
        if operation is EwOperation.MULTIPLY:
            products = np.where(_no_term(first, second), 0.0, np.outer(first, second))
            return _ends(products.min(), products.max())
        choose = max if operation is EwOperation.MAX else min
        return _ends(choose(first[0], second[0]), choose(first[1], second[1]))

    return found


def _no_term(first: Range, second: Range) -> npt.NDArray[np.bool_]:
    """Return where a factor is 0, whatever the other one is."""
    zeros = (np.array(end) == 0 for end in (first, second))
    return np.asarray(np.logical_or.outer(*zeros))
