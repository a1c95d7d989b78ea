"""The DPU stages of a convolution: a requantisation's pipeline with its operands in memory.

In: a ``Convolution``. Out: BS, BN, EW and OUT_CVT
with their constants in the pool.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from delegate.chip.chip import Primitive
from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution, operand_channels
from delegate.lower.legalize import (
    RECORD,
    REGISTER,
    SUMMAND,
    bn_stage,
    is_known,
    may_add_behind,
    rounds_twice,
    table_behind,
    ties_away,
)
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.factors import UNIT_SCALE, UNIT_SHIFT
from delegate.lower.numerics.lines import composed
from delegate.lower.numerics.looked_up import differences, looked_up
from delegate.lower.numerics.pipeline import (
    Ew,
    EwOperation,
    FloatArray,
    Int64Array,
    Joined,
    MultiplyStage,
    Pipeline,
)
from delegate.lower.numerics.prover import follows
from delegate.lower.numerics.requantize import Requantization, Ways, requantize
from delegate.lower.numerics.sum_behind import sum_behind
from delegate.lower.numerics.tflite import (
    Target,
)
from delegate.lower.operation import ConstantPool
from delegate.lower.rules import FORM_IS_KNOWN, MULTIPLIERS_KEEP_BITS
from delegate.lower.task import BnStage, BsStage, EwStage, Ref, Source, Stages, TableUse
from delegate.lower.weights import (
    pack_bn_multipliers,
    pack_ew_multipliers,
    pack_operand_blocks,
    pack_shifts,
    padded_operands,
)


def conv_stages(conv: Convolution, constants: ConstantPool, joined: Joined | None = None) -> Stages:
    """Return the DPU stages, ``joined`` if a function is. Raises LoweringError."""
    if conv.element is Element.FP16:
        from delegate.lower.half.stages import half_conv_stages

        return half_conv_stages(conv, constants)
    pipeline = requantization(conv, conv.wanted) if joined is None else joined.pipeline
    stages = stages_of(conv, pipeline, summands(conv, pipeline), constants)
    if joined is None or joined.entries is None:
        return stages
    # BN takes part even where it adds 0 and multiplies by 1: known tasks have it so.
    bn = pipeline.bn
    assert isinstance(bn.multiply, int)
    index = BnStage(0, Source.REGISTER, bn.multiply, bn.shift, bn.shift)
    table = TableUse((joined.entries.astype("<i2").tobytes(),), 0)
    return stages._replace(bn=index, table=table)


def stages_of(
    conv: Convolution, pipeline: Pipeline, bias: Int64Array, constants: ConstantPool
) -> Stages:
    """Return the stages of ``pipeline``, of which BS adds ``bias`` per channel."""
    channels, multipliers = operand_channels(conv), record_multipliers(conv, pipeline)
    if Primitive.REGISTER_NUMBERS in conv.chip.lacks:
        packed = _operand_blocks(conv, pipeline, bias, channels)
    elif multipliers is None:
        packed = padded_operands(bias, channels, "<i4").tobytes()
    else:
        packed = pack_operand_blocks(bias, multipliers, channels, ow=-conv.weight_zero_point)
    return requantizing_stages(conv, pipeline, constants.add(packed), channels, constants)


def record_multipliers(conv: Convolution, pipeline: Pipeline) -> Int64Array | None:
    """Return BS's multiplier of each channel, if it is in memory; None: it is in a register, or
    there is none. One number for all channels is in memory, too, where no register is known to do
    it.
    """
    multiply = pipeline.bs.multiply
    if isinstance(multiply, np.ndarray):
        return multiply
    if pipeline.bs.is_plain or is_known(conv.chip, conv.kind, REGISTER):
        return None
    return np.full(conv.output_view.channels, multiply, np.int64)


def adding_stage(conv: Convolution, bias: Int64Array, constants: ConstantPool) -> BsStage:
    """Return BS that adds ``bias`` and nothing else; by a record whose multipliers, shifted, are 1
    where nothing else is known.
    """
    pipeline = Pipeline()
    if not is_known(conv.chip, conv.kind, SUMMAND) and is_known(conv.chip, conv.kind, RECORD):
        pipeline = Pipeline(
            MultiplyStage(multiply=np.full(bias.size, UNIT_SCALE), shift=UNIT_SHIFT)
        )
    bs = stages_of(conv, pipeline, bias, constants).bs
    return bs if bs.is_in_blocks else BsStage(alu=Source.MEMORY, operands=bs.operands)


def _operand_blocks(
    conv: Convolution, pipeline: Pipeline, bias: Int64Array, cube_channels: int
) -> bytes:
    """Pack all operands per channel, of a chip that has no registers for them. Channels that
    complete a group multiply by 1: with 0, others found results of the whole group missing on a
    board.
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


