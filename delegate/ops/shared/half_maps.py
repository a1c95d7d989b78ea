"""Records in fp16 of operators that compute element by element. Imported for float models only."""

from __future__ import annotations

from typing import Final

from delegate.lower.constants import ConstantPool
from delegate.lower.half.bound import EXACT, ROUNDED
from delegate.lower.half.maps import HalfMapPlan, HalfStages
from delegate.lower.half.stages import half_clamp
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import EwStage
from delegate.model.graph import Activation, Graph, Node
from delegate.ops.operator import GraphFacts, Operator, Shape, constraint, named
from delegate.ops.shared import half
from delegate.ops.shared.functions import rank_in_range

_SELECTING: Final = (EwOperation.MAX, EwOperation.MIN)


@constraint()
def computed_same_shapes(facts: GraphFacts, node: Node) -> str | None:
    """Operands in fp16 must be computed, not constant, and have the output's shape."""
    output = facts.outputs(node)[0]
    for tensor in facts.features(node)[:-1]:
        if tensor.constant is not None:
            return f"{named(tensor)} is a constant"
        if tensor.shape != output.shape:
            return f"{named(tensor)} is {list(tensor.shape)}, the output {list(output.shape)}"
    return None


RULES: Final = (*half.FIRST, rank_in_range, computed_same_shapes)


def same_shape(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The result's shape is the first input's."""
    return (graph.tensor(node.inputs[0]).shape,)


def clamp_record(operator: Operator, activation: Activation) -> Operator:
    """Of a RELU as an operator of its own."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        stages = HalfStages(bn=half_clamp(activation))
        return HalfMapPlan(planning, operation, lambda _: stages, EXACT.text)

    return half.half_record(operator, plan, RULES, same_shape)


def pair_record(operator: Operator, operation: EwOperation) -> Operator:
    """Of two maps, with a fused activation if the operator has one."""
    bound = EXACT if operation in _SELECTING else ROUNDED

    def plan(planning: Planning, planned: Operation) -> Plan:
        kind = operator.options
        options = None if kind is None else planned.node.known_options(kind)
        clamp = half_clamp(getattr(options, "activation", Activation.NONE))
        ew = EwStage(
            operand_bytes=2, operation=operation, relu=clamp.relu, relux_max=clamp.relux_max
        )

        def stages(_: ConstantPool) -> HalfStages:
            return HalfStages(ew=ew)

        return HalfMapPlan(planning, planned, stages, bound.text)

    return half.half_record(operator, plan, RULES, same_shape)
