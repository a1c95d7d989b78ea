"""The DPU registers of a task: cube, stages BS, BN, EW, OUT_CVT. For the readers see rdma.py.

Shared by convolutions (data from CORE) and element-wise tasks (data from memory, "flying").
Register values follow the stages' numeric meaning; combinations that no known program uses raise
EncodingError.

Refuses what no known task of the DPU has: BLOCK.REGISTER.FIELD, what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from delegate.chip.chip import Limits
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.register_model import (
    AluAlgorithm,
    BurstLength,
    ConvMode,
    CvtOrder,
    CvtRounding,
    DpuPrecision,
    ElementSize,
    EwDataMode,
    OperandSource,
    OperandType,
    OutputMode,
)
from delegate.lower.numerics.pipeline import INDEX_STEP, EwOperation
from delegate.lower.tables import TABLE_STEPS
from delegate.lower.task import (
    BnStage,
    BsStage,
    ConvTask,
    DpuTask,
    ElementwiseTask,
    EwStage,
    Source,
)
from delegate.npu.regcmd import RegCmdWriter, Table, cube, joined

PRECISIONS = {
    Element.INT8: DpuPrecision.INT8,
    Element.INT16: DpuPrecision.INT16,
    Element.FP16: DpuPrecision.FP16,
}
"""Element types of tasks, as the DPU and its readers name them."""

OUT_CVT_SHIFT_MAX = 63
"""Only the low six bits of the twelve-bit shift field act (measured on silicon by others)."""

_EW_ALGORITHMS = {
    EwOperation.ADD: AluAlgorithm.ADD,
    EwOperation.SUBTRACT: AluAlgorithm.MINUS,
    EwOperation.MAX: AluAlgorithm.MAX,
    EwOperation.MIN: AluAlgorithm.MIN,
}

_SOURCES = {
    Source.OFF: OperandSource.REGISTER,
    Source.REGISTER: OperandSource.REGISTER,
    Source.MEMORY: OperandSource.MEMORY,
}

_LUT_BOTH = 2
"""LUT_LO_LE_MUX: both tables are used, each in its range (the only value that is known)."""

_OPERANDS = 8
"""EW_OP_VALUE_0..7 serve eight channels in turn; a uniform operand is written to all."""

_TABLE_END = TABLE_STEPS // 2 * INDEX_STEP
"""The value that selects the last entry of the tables; the first one lies as far below 0."""
_STEP_SHIFT = INDEX_STEP.bit_length() - 1
_TABLES: Final[Table] = {
    "DPU.LUT_CFG": {
        "LUT_HYBRID_PRIORITY": 1,
        "LUT_OFLOW_PRIORITY": 1,
        "LUT_LO_LE_MUX": _LUT_BOTH,
    },
    "DPU.LUT_INFO": {"LUT_LO_INDEX_SELECT": _STEP_SHIFT, "LUT_LE_INDEX_SELECT": _STEP_SHIFT},
    "DPU.LUT_LE_START": {"LUT_LE_START": -_TABLE_END},
    "DPU.LUT_LO_END": {"LUT_LO_END": _TABLE_END},
}
"""The ranges of the tables: LE from the start on, LO from 0, where LE ends; LO where both match and
above (settings of the vendor's programs)."""


def dpu_values(writer: RegCmdWriter, task: DpuTask) -> Table:
    """Return the values of the DPU, of a task without ``problems``. Raises EncodingError."""
    # Data from memory has whole surfaces: its cube may not end earlier than what is read.
    is_flying, output = isinstance(task, ElementwiseTask), task.output
    writes_sums = output.element_bytes == INT32_BYTES  # as the stages give them, instead of int8
    real = output.channels if is_flying else output.channels_real
    precision = PRECISIONS[task.element]
    gap, rest = divmod(output.row_gap_bytes, ATOM_BYTES)
    if rest or gap < 0:
        problem = f"from {output.row_gap_bytes} bytes between rows, no whole pixels"
        raise writer.fail("DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_0", problem)
    own: Table = {
        "DPU.FEATURE_MODE_CFG": {
            "BURST_LEN": BurstLength.BURST_16,
            "CONV_MODE": conv_mode(task),
            "OUTPUT_MODE": OutputMode.MEMORY,
            "FLYING_MODE": is_flying,
        },
        # The shift of negative values is a field of its own, and here.
        "DPU.DATA_FORMAT": {
            "OUT_PRECISION": DpuPrecision.INT32 if writes_sums else precision,
            "IN_PRECISION": precision,
            "PROC_PRECISION": precision,
            "EW_TRUNCATE_NEG": task.ew.truncate if task.ew else 0,
            "BN_MUL_SHIFT_VALUE_NEG": task.bn.shift_negative,
            "BS_MUL_SHIFT_VALUE_NEG": task.bs.shift_negative,
        },
        # Both fields hold the same skip (observed in resizing programs).
        "DPU.DATA_CUBE_NOTCH_ADDR": {"NOTCH_ADDR_1": gap, "NOTCH_ADDR_0": gap},
        "DPU.DATA_CUBE_CHANNEL": {"ORIG_CHANNEL": real},
        "DPU.SURFACE_ADD": {"SURF_ADD": output.surface_stride_bytes * output.surfaces_per_group},
    }
    return joined(
        cube(task, output.channels),
        own,
        _x_values("BS", task.bs),
        _x_values("BN", task.bn),
        _ew_values(task),
        _out_values(writer, task),
        {} if task.table is None else _TABLES,
    )


def _x_values(name: str, stage: BsStage | BnStage) -> Table:
    """Return BS's or BN's: registers at other places, fields with other prefixes."""
    if isinstance(stage, BsStage):
        alu = None if stage.alu is Source.OFF else stage.alu_operand
        alu_source, prelu = _SOURCES[stage.alu], False
    else:
        alu, alu_source, prelu = stage.alu_operand, OperandSource.REGISTER, stage.prelu
    has_mul = stage.mul is not Source.OFF
    registers: dict[str, dict[str, int]] = {
        "CFG": {
            "ALU_ALGO": AluAlgorithm.ADD if alu is not None else 0,
            "ALU_SRC": alu_source,
            "RELUX_EN": stage.relux_max is not None,
            "RELU_BYPASS": not stage.relu,
            "MUL_PRELU": prelu,
            "MUL_BYPASS": not has_mul,
            "ALU_BYPASS": alu is None,
            "BYPASS": not (alu is not None or has_mul or stage.relu),
        },
        "ALU_CFG": {
            "ALU_OPERAND": (alu or 0) if alu_source is OperandSource.REGISTER else 0,
        },
        "MUL_CFG": {
            "MUL_OPERAND": stage.mul_operand if stage.mul is Source.REGISTER else 0,
            "MUL_SHIFT_VALUE": stage.shift,
            "MUL_SRC": _SOURCES[stage.mul],
        },
        "RELUX_CMP_VALUE": {"RELUX_CMP_DAT": stage.relux_max or 0},
    }
    return {
        f"DPU.{name}_{register}": {f"{name}_{field}": value for field, value in fields.items()}
        for register, fields in registers.items()
    }


def _ew_values(task: DpuTask) -> Table:
    ew, looks_up = task.ew, task.table is not None
    if ew is None:
        mode: dict[str, int] = {
            "EW_RELU_BYPASS": 1,
            "EW_OP_CVT_BYPASS": 1,
            "EW_LUT_BYPASS": not looks_up,
            "EW_OP_BYPASS": 1,
            "EW_BYPASS": not looks_up,
        }
        return {"DPU.EW_CFG": mode, "DPU.EW_CVT_SCALE_VALUE": {"EW_OP_CVT_SCALE": 1}}
    mode = {
        "EW_RELUX_EN": ew.relux_max is not None,
        "EW_RELU_BYPASS": not ew.relu,
        "EW_LUT_BYPASS": not looks_up,
    }
    limit = {"EW_RELUX_CMP_DAT": ew.relux_max or 0}
    found: Table = {"DPU.EW_CFG": mode, "DPU.EW_RELUX_CMP_VALUE": limit}
    if ew.operand is None:
        mode |= {
            "EW_DATA_MODE": EwDataMode.PER_PIXEL,
            "EW_ALU_ALGO": AluAlgorithm.ADD,
            "EW_OP_CVT_BYPASS": 1,
            "EW_OP_SRC": OperandSource.REGISTER,
        }
        number = ew.register_operand
        operands = {f"DPU.EW_OP_VALUE_{n}": {f"EW_OPERAND_{n}": number} for n in range(_OPERANDS)}
        scale = {"EW_TRUNCATE": ew.truncate, "EW_OP_CVT_SCALE": 1}
        return {**found, **operands, "DPU.EW_CVT_SCALE_VALUE": scale}
    multiplies, (data_mode, element_size) = ew.operation is EwOperation.MULTIPLY, operand_form(ew)
    mode |= {
        "EW_CVT_TYPE": 0 if task.element is Element.FP16 else CvtOrder.ADD_FIRST,
        "EW_CVT_ROUND": CvtRounding.HALF_EVEN,
        "EW_DATA_MODE": data_mode,
        "EDATA_SIZE": element_size,
        "EW_ALU_ALGO": 0 if multiplies else _EW_ALGORITHMS[ew.operation],
        "EW_OP_CVT_BYPASS": task.element is Element.FP16 and multiplies,
        "EW_OP_SRC": OperandSource.MEMORY,
        "EW_OP_TYPE": OperandType.MUL if multiplies else OperandType.ALU,
    }
    return {
        **found,
        "DPU.EW_CVT_OFFSET_VALUE": {"EW_OP_CVT_OFFSET": ew.offset},
        "DPU.EW_CVT_SCALE_VALUE": {
            "EW_TRUNCATE": ew.truncate,
            "EW_OP_CVT_SHIFT": ew.shift,
            "EW_OP_CVT_SCALE": ew.scale,
        },
    }


def _out_values(writer: RegCmdWriter, task: DpuTask) -> Table:
    """Return OUT_CVT, the OW term and the writer's sizes. A convolution without OW term has operand
    0.
    """
    bs, out = task.bs, task.out_convert
    if not 0 <= out.shift <= OUT_CVT_SHIFT_MAX:
        problem = f"= {out.shift} exceeds the limit 0..{OUT_CVT_SHIFT_MAX}"
        raise writer.fail("DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", problem)
    # Where nothing is shifted there is nothing to round: the bit stays clear, as in known programs.
    rounds_away = out.ties_away and out.shift > 0
    rounding = CvtRounding.HALF_AWAY if rounds_away else CvtRounding.HALF_EVEN
    # Surfaces of a write-out line, minus one: of int8 observed, of int32 sums measured by others.
    size_e = task.output.surfaces_per_group - 1
    return {
        "DPU.OUT_CVT_SCALE": {"FP32TOFP16_EN": task.element is Element.FP16},
        "DPU.OUT_CVT_SHIFT": {"CVT_ROUND": rounding, "MINUS_EXP": out.exponent},
        "DPU.BS_OW_CFG": {
            **{f"SIZE_E_{n}": size_e for n in range(3)},
            "OD_BYPASS": isinstance(task, ElementwiseTask) or task.output.element_bytes > 1,
            "OW_SRC": _SOURCES[bs.ow],
        },
        "DPU.BS_OW_OP": {"OW_OP": bs.ow_operand if bs.ow is Source.REGISTER else 0},
    }


def conv_mode(task: DpuTask) -> ConvMode:
    is_depthwise = isinstance(task, ConvTask) and task.is_depthwise
    return ConvMode.DEPTHWISE if is_depthwise else ConvMode.DENSE


def operand_form(ew: EwStage) -> tuple[EwDataMode, ElementSize]:
    """Return how the operand's elements lie in memory."""
    mode = EwDataMode.PER_CHANNEL if ew.per_channel else EwDataMode.PER_PIXEL
    is_wide = ew.operand_bytes == WIDE_OPERAND_BYTES
    return mode, ElementSize.BITS_16 if is_wide else ElementSize.BITS_8


WIDE_OPERAND_BYTES = 2
"""The bytes of a 16-bit operand."""

INT32_BYTES = 4


def problems(limits: Limits, task: DpuTask) -> Iterator[tuple[str, str]]:
    """Combinations that no known program has: BLOCK.REGISTER.FIELD, and what is wrong there."""
    if task.element is Element.FP16:
        yield from _half_problems(task)
    elif task.out_convert.exponent:
        yield "DPU.OUT_CVT_SHIFT.MINUS_EXP", "is known with fp16 only"
    elif task.bn.prelu:
        yield "DPU.BN_CFG.BN_MUL_PRELU", "is known with fp16 only"
    elif task.bn.mul_operand < 0:
        problem = f"= {task.bn.mul_operand} is above 0 to the chip, whose multiplier has no sign"
        yield "DPU.BN_MUL_CFG.BN_MUL_OPERAND", problem
    yield from _cube_problems(limits, task)
    yield from _stage_problems(task)
    yield from _element_wise_problems(task)


def _cube_problems(limits: Limits, task: DpuTask) -> Iterator[tuple[str, str]]:
    """Also cubes that fields hold and others saw fail (docs/hazards.md)."""
    output = task.output
    sides = {"WIDTH": output.width, "HEIGHT": output.height, "CHANNEL": output.channels}
    for name, size in sides.items():
        if size > limits.cube_size:
            problem = f"= {size} exceeds the limit {limits.cube_size}"
            yield f"DPU.DATA_CUBE_{name}.{name}", problem
    least = 0 if isinstance(task, ElementwiseTask) else 1
    if not least <= output.channels_real <= output.channels:
        problem = f"= {output.channels_real} exceeds the limit {least}..{output.channels}"
        yield "DPU.DATA_CUBE_CHANNEL.ORIG_CHANNEL", problem
    precision = "DPU.DATA_FORMAT.OUT_PRECISION"
    if output.element_bytes not in ((1, INT32_BYTES) if task.element is Element.INT8 else (2,)):
        yield precision, f"for elements of {output.element_bytes} bytes is used by no known program"
    is_dense = isinstance(task, ConvTask) and not task.is_depthwise
    if output.element_bytes == INT32_BYTES and not (is_dense and task.bs.ow is Source.OFF):
        yield precision, "= int32 is known of dense convolutions without the sum of inputs only"


def _stage_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """Yield problems of BS and BN, of their operands, and of what no stage knows."""
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
    """Yield problems of EW, tables and what is read beside the main data."""
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
    if ew.operand_bytes != 1 and not (ew.per_channel or task.element is Element.FP16):
        problem = f"for {ew.operand_bytes} bytes per pixel is not used by any known program"
        yield "DPU.EW_CFG.EDATA_SIZE", problem
    if ew.line_stride_bytes is not None and not (is_flying and per_pixel):
        problem = "is known of operands per pixel in tasks from memory only"
        yield "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.EW_LINE_NOTCH_ADDR", problem
    if ew.operand is not None and ew.register_operand:
        yield "DPU.EW_CFG.EW_OP_SRC", "is memory or register, not both"


def _half_problems(task: DpuTask) -> Iterator[tuple[str, str]]:
    """Yield what has no meaning in floating point."""
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
