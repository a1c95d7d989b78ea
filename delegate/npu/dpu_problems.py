"""What no known task of the DPU has, and is refused: BLOCK.REGISTER.FIELD, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.chip import Limits
from delegate.chip.element import Element
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.task import ConvTask, DpuTask, ElementwiseTask, Source

WIDE_OPERAND_BYTES = 2
"""Of a 16-bit operand."""

INT32_BYTES = 4


def is_half(task: DpuTask) -> bool:
    """Whether it computes in floating point."""
    return task.element is Element.FP16


def writes_sums(task: DpuTask) -> bool:
    """int32 as the stages give it, instead of int8."""
    return task.output.element_bytes == INT32_BYTES


def problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """Combinations that no known program has: BLOCK.REGISTER.FIELD, and what is wrong there."""
    if is_half(task):
        yield from _half_problems(task)
    elif task.out_convert.exponent:
        yield "DPU.OUT_CVT_SHIFT.MINUS_EXP", "is known with fp16 only"
    elif task.bn.prelu:
        yield "DPU.BN_CFG.BN_MUL_PRELU", "is known with fp16 only"
    elif task.bn.mul_operand < 0:
        problem = f"= {task.bn.mul_operand} is above 0 to the chip, whose multiplier has no sign"
        yield "DPU.BN_MUL_CFG.BN_MUL_OPERAND", problem
    yield from _cube_problems(task)
    yield from _stage_problems(task)
    yield from _element_wise_problems(task)


def size_problems(limits: Limits, task: DpuTask) -> Iterator[tuple[str, str]]:
    """Cubes that fields hold and others saw fail (docs/hazards.md)."""
    output = task.output
    sides = {"WIDTH": output.width, "HEIGHT": output.height, "CHANNEL": output.channels}
    for name, size in sides.items():
        if size > limits.cube_size:
            problem = f"= {size} exceeds the limit {limits.cube_size}"
            yield f"DPU.DATA_CUBE_{name}.{name}", problem


def _cube_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    output = task.output
    least = 0 if isinstance(task, ElementwiseTask) else 1
    if not least <= output.channels_real <= output.channels:
        limits = f"{least}..{output.channels}"
        yield (
            "DPU.DATA_CUBE_CHANNEL.ORIG_CHANNEL",
            f"= {output.channels_real} exceeds the limit {limits}",
        )
    precision = "DPU.DATA_FORMAT.OUT_PRECISION"
    if output.element_bytes not in ((2,) if is_half(task) else (1, INT32_BYTES)):
        yield precision, f"for elements of {output.element_bytes} bytes is used by no known program"
    is_dense = isinstance(task, ConvTask) and not task.is_depthwise
    if writes_sums(task) and not (is_dense and task.bs.ow is Source.OFF):
        yield precision, "= int32 is known of dense convolutions without the sum of inputs only"


def _stage_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """Of BS and BN, of their operands, and of what no stage knows."""
    bs, bn, ew = task.bs, task.bn, task.ew
    memory = [bs.alu, bs.ow, bs.mul].count(Source.MEMORY)
    if bs.alu is not Source.MEMORY and memory:
        problem = "from memory without a summand from memory has no known operand layout"
        yield "DPU.BS_MUL_CFG.BS_MUL_SRC", problem
    disagree = "and the stage's operands disagree: both or none"
    if (memory > 0) != (bs.operands is not None):
        yield "DPU_RDMA.RDMA_BS_BASE_ADDR.BS_BASE_ADDR", disagree
    if (bn.mul is Source.MEMORY) != (bn.operands is not None):
        yield "DPU_RDMA.RDMA_BN_BASE_ADDR.BN_BASE_ADDR", disagree
    if isinstance(task, ElementwiseTask) and bs.ow is not Source.OFF:
        yield "DPU.BS_OW_CFG.OD_BYPASS", "= 0 needs sums of inputs, i.e. a convolution"
    for name, stage in (("BS", bs), ("BN", bn), ("EW", ew)):
        if stage is not None and stage.relux_max is not None and not stage.relu:
            yield f"DPU.{name}_CFG.{name}_RELUX_EN", "without RELU is not used by any known program"
    for name, x in (("BS", bs), ("BN", bn)):
        if x.mul is Source.OFF and (x.shift or x.shift_negative):
            yield f"DPU.{name}_MUL_CFG.{name}_MUL_SHIFT_VALUE", "needs a multiplier"


def _element_wise_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """Of EW, tables and what is read beside the main data."""
    ew, output = task.ew, task.output
    is_flying = isinstance(task, ElementwiseTask)
    is_plain = ew is None or (ew.operation is EwOperation.ADD and not (ew.relu or ew.per_channel))
    if task.table is not None and (not is_plain or (is_flying and ew is not None)):
        problem = "= 0 is known without an element-wise operation; behind convolutions with a sum"
        yield "DPU.EW_CFG.EW_LUT_BYPASS", problem
    per_pixel = ew is not None and ew.operand is not None and not ew.per_channel
    if output.row_gap_bytes and (is_flying or per_pixel):
        problem = "between output rows, while operands are read without, is no known program"
        yield "DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_0", problem
    if ew is None:
        return
    if ew.truncate and ew.operation is not EwOperation.MULTIPLY:
        yield "DPU.EW_CVT_SCALE_VALUE.EW_TRUNCATE", "needs a multiplication"
    if ew.operand_bytes != 1 and not (ew.per_channel or is_half(task)):
        problem = f"for {ew.operand_bytes} bytes per pixel is not used by any known program"
        yield "DPU.EW_CFG.EDATA_SIZE", problem
    if ew.line_stride_bytes is not None and not (is_flying and per_pixel):
        problem = "is known of operands per pixel in tasks from memory only"
        yield "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.EW_LINE_NOTCH_ADDR", problem
    if ew.operand is not None and ew.register_operand:
        yield "DPU.EW_CFG.EW_OP_SRC", "is memory or register, not both"


def _half_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """What has no meaning in floating point."""
    bs, bn, ew, out = task.bs, task.bn, task.ew, task.out_convert
    if any((bs.shift, bs.shift_negative, bn.shift, bn.shift_negative, out.shift)):
        yield "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", "and all other shifts of fp16 are 0"
    if (out.scale, out.offset, out.ties_away) != (1, 0, False):
        yield "DPU.OUT_CVT_SCALE.OUT_CVT_SCALE", "of fp16 is 1, without offset"
    if bs.ow is not Source.OFF:
        yield "DPU.BS_OW_CFG.OD_BYPASS", "= 0 is not used with fp16"
    if (out.exponent > 0) != (task.table is not None):
        yield "DPU.OUT_CVT_SHIFT.MINUS_EXP", "of fp16 is known behind tables, which need one"
    if bn.prelu and (bn.mul is Source.OFF or bn.alu_operand is not None):
        yield "DPU.BN_CFG.BN_MUL_PRELU", "needs a multiplier and no summand"
    if ew is None:
        return
    converted = ew.offset or ew.shift or ew.truncate or ew.scale != 1
    if ew.operand is None or ew.operand_bytes != WIDE_OPERAND_BYTES or converted:
        yield "DPU.EW_CFG.EDATA_SIZE", "= 16 bits from memory, unconverted, is known of fp16"
