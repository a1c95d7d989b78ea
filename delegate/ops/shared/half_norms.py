"""Records in fp16 of the nodes of layer normalisation that are none of others. Imported for float
models only.

Find one over the standard deviation of a pixel's channels, as converters store it for layer
normalisation: RSQRT of a small constant plus MEAN of squared distances. In fp16 squares, and their
means, would soon leave what can be held, on both sides: the NPU computes all four nodes as one, see
``half_deviations``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from delegate.lower.half.curves import plan_half_map
from delegate.lower.half.stages import ROUNDED
from delegate.lower.lowered import EXACT, HalfBound
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import Stages
from delegate.model.graph import Activation, DType, Graph, Node
from delegate.ops.operator import Ends, GraphFacts, Operator, RangeOf, Role, Whole, constraint
from delegate.ops.shared import common, half
from delegate.ops.shared.common import activation_of
from delegate.ops.shared.half_constants import TIMES_MINUS_ONE
from delegate.ops.shared.half_deviations import DISTANCE, SQUARE, plan_deviation
from delegate.ops.shared.half_maps import RULES, meets
from delegate.ops.shared.half_rows import plan_spread_pair
from delegate.ops.shared.reductions import ReducerOptions, reduces_channels

_NEGATIVE: Final = Stages(bn=TIMES_MINUS_ONE)
_MAGNITUDE: Final = Stages(bn=replace(TIMES_MINUS_ONE, prelu=True))
_SQUARED: Final = HalfBound((1 + ROUNDED.relative) ** 3 - 1, absolute=ROUNDED.absolute)
"""A distance's rounding counts twice; a subnormal distance has none."""


def negative_record(operator: Operator) -> Operator:
    """Return the record of NEG."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        return plan_half_map(planning, operation, lambda _: _NEGATIVE, EXACT)

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        low, high = range_of(node.inputs[0])
        return np.array([-high]), np.array([-low])

    return half.half_record(operator, plan, RULES, ranges)


def magnitude_record(operator: Operator) -> Operator:
    """Return the record of ABS: a negative value times -1."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        return plan_half_map(planning, operation, lambda _: _MAGNITUDE, EXACT)

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        low, high = range_of(node.inputs[0])
        return np.array([max(low, -high, 0.0)]), np.array([max(-low, high)])

    return half.half_record(operator, plan, RULES, ranges)


def squares_record(operator: Operator) -> Operator:
    """Return the record of SQUARE and SQUARED_DIFFERENCE."""
    is_distance = len(operator.inputs) > 1

    def plan(planning: Planning, operation: Operation) -> Plan:
        if not is_distance:
            twice = replace(operation, operands=operation.operands * 2)
            return plan_half_map(planning, twice, lambda _: SQUARE, ROUNDED)
        return plan_spread_pair(planning, operation, (DISTANCE, SQUARE)).within(_SQUARED)

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        first, second = (range_of(t) for t in (node.inputs * 2)[:2])
        if not is_distance:
            second = 0.0, 0.0
        most = max(abs(first[1] - second[0]), abs(second[1] - first[0]))
        return np.zeros(1), np.array([most**2])

    rules = (*half.FIRST, common.rank_in_range, meets) if is_distance else RULES
    return half.half_record(operator, plan, rules, ranges)


def root_record(operator: Operator) -> Operator:
    """Return the record of RSQRT, which stands for all nodes of a deviation: its inputs are then
    the pair and the constant.
    """

    def ranges(_: Graph, node: Node, range_of: RangeOf) -> Ends:
        least = range_of(node.inputs[0])[0]
        return np.zeros(1), np.array([1 / math.sqrt(least) if least > 0 else np.inf])

    rules = (*RULES, root_of_a_deviation)
    made = half.half_record(operator, plan_deviation, rules, ranges)
    inputs = (Role.FEATURE, Role.OPERAND, Role.NUMBERS)
    return replace(made, inputs=inputs, needed=1, whole=whole)


