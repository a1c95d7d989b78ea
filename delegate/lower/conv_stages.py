"""The DPU stages of a convolution: a requantisation's pipeline with its operands in memory.

In: a ``Convolution`` and the channels that operands are packed for. Out: BS, BN, EW and OUT_CVT
with their constants in the pool.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.lowered import Difference
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics import one_rounding
from delegate.lower.numerics.bounds import (
    AccumulatorBounds,
    TermSums,
    accumulator_bounds,
    term_sums,
)
from delegate.lower.numerics.fused_prover import Following
from delegate.lower.numerics.pipeline import Ew, EwOperation, Int64Array, Pipeline
from delegate.lower.numerics.prover import Target
from delegate.lower.numerics.requantize import requantize, target_of
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.resolved import Convolution
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.task import BnStage, BsStage, EwStage, OutConvert, Ref, Source, Stages
from delegate.lower.weights import (
    pack_bias,
    pack_bn_multipliers,
    pack_ew_multipliers,
    pack_operand_blocks,
    pack_shifts,
)

TWO_ROUNDINGS = (
    "bn_multiplier",
    "bn_multiplier_per_channel",
    "ew_product_behind_convolution",
    "ew_product_per_channel",
    "wide_ew_operand",
)
"""Features of which a board that lacks one gets a single rounding instead."""


def conv_stages(
    conv: Convolution,
    cube_channels: int,
    constants: ConstantPool,
    fused: FusedStages | None = None,
    other: DeviceTensor | None = None,
) -> Stages:
    """The DPU stages. ``other``: what ``fused`` adds. Raises LoweringError."""
    if conv.element is Element.FP16:
        from delegate.lower.half.stages import half_conv_stages

        return half_conv_stages(conv, cube_channels, constants)
    if fused is None:
        pipeline, bias = choose_requantization(conv)
    else:
        pipeline, bias = fused.pipeline, fused.bias
    operands = constants.add(packed_operands(conv, pipeline, bias, cube_channels))
    return requantizing_stages(conv, pipeline, operands, cube_channels, constants, other)


def packed_operands(
    conv: Convolution, pipeline: Pipeline, bias: Int64Array, cube_channels: int
) -> bytes:
    """What BS adds, and multiplies with per channel, as memory has it."""
    if conv.chip.forms.operand_blocks:
        return _operand_blocks(conv, pipeline, bias, cube_channels)
    if conv.per_channel:
        return pack_operand_blocks(bias, bs_multipliers(pipeline), cube_channels)
    return pack_bias(bias, cube_channels)


def adding_stage(
    conv: Convolution, bias: Int64Array, cube_channels: int, constants: ConstantPool
) -> BsStage:
    """BS that adds ``bias`` and nothing else."""
    pipeline = Pipeline()
    operands = constants.add(packed_operands(conv, pipeline, bias, cube_channels))
    if conv.chip.forms.operand_blocks:
        return _bs_stage_of_blocks(conv, pipeline, operands, constants)
    return BsStage(alu=Source.MEMORY, operands=operands)


def _operand_blocks(
    conv: Convolution, pipeline: Pipeline, bias: Int64Array, cube_channels: int
) -> bytes:
    """All operands per channel, of a chip that has no registers for them. Channels that complete a
    group multiply by 1: with 0, others found results of the whole group missing on a board.
    """
    multipliers = np.broadcast_to(np.asarray(pipeline.bs.multiply), bias.shape)
    if int(multipliers.min()) < 1:
        channel = int(np.argmin(multipliers))
        raise LoweringError(
            conv.node,
            FORM_IS_KNOWN,
            f"output channel {channel} has a scale so far below the others that it would be "
            "multiplied by 0, which leaves its group without results",
        )
    # The zero point of depthwise weights is in their second bytes.
    ow = None if conv.is_depthwise else -conv.weight_zero_point
    return pack_operand_blocks(bias, multipliers, cube_channels, ow=ow, unused_multiplier=1)


@dataclass(frozen=True, slots=True, eq=False)
class FusedStages:
    """Stages that compute ``following`` behind the convolution; what the BS ALU adds to the array's
    sums, per channel; and how far the results are from TensorFlow Lite's.
    """

    following: Following
    pipeline: Pipeline
    bias: Int64Array
    difference: Difference


def fused_stages(conv: Convolution, following: Following) -> FusedStages | None:
    """None where no stages are proven near enough."""
    from delegate.lower.numerics.fused import requantize_fused  # on demand: numerics=fast

    sums = term_sums_of(conv)
    target = target_of_sums(conv, sums)
    found = requantize_fused(
        target,
        following,
        per_channel=conv.per_channel,
        clamps_in_bs=conv.chip.has("bs_clamp"),
    )
    if found is None:
        return None
    bias = _hardware_bias(conv, sums) + found.pipeline.bs.add
    difference = Difference(found.proof.worst, found.share)
    return FusedStages(following, found.pipeline, bias, difference)


def target_of_sums(conv: Convolution, sums: TermSums) -> Target:
    """What TensorFlow Lite computes of ``conv``. ``sums``: of its weights."""
    return target_of(
        conv.ratios,
        accumulator_bounds(sums, conv.bias, conv.source.zero_point),
        conv.output_zero_point,
        activation_range(conv.activation, conv.output_scale, conv.output_zero_point),
        rounds_once=conv.rounds_once,
    )


def share_differing(conv: Convolution) -> float:
    """About how many results differ from TensorFlow Lite's on a chip that multiplies once. Raises
    LoweringError where no stages are near enough.
    """
    pipeline, _ = choose_requantization(conv, most_differing=1.0)
    return one_rounding.share_differing(pipeline, target_of_sums(conv, term_sums_of(conv)))


def choose_requantization(
    conv: Convolution,
    *,
    is_in_parts: bool = False,
    most_differing: float = one_rounding.MOST_DIFFERING,
) -> tuple[Pipeline, Int64Array]:
    """The stages for TensorFlow Lite's accumulator, and what the BS ALU adds to the array's sums
    per channel. The accumulator's bounds come from the weights themselves. ``most_differing``: see
    ``requantize``. Raises LoweringError.
    """
    sums = term_sums_of(conv)
    bounds = accumulator_bounds(sums, conv.bias, conv.source.zero_point)
    pipeline = requantization(conv, bounds, is_in_parts=is_in_parts, most_differing=most_differing)
    return pipeline, _hardware_bias(conv, sums) + pipeline.bs.add


def requantization(
    conv: Convolution,
    bounds: AccumulatorBounds,
    *,
    is_in_parts: bool = False,
    most_differing: float = one_rounding.MOST_DIFFERING,
) -> Pipeline:
    """The stages for an accumulator within ``bounds``; see ``requantize``. Raises LoweringError."""
    return requantize(
        conv.node,
        conv.ratios,
        bounds,
        per_channel=conv.per_channel,
        rounds_once=conv.rounds_once,
        activation=conv.activation,
        output_scale=conv.output_scale,
        output_zero_point=conv.output_zero_point,
        is_in_parts=is_in_parts,
        rounds_in_bn=conv.chip.has(*TWO_ROUNDINGS),
        # Where it is for every node of every model that is compiled, the search is worth its time.
        is_sampled=not conv.chip.knows(*TWO_ROUNDINGS),
        has_ties_away=conv.chip.has("ties_away"),
        most_differing=most_differing,
    ).pipeline


def bs_multipliers(pipeline: Pipeline) -> Int64Array:
    """Of a per-channel node."""
    assert isinstance(pipeline.bs.multiply, np.ndarray)
    return pipeline.bs.multiply


def requantizing_stages(
    conv: Convolution,
    pipeline: Pipeline,
    bs_operands: Ref,
    cube_channels: int,
    constants: ConstantPool,
    other: DeviceTensor | None = None,
) -> Stages:
    """The stages of ``pipeline``. ``bs_operands``: what BS adds, and multiplies with per
    channel. ``other``: the tensor that EW takes.
    """
    bs = (
        _bs_stage_of_blocks(conv, pipeline, bs_operands, constants)
        if conv.chip.forms.operand_blocks
        else _bs_stage(conv, pipeline, bs_operands)
    )
    return Stages(
        bs,
        _bn_stage(pipeline, cube_channels, constants),
        None if pipeline.ew is None else _ew_stage(pipeline.ew, cube_channels, constants, other),
        out_convert(pipeline),
    )


def out_convert(pipeline: Pipeline) -> OutConvert:
    """The last stage of ``pipeline``."""
    out = pipeline.out
    return OutConvert(out.scale, out.shift, out.offset, ties_away=out.ties_away)


def _ew_stage(
    ew: Ew, cube_channels: int, constants: ConstantPool, other: DeviceTensor | None
) -> EwStage:
    """A power of two per channel from memory, a constant from a register, or another tensor."""
    if ew.operand is None:
        assert other is not None
        return EwStage(
            operand=other.location,
            surface_stride_bytes=other.surface_stride_bytes,
            offset=ew.offset,
            scale=ew.scale,
            shift=ew.operand_shift,
        )
    if isinstance(ew.operand, int):
        assert ew.operation is EwOperation.ADD
        return EwStage(register_operand=ew.operand, relu=ew.relu, relux_max=ew.relux)
    packed, operand_bytes = pack_ew_multipliers(ew.operand, cube_channels)
    return EwStage(
        operand=constants.add(packed),
        per_channel=True,
        operand_bytes=operand_bytes,
        operation=ew.operation,
        relu=ew.relu,
        relux_max=ew.relux,
    )


def _hardware_bias(conv: Convolution, sums: TermSums) -> Int64Array:
    """What the BS ALU adds: the array sums inputs with their zero point."""
    return np.asarray(conv.bias - conv.source.zero_point * sums.total)


def term_sums_of(conv: Convolution) -> TermSums:
    """Of the weights of each output channel."""
    weights = conv.weights
    if conv.is_depthwise:
        return term_sums(weights.reshape(-1, weights.shape[-1]).T, conv.weight_zero_point)
    return term_sums(weights.reshape(weights.shape[0], -1), conv.weight_zero_point)


def _bs_stage_of_blocks(
    conv: Convolution, pipeline: Pipeline, operands: Ref, constants: ConstantPool
) -> BsStage:
    """BS with everything from memory."""
    bs = pipeline.bs
    return BsStage(
        alu=Source.MEMORY,
        mul=Source.MEMORY,
        shift=bs.shift,
        shift_negative=bs.shift,
        ow=Source.OFF if conv.is_depthwise else Source.MEMORY,
        relu=bs.relu,
        relux_max=bs.relux,
        operands=operands,
        scalars=constants.add(pack_shifts(bs.shift, bs.shift)),
    )


def _bs_stage(conv: Convolution, pipeline: Pipeline, operands: Ref) -> BsStage:
    """BS with the bias from memory, and the multiplier from memory where channels differ."""
    bs = pipeline.bs
    stage = BsStage(
        alu=Source.MEMORY,
        mul=Source.MEMORY,
        shift=bs.shift,
        shift_negative=bs.shift,
        ow=Source.MEMORY,
        relu=bs.relu,
        relux_max=bs.relux,
        operands=operands,
    )
    if not isinstance(bs.multiply, int):
        # Per-channel weights have zero point 0 (TFLite), so the OW operands of the blocks are 0.
        return stage
    return replace(
        stage,
        mul=Source.REGISTER,
        mul_operand=bs.multiply,
        ow=Source.REGISTER,
        ow_operand=-conv.weight_zero_point,
    )


def _bn_stage(pipeline: Pipeline, cube_channels: int, constants: ConstantPool) -> BnStage:
    bn = pipeline.bn
    assert isinstance(bn.add, int)
    stage = BnStage(alu_operand=bn.add or None, relu=bn.relu, relux_max=bn.relux)
    if isinstance(bn.multiply, int):
        if bn.multiply == 1 and bn.shift == 0:
            return stage
        stage = replace(stage, mul=Source.REGISTER, mul_operand=bn.multiply)
    else:
        packed = pack_bn_multipliers(bn.multiply, cube_channels)
        stage = replace(stage, mul=Source.MEMORY, operands=constants.add(packed))
    return replace(stage, shift=bn.shift, shift_negative=bn.shift)