def joined_stages(conv: Convolution, function: Int64Array) -> Joined | None:
    """Return the stages with ``function`` of the result, for -128 to 127. None where no known
    stages are near enough.
    """
    found = _with_line(conv, function)
    return _with_table(conv, function) if found is None else found


def _with_line(conv: Convolution, function: Int64Array) -> Joined | None:
    """Return the stages of a line behind the convolution, which need no table."""
    target = conv.wanted
    line = composed(target, function)
    if line is None:
        return None
    both, moved = line
    try:
        chosen = requantized(conv, both, is_joined=True)
    except LoweringError:
        return None
    bs = chosen.pipeline.bs
    pipeline = replace(chosen.pipeline, bs=replace(bs, add=bs.add + moved))
    is_near = chosen.is_near and follows(pipeline, target, function)
    if not is_near or not _is_run(conv, pipeline):
        return None
    differs = partial(differences, pipeline, target, function, _results)
    return Joined(pipeline, None, differs)


def clamps_apart(conv: Convolution) -> bool:
    """Return whether nobody is known to have run the activation's clamps in tasks of this kind: a
    task behind them clamps then.
    """
    try:
        pipeline = requantized(conv, conv.wanted).pipeline
    except LoweringError:
        return False  # whoever asks for the stages is told
    is_number = pipeline.ew is None or isinstance(pipeline.ew.operand, int)
    return pipeline.bn.relu and is_number and not _is_run(conv, pipeline)


def _results(stages: Pipeline, accumulators: Int64Array) -> FloatArray:
    return stages.run(accumulators.astype(np.float64))


def _is_run(conv: Convolution, pipeline: Pipeline) -> bool:
    """Return whether others have run the stages of ``pipeline``, whose EW adds a register's number,
    if it does anything.
    """
    stages = SUMMAND if record_multipliers(conv, pipeline) is None else RECORD
    if not pipeline.bs.is_plain and stages is SUMMAND:
        stages = REGISTER
    ew = None if pipeline.ew is None else _register_stage(pipeline.ew)
    behind = stages._replace(bn=bn_stage(pipeline.bn), ew=ew)
    return is_known(conv.chip, conv.kind, behind)


def _with_table(conv: Convolution, function: Int64Array) -> Joined | None:
    target, results = conv.wanted, tuple(function.tolist())
    for multiplies in (False, True):
        if multiplies != conv.per_channel and not multiplies:
            continue
        if not is_known(conv.chip, conv.kind, table_behind(multiplies)):
            continue
        found = looked_up(target, results, per_channel=conv.per_channel, multiplies=multiplies)
        if found is not None:
            return found
    return None


def stages_with_sum(conv: Convolution, other: DeviceTensor, result: DeviceTensor) -> Joined | None:
    """Return the stages that also add the map ``other``, which gives ``result``. None where no
    known stages are near enough.
    """
    scales = conv.output_scale, other.scale, result.scale
    zero_points = other.zero_point, result.zero_point
    found = sum_behind(conv.wanted, scales, zero_points)
    if found is None:
        return None
    bn = bn_stage(found.pipeline.bn)
    return found if may_add_behind(conv.chip, conv.kind, bn) else None


def summands(conv: Convolution, pipeline: Pipeline) -> Int64Array:
    """Return what BS adds to the array's sums per channel, of inputs with their zero point, for the
    stages of TensorFlow Lite's accumulator.
    """
    return np.asarray(conv.bias - conv.source.zero_point * conv.sums[0] + pipeline.bs.add)