_LEAST_EPSILON, _MOST_EPSILON = 2.0**-31, 1.0
"""One over the root of less comes near the end of fp16."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """``nodes``: squares, mean, sum and root. ``epsilon``: the tensor that has the constant.
    ``pair``: the tensors whose distances are squared, or twice the one that has them.
    """

    nodes: tuple[Node, ...]
    pair: tuple[int, int]
    epsilon: int


def deviation_of(facts: GraphFacts, root: Node) -> Deviation | None:
    """Return the deviation whose root is ``root``; None: it is of something else, or others read
    what lies in between.
    """
    addition = _maker(facts, root.inputs[0], "ADD")
    if addition is None or len(addition.inputs) != 2:
        return None
    if activation_of(facts.operator(addition), addition) is not Activation.NONE:
        return None
    epsilon = next((t for t in addition.inputs if _is_epsilon(facts.graph, t)), None)
    if epsilon is None:
        return None
    (variance,) = (t for t in addition.inputs if t != epsilon)
    mean = _maker(facts, variance, "MEAN")
    if mean is None or mean.options_as(ReducerOptions) is None or len(mean.inputs) != 2:
        return None
    if not reduces_channels(facts.graph, mean):
        return None
    squares = facts.makers.get(mean.inputs[0])
    if squares is None or not _is_between(facts, mean.inputs[0]):
        return None
    pair = _squared(facts, squares)
    if pair is None:
        return None
    return Deviation((squares, mean, addition, root), pair, epsilon)


def whole(facts: GraphFacts, root: Node) -> Whole | None:
    """Return its nodes as one, whose inputs are the pair and the constant."""
    found = deviation_of(facts, root)
    if found is None:
        return None
    return Whole(found.nodes, (*found.pair, found.epsilon), root.outputs)


@constraint(least=_LEAST_EPSILON, most=_MOST_EPSILON)
def root_of_a_deviation(facts: GraphFacts, node: Node) -> str | None:
    """In fp16 it must be of a constant of {least:.1e} to {most:g} plus the MEAN over channels of
    SQUARE, SQUARED_DIFFERENCE or MUL by itself, read by nobody else.
    """
    return "it is not" if deviation_of(facts, node) is None else None


def _maker(facts: GraphFacts, tensor: int, op: str) -> Node | None:
    node = facts.makers.get(tensor)
    return node if node is not None and node.op == op and _is_between(facts, tensor) else None


def _is_between(facts: GraphFacts, tensor: int) -> bool:
    """Return whether one node alone reads ``tensor``, once."""
    return len(facts.readers.get(tensor, ())) == 1 and tensor not in facts.graph.outputs


def _is_epsilon(graph: Graph, index: int) -> bool:
    tensor = graph.tensor(index)
    values = tensor.constant
    if values is None or values.size != 1 or tensor.dtype is not DType.FLOAT32:
        return False
    return bool(np.isfinite(values).all()) and _LEAST_EPSILON <= values.item() <= _MOST_EPSILON


def _squared(facts: GraphFacts, node: Node) -> tuple[int, int] | None:
    """Return the two tensors whose distance ``node`` squares, or twice the one that it squares."""
    graph = facts.graph
    shape = graph.tensor(node.outputs[0]).shape
    first, second = (node.inputs * 2)[:2]
    if first >= 0 and graph.tensor(first).shape != shape:
        first, second = second, first
    if first < 0 or graph.tensor(first).constant is not None or graph.tensor(first).shape != shape:
        return None
    if node.op == "SQUARED_DIFFERENCE":
        other = graph.tensor(second)
        meets = other.shape in (shape, (*shape[:-1], 1))
        return (first, second) if meets and other.constant is None and first != second else None
    is_product = node.op == "MUL" and first == second
    if is_product and activation_of(facts.operator(node), node) is not Activation.NONE:
        return None
    return (first, first) if is_product or node.op == "SQUARE" else None
