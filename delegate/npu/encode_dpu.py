"""The DPU registers of a task: cube, stages BS, BN, EW, OUT_CVT. For the readers see encode_rdma.

Shared by convolutions (data from CORE) and element-wise tasks (data from memory, "flying").
Register values follow the stages' numeric meaning; combinations that no known program uses raise
EncodingError.
"""

from __future__ import annotations

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
    OutConvert,
    Source,
    TableUse,
)
from delegate.npu.dpu_problems import WIDE_OPERAND_BYTES, is_half, problems, writes_sums
from delegate.npu.regcmd import RegCmdWriter

PRECISIONS = {Element.INT8: DpuPrecision.INT8, Element.FP16: DpuPrecision.FP16}
"""Element types of tasks, as the DPU and its readers name them."""

OUT_CVT_SHIFT_MAX = 63
"""Only the low six bits of the twelve-bit shift field act (measured on silicon by others)."""

_EW_ALGORITHMS = {
    EwOperation.ADD: AluAlgorithm.ADD,
    EwOperation.SUBTRACT: AluAlgorithm.MINUS,
    EwOperation.MAX: AluAlgorithm.MAX,
    EwOperation.MIN: AluAlgorithm.MIN,
}

_LUT_BOTH = 2
"""LUT_LO_LE_MUX: both tables are used, each in its range (the only value that is known)."""

REGISTER_OPERANDS = 8
"""EW_OP_VALUE_0..7 serve eight channels in turn; a uniform operand is written to all."""


_TABLE_START = -TABLE_STEPS // 2 * INDEX_STEP
"""The value that selects the first entry of the tables."""


def write_pointers(writer: RegCmdWriter, *, is_cleared: bool = False) -> None:
    """Re-arms both register groups to alternate; without it a chain repeats the first task.
    ``is_cleared``: of a task that uses tables; both pointers go back instead (observed).
    """
    for name in ("DPU.S_POINTER", "DPU_RDMA.RDMA_S_POINTER"):
        if is_cleared:
            writer.write(name, EXECUTER_PP_CLEAR=1, POINTER_PP_CLEAR=1)
        else:
            writer.write(name, POINTER_PP_MODE=1, EXECUTER_PP_EN=1, POINTER_PP_EN=1)


def write_dpu(writer: RegCmdWriter, task: DpuTask) -> None:
    """All DPU registers from FEATURE_MODE_CFG to the end of the tables."""
    writer.refuse(problems(task))
    _write_cube(writer, task)
    _write_x(writer, "BS", task.bs)
    _write_write_out(writer, task)
    _write_x(writer, "BN", task.bn)
    _write_ew(writer, task)
    _write_out_convert(writer, task.out_convert, to_half=is_half(task))
    operand = 0 if task.ew is None or task.ew.operand is not None else task.ew.register_operand
    for index in range(REGISTER_OPERANDS):
        writer.write(f"DPU.EW_OP_VALUE_{index}", **{f"EW_OPERAND_{index}": operand})
    stride = task.output.surface_stride_bytes * task.output.surfaces_per_group
    writer.write("DPU.SURFACE_ADD", SURF_ADD=stride)
    writer.write("DPU.UNDOCUMENTED_40C4")
    _write_tables(writer, task.table)


def _write_cube(writer: RegCmdWriter, task: DpuTask) -> None:
    output = task.output
    writer.write(
        "DPU.FEATURE_MODE_CFG",
        BURST_LEN=BurstLength.BURST_16,
        CONV_MODE=conv_mode(task),
        OUTPUT_MODE=OutputMode.MEMORY,
        FLYING_MODE=isinstance(task, ElementwiseTask),
    )
    # The shift of negative values is a field of its own, and here.
    writer.write(
        "DPU.DATA_FORMAT",
        OUT_PRECISION=DpuPrecision.INT32 if writes_sums(task) else PRECISIONS[task.element],
        IN_PRECISION=PRECISIONS[task.element],
        PROC_PRECISION=PRECISIONS[task.element],
        EW_TRUNCATE_NEG=task.ew.truncate if task.ew else 0,
        BN_MUL_SHIFT_VALUE_NEG=task.bn.shift_negative,
        BS_MUL_SHIFT_VALUE_NEG=task.bs.shift_negative,
    )
    writer.write("DPU.OFFSET_PEND")
    writer.write_address("DPU.DST_BASE_ADDR", output.target)
    writer.write("DPU.DST_SURF_STRIDE", DST_SURF_STRIDE=output.surface_stride_bytes)
    writer.write("DPU.DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU.DATA_CUBE_HEIGHT", HEIGHT=output.height)
    gap, rest = divmod(output.row_gap_bytes, ATOM_BYTES)
    if rest or gap < 0:
        problem = f"from {output.row_gap_bytes} bytes between rows, no whole pixels"
        raise writer.fail("DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_0", problem)
    # Both fields hold the same skip (observed in resizing programs).
    writer.write("DPU.DATA_CUBE_NOTCH_ADDR", NOTCH_ADDR_1=gap, NOTCH_ADDR_0=gap)
    # Data from memory has whole surfaces: its cube may not end earlier than what is read.
    real = output.channels if isinstance(task, ElementwiseTask) else output.channels_real
    writer.write("DPU.DATA_CUBE_CHANNEL", ORIG_CHANNEL=real, CHANNEL=output.channels)


