"""Records in fp16 of operators that compute element by element. Imported for float models only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.lower.half.curves import Curve, clamped, half_map_tasks, plan_half_map
from delegate.lower.half.stages import (
    HALF_MOST,
    ROUNDED,
    factors_of,
    float_bits,
    half_bits,
    half_clamp,
    hard_swish_bound,
)
from delegate.lower.lowered import EXACT, HalfBound
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.task import BnStage, BsStage, EwStage, Source, Stages, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Activation, Graph, Node, Tensor
from delegate.ops.operator import (
    Constraint,
    Ends,
    GraphFacts,
    Operator,
    RangeOf,
    Shape,
    constraint,
    named,
)
from delegate.ops.shared import common, half, half_ranges, half_rows
from delegate.ops.shared.half_constants import (
    SELECTING,
    behind_pair,
    is_per_channel,
    multiplied,
    with_constant,
)

_SHIFT, _MOST = 3, 6
"""HARD_SWISH: the value times (the value + 3, within 0 and 6) over 6."""


def _is_broadcast(constant: Tensor, shape: Shape) -> bool:
    """Return whether a constant is repeated to ``shape``, or has it."""
    try:
        return np.broadcast_shapes(constant.shape, shape) == tuple(shape)
    except ValueError:
        return False


def _is_alike(tensor: Tensor, shape: Shape) -> bool:
    """Return whether ``tensor`` has ``shape``, but for dimensions of 1 before it."""
    rank = max(len(tensor.shape), len(shape))
    own, other = ((1,) * (rank - len(given)) + tuple(given) for given in (tensor.shape, shape))
    return own == other


def is_narrow(tensor: Tensor, shape: Shape) -> bool:
    """Return whether ``tensor`` has one channel instead of those of ``shape``."""
    return tensor.constant is None and tensor.shape == (*shape[:-1], 1) != shape


@constraint()
def meets(facts: GraphFacts, node: Node) -> str | None:
    """Operands in fp16 must be computed and have the output's shape, or one of them one channel."""
    shape = facts.outputs(node)[0].shape
    operands = facts.inputs(node)
    others = [t for t in operands if t.shape != shape or t.constant is not None]
    if not others or (len(others) == 1 and is_narrow(others[0], shape)):
        return None
    return f"{named(others[-1])} is {list(others[-1].shape)}, the output {list(shape)}"


def _operands_meet(operation: EwOperation) -> Constraint:
    """Return the rule of operators of two operands."""
    takes_pixels = operation is EwOperation.MULTIPLY

    @constraint(most=int(HALF_MOST))
    def half_operands(facts: GraphFacts, node: Node) -> str | None:
        """Operands in fp16 must have the output's shape, but for ones before it; one may be a
        constant that is broadcast to it, from -{most} to {most}; one of MUL may be one pixel per
        image; one computed may have one channel, in MUL beside a constant per channel, too.
        """
        shape = facts.outputs(node)[0].shape
        operands = facts.inputs(node)
        constants = [t for t in operands if t.constant is not None]
        for tensor in constants:
            fits = half.fits_half(tensor.constant) and _is_broadcast(tensor, shape)
            if not fits or len(constants) > 1:
                return f"{named(tensor)} is a constant of shape {list(tensor.shape)}, or has others"
        computed = [t for t in operands if t.constant is None]
        others = [t for t in computed if not _is_alike(t, shape)]
        may_be_narrow = takes_pixels and all(is_per_channel(t, shape) for t in constants)
        if len(others) == 1 and is_narrow(others[0], shape) and (may_be_narrow or not constants):
            return None
        whole = view_of(shape)
        for tensor in others:
            pixel = view_of(tensor.shape)
            is_pixel = (pixel.pixels, pixel.channels) == (1, whole.channels)
            is_pixel = is_pixel and pixel.images in (1, whole.images)
            if not (takes_pixels and is_pixel and len(computed) == 2) or len(others) > 1:
                return f"{named(tensor)} is {list(tensor.shape)}, the output {list(shape)}"
        return None

    return half_operands


@constraint()
def computed_same_shape(facts: GraphFacts, node: Node) -> str | None:
    """The operand in fp16 must be computed, not constant, and have the output's shape."""
    feature, output = facts.features(node)
    if feature.constant is not None:
        return f"{named(feature)} is a constant"
    if feature.shape != output.shape:
        return f"{named(feature)} is {list(feature.shape)}, the output {list(output.shape)}"
    return None


RULES: Final = (*half.FIRST, common.rank_in_range, computed_same_shape)


def clamp_record(operator: Operator, activation: Activation) -> Operator:
    """Return the record of a RELU as an operator of its own."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        stages = Stages(bn=half_clamp(activation))
        return plan_half_map(planning, operation, lambda _: stages, EXACT)

    def ranges(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        return half_ranges.clamped(half_ranges.of_means(graph, node, range_of), activation)

    return half.half_record(operator, plan, RULES, ranges)


def curve_record(operator: Operator, curve: Curve) -> Operator:
    """Return the record of a function in the DPU's tables."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        stages, bound = curve.stages, curve.bound
        return plan_half_map(planning, operation, lambda _: stages, bound)

    return half.half_record(operator, plan, RULES, half_ranges.within(*sorted(curve.ends)))


