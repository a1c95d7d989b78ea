"""Records in fp16 of operators that compute element by element. Imported for float models only."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from delegate.chip.element import Element
from delegate.lower.constants import ConstantPool
from delegate.lower.half.bound import EXACT, ROUNDED
from delegate.lower.half.maps import HalfMapPlan, HalfStages
from delegate.lower.half.stages import HALF_MOST, half_clamp
from delegate.lower.half.weights import pack_slopes
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import BnStage, EwStage, Source
from delegate.lower.tiling.element_wise import surfaces_touched
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


@constraint(most=int(HALF_MOST))
def slope_per_channel(facts: GraphFacts, node: Node) -> str | None:
    """The slope in fp16 must be a constant of one value, or of one per channel, from -{most} to
    {most}.
    """
    feature, slope = facts.inputs(node)
    channels = feature.shape[-1] if feature.shape else 1
    if feature.constant is not None or slope.constant is None:
        return f"{named(slope)} is computed, or the input is constant"
    size = slope.constant.size
    fits = size == 1 or (size == channels and slope.shape[-1] == channels)
    if not fits or not half.fits_half(slope.constant):
        return f"{named(slope)} is {slope.dtype.name} of shape {list(slope.shape)}, or has others"
    return None


def slopes_record(operator: Operator) -> Operator:
    """Of PRELU: BN multiplies negative values."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        view = planning.tensor(operation.result).elements
        exact = half.constant_values(graph, node.inputs[1]).reshape(-1)
        slopes = np.broadcast_to(exact.astype(np.float16), (view.channels,))
        room = surfaces_touched(planning.chip, planning.tensor(operation.result).view.channels)

        def stages(constants: ConstantPool) -> HalfStages:
            packed = pack_slopes(slopes, room * Element.FP16.lanes)
            place = constants.add(packed)
            return HalfStages(bn=BnStage(mul=Source.MEMORY, prelu=True, operands=place))

        changed = np.abs(exact.astype(np.float64) - exact.astype(np.float16))
        bound = replace(ROUNDED, per_input=float(changed.max()))
        main = replace(operation, operands=operation.operands[:1])
        return HalfMapPlan(planning, main, stages, bound.text)

    rules = (*half.FIRST, rank_in_range, slope_per_channel)
    return half.half_record(operator, plan, rules, same_shape)


def pair_record(operator: Operator, operation: EwOperation) -> Operator:
    """Of two maps, with a fused activation if the operator has one."""
    bound = EXACT if operation in _SELECTING else ROUNDED

    def plan(planning: Planning, planned: Operation) -> Plan:
        kind = operator.options
        options = None if kind is None else planned.node.known_options(kind)
        clamp = half_clamp(getattr(options, "activation", Activation.NONE))
        ew = EwStage(
            operand_bytes=Element.FP16.bytes,
            operation=operation,
            relu=clamp.relu,
            relux_max=clamp.relux_max,
        )

        def stages(_: ConstantPool) -> HalfStages:
            return HalfStages(ew=ew)

        return HalfMapPlan(planning, planned, stages, bound.text)

    return half.half_record(operator, plan, RULES, same_shape)