def _write_x(writer: RegCmdWriter, name: str, stage: BsStage | BnStage) -> None:
    """BS or BN: registers at other places, fields with other prefixes."""
    if isinstance(stage, BsStage):
        alu = None if stage.alu is Source.OFF else stage.alu_operand
        alu_source, prelu = _source(stage.alu), False
    else:
        alu, alu_source, prelu = stage.alu_operand, OperandSource.REGISTER, stage.prelu
    has_mul = stage.mul is not Source.OFF

    def write(register: str, **fields: int) -> None:
        named = {f"{name}_{field}": value for field, value in fields.items()}
        writer.write(f"DPU.{name}_{register}", **named)

    write(
        "CFG",
        ALU_ALGO=AluAlgorithm.ADD if alu is not None else 0,
        ALU_SRC=alu_source,
        RELUX_EN=stage.relux_max is not None,
        RELU_BYPASS=not stage.relu,
        MUL_PRELU=prelu,
        MUL_BYPASS=not has_mul,
        ALU_BYPASS=alu is None,
        BYPASS=not (alu is not None or has_mul or stage.relu),
    )
    write("ALU_CFG", ALU_OPERAND=(alu or 0) if alu_source is OperandSource.REGISTER else 0)
    write(
        "MUL_CFG",
        MUL_OPERAND=stage.mul_operand if stage.mul is Source.REGISTER else 0,
        MUL_SHIFT_VALUE=stage.shift,
        MUL_SRC=_source(stage.mul),
    )
    write("RELUX_CMP_VALUE", RELUX_CMP_DAT=stage.relux_max or 0)


def _write_write_out(writer: RegCmdWriter, task: DpuTask) -> None:
    """BS_OW_CFG, BS_OW_OP and the writer's sizes. A convolution without OW term has operand 0."""
    bs, output = task.bs, task.output
    # Surfaces of a write-out line, minus one: of int8 observed, of int32 sums measured by others.
    size_e = task.output.surfaces_per_group - 1
    writer.write(
        "DPU.BS_OW_CFG",
        SIZE_E_2=size_e,
        SIZE_E_1=size_e,
        SIZE_E_0=size_e,
        OD_BYPASS=isinstance(task, ElementwiseTask) or writes_sums(task) or is_half(task),
        OW_SRC=_source(bs.ow),
    )
    ow = bs.ow_operand if bs.ow is Source.REGISTER else 0
    writer.write("DPU.BS_OW_OP", OW_OP=ow)
    writer.write("DPU.WDMA_SIZE_0", CHANNEL_WDMA=output.channels)
    writer.write("DPU.WDMA_SIZE_1", HEIGHT_WDMA=output.height, WIDTH_WDMA=output.width)


def _write_ew(writer: RegCmdWriter, task: DpuTask) -> None:
    ew, looks_up = task.ew, task.table is not None
    if ew is None:
        writer.write(
            "DPU.EW_CFG",
            EW_RELU_BYPASS=1,
            EW_OP_CVT_BYPASS=1,
            EW_LUT_BYPASS=not looks_up,
            EW_OP_BYPASS=1,
            EW_BYPASS=not looks_up,
        )
    elif ew.operand is None:
        writer.write(
            "DPU.EW_CFG",
            EW_DATA_MODE=EwDataMode.PER_PIXEL,
            EW_ALU_ALGO=AluAlgorithm.ADD,
            EW_RELUX_EN=ew.relux_max is not None,
            EW_RELU_BYPASS=not ew.relu,
            EW_OP_CVT_BYPASS=1,
            EW_LUT_BYPASS=not looks_up,
            EW_OP_SRC=OperandSource.REGISTER,
        )
    else:
        multiplies = ew.operation is EwOperation.MULTIPLY
        writer.write(
            "DPU.EW_CFG",
            EW_CVT_TYPE=0 if is_half(task) else CvtOrder.ADD_FIRST,
            EW_CVT_ROUND=CvtRounding.HALF_EVEN,
            EW_DATA_MODE=data_mode(ew),
            EDATA_SIZE=element_size(ew),
            EW_ALU_ALGO=0 if multiplies else _EW_ALGORITHMS[ew.operation],
            EW_RELUX_EN=ew.relux_max is not None,
            EW_RELU_BYPASS=not ew.relu,
            EW_OP_CVT_BYPASS=is_half(task) and multiplies,
            EW_LUT_BYPASS=not looks_up,
            EW_OP_SRC=OperandSource.MEMORY,
            EW_OP_TYPE=OperandType.MUL if multiplies else OperandType.ALU,
        )
    converts = ew is not None and ew.operand is not None
    writer.write("DPU.EW_CVT_OFFSET_VALUE", EW_OP_CVT_OFFSET=ew.offset if ew and converts else 0)
    writer.write(
        "DPU.EW_CVT_SCALE_VALUE",
        EW_TRUNCATE=ew.truncate if ew else 0,
        EW_OP_CVT_SHIFT=ew.shift if ew and converts else 0,
        EW_OP_CVT_SCALE=ew.scale if ew and converts else 1,
    )
    limit = ew.relux_max if ew is not None else None
    writer.write("DPU.EW_RELUX_CMP_VALUE", EW_RELUX_CMP_DAT=limit or 0)


