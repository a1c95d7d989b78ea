"""Plan a map and a constant in fp16: one value or one per channel in the DPU's stages, others as a
map that EW reads. Imported for float models only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.lower.binary_elementwise import pack_feature
from delegate.lower.half.curves import clamped, plan_half_map
from delegate.lower.half.stages import (
    HALF_MOST,
    ROUNDED,
    float_bits,
    half_bits,
    half_clamp,
    moved_and_back_bound,
    moved_bound,
)
from delegate.lower.lowered import EXACT, HalfBound
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import ConstantPool, Operation, Plan, Planning
from delegate.lower.task import BnStage, BsStage, EwStage, Source, Stages
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.lower.weights import padded_operands
from delegate.model.graph import Activation, Tensor
from delegate.ops.operator import Shape
from delegate.ops.shared import half_rows

SELECTING: Final = (EwOperation.MAX, EwOperation.MIN)
"""The operations that choose one of their operands."""

TIMES_MINUS_ONE: Final = BnStage(mul=Source.REGISTER, mul_operand=half_bits(-1.0))

_BEYOND: Final = 4 * HALF_MOST
"""Above all differences of two fp16; less any fp16, it still is an infinity. BS is known to
multiply and to cut off at 0 where it has an upper end, too.
"""

_MOST_END: Final = 16
"""The largest end that is taken from values and added again: both round to steps of at most 2^-20,
where those of a large end, such as 65504 for "none", would be larger than the values.
"""


def is_per_channel(constant: Tensor, shape: Shape) -> bool:
    """Return whether a constant is one value, or one per channel of ``shape``."""
    size = 1 if constant.constant is None else constant.constant.size
    return size == 1 or (len(shape) > 0 and constant.shape[-1:] == shape[-1:] == (size,))


def with_constant(
    planning: Planning,
    operation: Operation,
    constant: Tensor,
    which: EwOperation,
    activation: Activation,
    is_first: bool,
) -> Plan:
    """Return the plan of a map and a constant, its first operand if ``is_first``."""
    assert constant.constant is not None
    values = constant.constant.astype(np.float32)
    if which in SELECTING and values.size == 1 and abs(values.item()) <= _MOST_END:
        end = float(values.item())
        return _bounded(planning, operation, end, is_most=which is EwOperation.MIN)
    is_negated = False
    if which is EwOperation.SUBTRACT:
        which, is_negated = EwOperation.ADD, is_first
        values = values if is_first else -values
    shape = planning.graph.tensor(operation.result).shape
    if which in SELECTING or not is_per_channel(constant, shape):
        ew, clamp = behind_pair(which, activation)
        stages = Stages(bn=TIMES_MINUS_ONE if is_negated else BnStage(), ew=ew)
        bound = _bound_with(which, values)
        return clamped(planning, _with_map(planning, operation, values, stages, bound), clamp)
    if which is EwOperation.MULTIPLY:
        if activation is not Activation.NONE:
            return _scaled(planning, operation, values, np.zeros(1), activation)
        return multiplied(planning, operation, values, BnStage(mul=Source.MEMORY))
    if values.size > 1:
        sign = np.full(1, -1.0 if is_negated else 1.0)
        return _scaled(planning, operation, sign, values, activation)
    return _moved(planning, operation, float(values.item()), activation, is_negated=is_negated)


def behind_pair(
    operation: EwOperation, activation: Activation, *, per_channel: bool = False
) -> tuple[EwStage, BnStage]:
    """Return EW, and the clamp that tasks of their own have to do: EW is known to cut off at 0
    behind sums of two maps alone, and to have no upper end.
    """
    ew = EwStage(per_channel=per_channel, operand_bytes=Element.FP16.bytes, operation=operation)
    if (operation, activation) == (EwOperation.ADD, Activation.RELU):
        return replace(ew, relu=True), BnStage()
    return ew, half_clamp(activation)


def _scaled(
    planning: Planning,
    operation: Operation,
    exact: npt.NDArray[Any],
    summands: npt.NDArray[Any],
    activation: Activation,
) -> Plan:
    """Return the plan of products with ``exact`` constants, plus ``summands``, one or one per
    channel: a depthwise convolution of one tap, as nobody has run that in the DPU alone.
    """
    from delegate.lower.convolution import tiled_convolution
    from delegate.ops.shared.convolution import AS_IT_IS, convolution_of

    view = planning.tensor(operation.result).elements
    weights, bias = (
        np.array(np.broadcast_to(values.reshape(-1), (view.channels,)))
        for values in (exact.astype(np.float16), summands.astype(np.float32))
    )
    options, taps = replace(AS_IT_IS, activation=activation), weights.reshape(1, 1, -1)
    conv = convolution_of(planning, operation, options, taps, bias, view, is_depthwise=True)
    return tiled_convolution(planning, operation, conv).plan.within(moved_bound(exact))


def multiplied(
    planning: Planning, operation: Operation, exact: npt.NDArray[Any], bn: BnStage
) -> Plan:
    """Return the plan of a product with constants, in BN."""
    given = _per_lane(planning, operation, exact.astype(np.float16))
    packed = padded_operands(*given, "<f2").tobytes()

    def stages(constants: ConstantPool) -> Stages:
        return Stages(bn=replace(bn, operands=constants.add(packed)))

    return plan_half_map(planning, operation, stages, moved_bound(exact))


def _moved(
    planning: Planning,
    operation: Operation,
    number: float,
    activation: Activation,
    *,
    is_negated: bool,
) -> Plan:
    """Return the plan of a sum with a number, in BS, an fp32 as it is. ``is_negated``: of what is
    taken from it. Vendor's programs multiply by one number where they add one.
    """
    sign = -1.0 if is_negated else 1.0  # BS multiplies the sum
    bs = BsStage(
        alu=Source.REGISTER,
        alu_operand=float_bits(sign * number),
        mul=Source.REGISTER,
        mul_operand=half_bits(sign),
    )
    stages = Stages(bs, half_clamp(activation))
    return plan_half_map(planning, operation, lambda _: stages, ROUNDED)


def _bounded(planning: Planning, operation: Operation, end: float, *, is_most: bool) -> Plan:
    """Return the plan of values down to ``end``, or up to it: what they are beyond it, which BS
    cuts off, is counted from it again.
    """
    sign = half_bits(-1.0 if is_most else 1.0)
    bs = BsStage(
        alu=Source.REGISTER,
        alu_operand=float_bits(-end),
        mul=Source.REGISTER,
        mul_operand=sign,
        relu=True,
        relux_max=float_bits(_BEYOND),
    )
    bn = BnStage(float_bits(end), mul=Source.REGISTER, mul_operand=sign)
    return plan_half_map(planning, operation, lambda _: Stages(bs, bn), moved_and_back_bound(end))


def _with_map(
    planning: Planning,
    operation: Operation,
    values: npt.NDArray[Any],
    stages: Stages,
    bound: HalfBound,
) -> Plan:
    """Return the plan of ``stages`` whose EW reads constant ``values``, broadcast to the result:
    rounded to fp16, and with the zeros of its spare lanes.
    """

    def operand(constants: ConstantPool, target: DeviceTensor) -> DeviceTensor:
        view = target.elements
        whole = np.broadcast_to(values, planning.graph.tensor(operation.result).shape)
        sides = view.images, view.height, view.width, view.channels
        maps = np.ascontiguousarray(whole.reshape(sides).astype("<f2")).view(np.int8)
        layout = replace(half_rows.map_of(planning.chip, target, view.channels), zero_point=0)
        return replace(layout, location=constants.add(pack_feature(maps, layout)))

    return plan_half_map(planning, operation, lambda _: stages, bound, constant=operand)


def _bound_with(operation: EwOperation, values: npt.NDArray[Any]) -> HalfBound:
    """Return the bound of an operation with constants that are rounded to fp16."""
    if operation is EwOperation.MULTIPLY:
        return moved_bound(values)
    moved = float(np.abs(values - values.astype(np.float16).astype(np.float64)).max())
    bound = EXACT if operation in SELECTING else ROUNDED
    return replace(bound, absolute=bound.absolute + moved * (1 + bound.relative))


def _per_lane(
    planning: Planning, operation: Operation, values: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], int]:
    """Return ``values``, one or one per channel, and the lanes that tasks read of them."""
    result = planning.tensor(operation.result)
    room = surfaces_touched(planning.chip, result.view.channels)
    wide = np.broadcast_to(values.reshape(-1), (result.elements.channels,))
    return wide, room * Element.FP16.lanes
