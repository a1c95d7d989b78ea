"""The DPU stages of a convolution: requantisation.

In: a ``Convolution`` and the channels that operands are packed for. Out: BS, BN, EW and OUT_CVT
with their constants in the pool.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.lower.constants import ConstantPool
from delegate.lower.requantize import (
    UNIT_SCALE,
    UNIT_SHIFT,
    Requantization,
    accumulator_bounds,
    requantize,
)
from delegate.lower.resolved import Convolution
from delegate.lower.stages import Int64Array
from delegate.lower.task import BnStage, BsStage, EwStage, OutConvert, Ref, Source
from delegate.lower.weights import (
    pack_bias,
    pack_bn_multipliers,
    pack_ew_multipliers,
    pack_operand_blocks,
)


def conv_stages(
    conv: Convolution, cube_channels: int, constants: ConstantPool
) -> tuple[BsStage, BnStage, EwStage | None, OutConvert]:
    """The DPU stages. The accumulator's bounds come from the weights themselves."""
    chosen = choose_requantization(conv)
    packed = _pack_bs_operands(conv, chosen.bias, chosen.multipliers, cube_channels)
    return requantizing_stages(conv, chosen, constants.add(packed), cube_channels, constants)


def choose_requantization(conv: Convolution) -> Requantization:
    """The numbers of all stages of a convolution. Raises LoweringError."""
    terms = _terms(conv)
    return requantize(
        conv.node,
        conv.multipliers,
        _hardware_bias(conv, terms),
        accumulator_bounds(terms, conv.bias, conv.source.zero_point),
        conv.per_channel,
        conv.activation,
        conv.output_scale,
        conv.output_zero_point,
    )


def requantizing_stages(
    conv: Convolution,
    chosen: Requantization,
    bs_operands: Ref,
    cube_channels: int,
    constants: ConstantPool,
) -> tuple[BsStage, BnStage, EwStage | None, OutConvert]:
    """The stages of ``chosen``. ``bs_operands``: what BS adds, and multiplies with per channel."""
    bs = _bs_stage(conv, chosen.multipliers, chosen.bs_shift, bs_operands)
    bn = _bn_stage(chosen, cube_channels, constants)
    convert = OutConvert(
        scale=UNIT_SCALE,
        shift=UNIT_SHIFT + chosen.unit_bits,
        offset=chosen.output_zero_point + chosen.clamp.low_lsb,
        ties_away=True,
    )
    return bs, bn, _ew_stage(chosen, cube_channels, constants), convert


def _ew_stage(
    chosen: Requantization, cube_channels: int, constants: ConstantPool
) -> EwStage | None:
    """Multiplies channels to one unit, or clamps at a lower bound that is not the zero point."""
    clamp = chosen.clamp
    if chosen.ew_operands is not None:
        packed, operand_bytes = pack_ew_multipliers(chosen.ew_operands, cube_channels)
        return EwStage(
            operand=constants.add(packed),
            per_channel=True,
            operand_bytes=operand_bytes,
            multiplies=True,
            relu=clamp.relux_max is not None,
            relux_max=clamp.relux_max,
        )
    if clamp.low is None:
        return None
    return EwStage(register_operand=-clamp.low, relu=True, relux_max=clamp.relux_max)


def _hardware_bias(conv: Convolution, terms: npt.NDArray[np.int16]) -> Int64Array:
    """What the BS ALU adds: the array sums inputs with their zero point."""
    sums = terms.sum(axis=1, dtype=np.int64)
    return np.asarray(conv.bias - conv.source.zero_point * sums)


def _terms(conv: Convolution) -> npt.NDArray[np.int16]:
    """Weights without their zero point as [output channels, terms]; 9 bits, so int16 is enough."""
    weights = conv.weights.astype(np.int16) - np.int16(conv.weight_zero_point)
    if conv.is_depthwise:
        return weights.reshape(-1, weights.shape[-1]).T
    return weights.reshape(weights.shape[0], -1)


def _pack_bs_operands(
    conv: Convolution, bias: Int64Array, multipliers: Int64Array, cube_channels: int
) -> bytes:
    if not conv.per_channel:
        return pack_bias(bias, cube_channels)
    return pack_operand_blocks(bias, multipliers, cube_channels)


def _bs_stage(conv: Convolution, multipliers: Int64Array, shift: int, operands: Ref) -> BsStage:
    """BS with the bias from memory, and the multiplier from memory where channels differ."""
    if not conv.per_channel:
        return BsStage(
            alu=Source.MEMORY,
            mul=Source.REGISTER,
            mul_operand=int(multipliers[0]),
            shift=shift,
            shift_negative=shift,
            ow=Source.REGISTER,
            ow_operand=-conv.weight_zero_point,
            operands=operands,
        )
    # Per-channel weights have zero point 0 (TFLite), so the OW operands of the blocks are 0.
    return BsStage(
        alu=Source.MEMORY,
        mul=Source.MEMORY,
        shift=shift,
        shift_negative=shift,
        ow=Source.MEMORY,
        operands=operands,
    )


def _bn_stage(chosen: Requantization, cube_channels: int, constants: ConstantPool) -> BnStage:
    # Below zero EW's multiplication changes nothing; the upper limit is in the unit behind it.
    relu = chosen.clamp.relu and chosen.clamp.low is None
    relux_max = chosen.clamp.relux_max if relu and chosen.ew_operands is None else None
    if chosen.bn_operands is None:
        return BnStage(
            mul=Source.REGISTER,
            mul_operand=chosen.bn_multiplier,
            shift=chosen.bn_shift,
            shift_negative=chosen.bn_shift,
            relu=relu,
            relux_max=relux_max,
        )
    return BnStage(
        alu_operand=chosen.bn_summand or None,
        mul=Source.MEMORY,
        shift=chosen.bn_shift,
        shift_negative=chosen.bn_shift,
        relu=relu,
        relux_max=relux_max,
        operands=constants.add(pack_bn_multipliers(chosen.bn_operands, cube_channels)),
    )