def _write_tables(writer: RegCmdWriter, use: TableUse | None) -> None:
    """Nothing to load, and the ranges: LE from the start on, LO where LE ends, LO where both match
    and above (settings of the vendor's programs, where LE ends at 0).
    """
    start = None if use is None else _TABLE_START
    writer.write("DPU.LUT_ACCESS_CFG")
    writer.write("DPU.LUT_ACCESS_DATA")
    priorities = {"LUT_HYBRID_PRIORITY": 1, "LUT_OFLOW_PRIORITY": 1, "LUT_LO_LE_MUX": _LUT_BOTH}
    writer.write("DPU.LUT_CFG", **({} if start is None else priorities))
    shift = 0 if start is None else INDEX_STEP.bit_length() - 1
    writer.write("DPU.LUT_INFO", LUT_LO_INDEX_SELECT=shift, LUT_LE_INDEX_SELECT=shift)
    reach = 0 if start is None else TABLE_STEPS // 2 * INDEX_STEP
    begin = start or 0
    writer.write("DPU.LUT_LE_START", LUT_LE_START=begin)
    writer.write("DPU.LUT_LE_END", LUT_LE_END=begin + reach)
    writer.write("DPU.LUT_LO_START", LUT_LO_START=begin + reach)
    writer.write("DPU.LUT_LO_END", LUT_LO_END=begin + 2 * reach)
    for name in ("LE_SLOPE_SCALE", "LE_SLOPE_SHIFT", "LO_SLOPE_SCALE", "LO_SLOPE_SHIFT"):
        writer.write(f"DPU.LUT_{name}")


def _write_out_convert(writer: RegCmdWriter, out: OutConvert, *, to_half: bool) -> None:
    if not 0 <= out.shift <= OUT_CVT_SHIFT_MAX:
        problem = f"= {out.shift} exceeds the limit 0..{OUT_CVT_SHIFT_MAX}"
        raise writer.fail("DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", problem)
    writer.write("DPU.OUT_CVT_OFFSET", OUT_CVT_OFFSET=out.offset)
    writer.write("DPU.OUT_CVT_SCALE", FP32TOFP16_EN=to_half, OUT_CVT_SCALE=out.scale)
    # Where nothing is shifted there is nothing to round: the bit stays clear, as in known programs.
    rounds_away = out.ties_away and out.shift > 0
    rounding = CvtRounding.HALF_AWAY if rounds_away else CvtRounding.HALF_EVEN
    writer.write(
        "DPU.OUT_CVT_SHIFT", CVT_ROUND=rounding, MINUS_EXP=out.exponent, OUT_CVT_SHIFT=out.shift
    )


def conv_mode(task: DpuTask) -> ConvMode:
    is_depthwise = isinstance(task, ConvTask) and task.is_depthwise
    return ConvMode.DEPTHWISE if is_depthwise else ConvMode.DENSE


def data_mode(ew: EwStage | None) -> EwDataMode:
    per_channel = ew is not None and ew.per_channel
    return EwDataMode.PER_CHANNEL if per_channel else EwDataMode.PER_PIXEL


def element_size(ew: EwStage | None) -> ElementSize:
    """Return the size of the operand's elements in memory."""
    is_wide = ew is not None and ew.operand_bytes == WIDE_OPERAND_BYTES
    return ElementSize.BITS_16 if is_wide else ElementSize.BITS_8


def _source(source: Source) -> OperandSource:
    return OperandSource.MEMORY if source is Source.MEMORY else OperandSource.REGISTER