def below_relu_record(operator: Operator, curve_of: Callable[[Node], Curve]) -> Operator:
    """Return the record of a function that is RELU less a curve, which is looked up into a work
    area first.
    """

    def plan(planning: Planning, operation: Operation) -> Plan:
        chip, curve = planning.chip, curve_of(operation.node)
        ew = EwStage(operand_bytes=Element.FP16.bytes, operation=EwOperation.SUBTRACT)
        stages = Stages(BsStage(relu=True), ew=ew)
        (operand,), result = operation.operands, planning.tensor(operation.result)
        touched = surfaces_touched(chip, result.view.channels)
        room = half_rows.map_of(chip, result, result.elements.channels).size_bytes
        footprint = Footprint(
            *(operation.node, ((operand, touched),), operation.result, touched), work_bytes=room
        )

        def tasks(memory: Memory) -> Iterator[Task]:
            given, target = memory.tensors[operand], memory.tensors[operation.result]
            gap = half_rows.map_of(chip, target, target.elements.channels, memory.work)
            yield from half_map_tasks(chip, curve.stages, [given], gap)
            yield from half_map_tasks(chip, stages, [given, gap], target)

        # The gap is at most as large as the result.
        off = curve.bound
        bound = HalfBound(
            (1 + off.relative) * (1 + ROUNDED.relative) - 1,
            absolute=(off.absolute + ROUNDED.absolute) * (1 + ROUNDED.relative),
        )
        return plan_of(planning, operation, footprint, tasks).within(bound)

    return half.half_record(operator, plan, RULES, half_ranges.of_gelu)


def hard_swish_record(operator: Operator) -> Operator:
    """BS and BN make the value's factor, EW multiplies it with the value, which it reads again."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        first, second = factors_of(_MOST)
        bs = BsStage(
            alu=Source.REGISTER,
            alu_operand=float_bits(_SHIFT),
            mul=Source.REGISTER,
            mul_operand=half_bits(first),
            relu=True,
            relux_max=float_bits(_MOST * first),  # exact: 13 bits
        )
        bn = BnStage(mul=Source.REGISTER, mul_operand=half_bits(second))
        ew = EwStage(operand_bytes=Element.FP16.bytes, operation=EwOperation.MULTIPLY)
        twice = replace(operation, operands=operation.operands[:1] * 2)
        stages = Stages(bs, bn, ew)
        bound = hard_swish_bound(first * second * _MOST)
        return plan_half_map(planning, twice, lambda _: stages, bound)

    return half.half_record(operator, plan, RULES, half_ranges.of_hard_swish)


@constraint(most=int(HALF_MOST))
def slope_per_channel(facts: GraphFacts, node: Node) -> str | None:
    """The slope in fp16 must be a constant of one value, or of one per channel, from -{most} to
    {most}.
    """
    feature, slope = facts.inputs(node)
    if feature.constant is not None or slope.constant is None:
        return f"{named(slope)} is computed, or the input is constant"
    if not is_per_channel(slope, feature.shape) or not half.fits_half(slope.constant):
        return f"{named(slope)} is {slope.dtype.name} of shape {list(slope.shape)}, or has others"
    return None


def slopes_record(
    operator: Operator,
    slopes: Callable[[Graph, Node], npt.NDArray[Any]],
    rules: tuple[Constraint, ...],
) -> Operator:
    """Return the record of PRELU and LEAKY_RELU: BN multiplies negative values by ``slopes``, one
    or one per channel.
    """

    def plan(planning: Planning, operation: Operation) -> Plan:
        exact = slopes(planning.graph, operation.node).reshape(-1)
        main = replace(operation, operands=operation.operands[:1])
        bn = BnStage(mul=Source.MEMORY, prelu=True)
        return multiplied(planning, main, exact, bn)

    def ranges(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        found = slopes(graph, node)
        return half_ranges.of_slopes(
            (float(found.min()), float(found.max())), range_of(node.inputs[0])
        )

    every = (*half.FIRST, common.rank_in_range, *rules)
    return half.half_record(operator, plan, every, ranges)


def constant_slopes(graph: Graph, node: Node) -> npt.NDArray[Any]:
    """Return the slopes of PRELU, input 1."""
    return half.constant_values(graph, node.inputs[1])


def pair_record(operator: Operator, operation: EwOperation) -> Operator:
    """Return the record of two maps, or of one and a constant, with a fused activation if the
    operator has one.
    """
    bound = EXACT if operation in SELECTING else ROUNDED

    def plan(planning: Planning, planned: Operation) -> Plan:
        graph = planning.graph
        activation = common.activation_of(operator, planned.node)
        result = graph.tensor(planned.result).shape
        main, other = planned.node.inputs
        given = graph.tensor(main)
        is_smaller = not _is_alike(given, result) and graph.tensor(other).constant is None
        if given.constant is not None or is_smaller:
            main, other = other, main
        constant = graph.tensor(other).constant
        alone = replace(planned, operands=(main,))
        if constant is not None and is_narrow(graph.tensor(main), result):
            return half_rows.plan_outer(planning, alone, constant, activation)
        if constant is not None:
            is_first = other == planned.node.inputs[0]
            return with_constant(
                planning, alone, graph.tensor(other), operation, activation, is_first
            )
        both = replace(planned, operands=(main, other))
        is_spread = any(is_narrow(graph.tensor(t), result) for t in planned.operands)
        is_pixel = not _is_alike(graph.tensor(other), result) and not is_spread
        ew, clamp = behind_pair(operation, activation, per_channel=is_pixel)
        if is_spread:
            pair = half_rows.plan_spread_pair(planning, planned, (Stages(ew=ew),)).within(bound)
        else:
            pair = plan_half_map(planning, both, lambda _: Stages(ew=ew), bound)
        return clamped(planning, pair, clamp)

    rules = (*half.FIRST, common.rank_in_range, _operands_meet(operation))
    return half.half_record(operator, plan, rules, half_ranges.of_pair(operation))