def requantization(conv: Convolution, target: Target, *, is_in_parts: bool = False) -> Pipeline:
    """Return the stages for the accumulator of ``target``. Raises LoweringError where none are
    within one LSB, or more results differ than the contract allows. A chip that can only scale, as
    Mesa's driver has it, gives what that driver gives.
    """
    chosen = requantized(conv, target, is_in_parts=is_in_parts)
    if not chosen.is_near:
        raise LoweringError(
            conv.node,
            MULTIPLIERS_KEEP_BITS,
            f"about {chosen.share:.1%} of the results would differ: quantise the model with output "
            "scales nearer together",
        )
    return chosen.pipeline


def requantized(
    conv: Convolution, target: Target, *, is_in_parts: bool = False, is_joined: bool = False
) -> Requantization:
    """Requantise by the ways that are known for tasks of this kind; ``is_joined``: with one
    rounding. Raises LoweringError where no stages are within one LSB.
    """
    chip, kind = conv.chip, conv.kind
    twice = not is_joined and rounds_twice(chip, kind, per_channel=conv.per_channel)
    has_registers = Primitive.REGISTER_NUMBERS not in chip.lacks
    ways = Ways(
        rounds_twice=twice,
        scales_alone=not conv.per_channel and is_known(chip, kind, SUMMAND),
        multiplies=not has_registers or any(is_known(chip, kind, s) for s in (RECORD, REGISTER)),
        # Ties are rare where multipliers have 15 bits; known programs leave them to the even side.
        ties_away=twice and ties_away(chip, kind, RECORD),
    )
    return requantize(
        *(conv.node, target),
        per_channel=conv.per_channel,
        is_in_parts=is_in_parts,
        ways=ways,
    )


def bs_multipliers(pipeline: Pipeline) -> Int64Array:
    """Return the multipliers of BS for a node with scales per channel."""
    assert isinstance(pipeline.bs.multiply, np.ndarray)
    return pipeline.bs.multiply


def requantizing_stages(
    conv: Convolution,
    pipeline: Pipeline,
    bs_operands: Ref,
    cube_channels: int,
    constants: ConstantPool,
) -> Stages:
    """Return the stages of ``pipeline``. ``bs_operands``: what BS adds, from memory, and multiplies
    with where channels differ; all is there where the chip has no numbers in registers.
    """
    bs, factors, bn_operands = pipeline.bs, pipeline.bn.multiply, None
    if not isinstance(factors, int):
        bn_operands = constants.add(pack_bn_multipliers(factors, cube_channels))
    stage = BsStage(
        alu=Source.MEMORY,
        mul=Source.MEMORY,
        shift=bs.shift,
        shift_negative=bs.shift,
        ow=Source.MEMORY,
        relu=bs.relu,
        relux_max=bs.relux,
        operands=bs_operands,
    )
    if Primitive.REGISTER_NUMBERS in conv.chip.lacks:
        ow = Source.OFF if conv.is_depthwise else Source.MEMORY
        stage = replace(stage, ow=ow, scalars=constants.add(pack_shifts(bs.shift, bs.shift)))
    elif record_multipliers(conv, pipeline) is None:
        assert isinstance(bs.multiply, int)
        stage = replace(
            stage,
            mul=Source.OFF if bs.is_plain else Source.REGISTER,
            mul_operand=bs.multiply,
            ow=Source.REGISTER,
            ow_operand=-conv.weight_zero_point,
        )
    ew = None if pipeline.ew is None else _ew_stage(pipeline.ew, cube_channels, constants)
    return Stages(stage, bn_stage(pipeline.bn, bn_operands), ew, pipeline.out)


def _register_stage(ew: Ew) -> EwStage:
    assert ew.operation is EwOperation.ADD
    assert isinstance(ew.operand, int)
    return EwStage(register_operand=ew.operand, relu=ew.relu, relux_max=ew.relux)


def _ew_stage(ew: Ew, cube_channels: int, constants: ConstantPool) -> EwStage:
    """Return EW with a power of two per channel from memory, a constant from a register, or what
    it does with a map whose place tasks know.
    """
    if ew.operand is None:
        assert ew.operation is EwOperation.ADD
        return EwStage(offset=ew.offset, scale=ew.scale)
    if isinstance(ew.operand, int):
        return _register_stage(ew)
    packed, operand_bytes = pack_ew_multipliers(ew.operand, cube_channels)
    return EwStage(
        operand=constants.add(packed),
        per_channel=True,
        operand_bytes=operand_bytes,
        operation=ew.operation,
        relu=ew.relu,
        relux_max=ew.relux,
    )
