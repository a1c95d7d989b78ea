"""The DPU_RDMA registers of a task: what feeds the DPU and the operands of its stages."""

from __future__ import annotations

from delegate.chip.element import ATOM_BYTES
from delegate.chip.register_model import BurstLength, CombinedRead, OperandData
from delegate.lower.task import BsStage, OutputCube, Ref, Source
from delegate.npu.encode_dpu import PRECISIONS, DpuMode, DpuTask, data_mode, element_size
from delegate.npu.regcmd import RegCmdWriter

ARBITER_WEIGHT = 1
"""Equal share of the bus for the four readers (observed in every program)."""


def write_rdma(writer: RegCmdWriter, task: DpuTask) -> None:
    """All DPU_RDMA registers from the cube to EW_SURF_NOTCH."""
    output, ew = task.output, task.ew
    operand = ew.operand if ew is not None else None
    stride = ew.surface_stride_bytes if ew is not None and operand is not None else 0
    is_flying = task.mode is DpuMode.FLYING
    per_pixel = ew is not None and not ew.per_channel
    rows_bytes = output.height * output.width * ATOM_BYTES
    main, main_notch, ew_base, ew_notch = task.main, 0, operand, 0
    main_gap = _row_gap(writer, output, task.main_line_stride_bytes)
    ew_gap = _row_gap(writer, output, None if ew is None else ew.line_stride_bytes)
    gaps = (output.height - 1) * ATOM_BYTES  # a surface's notch counts from its last row's end
    if is_flying:
        main_notch = task.main_surface_stride_bytes - rows_bytes - gaps * main_gap
        if operand is not None and per_pixel:
            ew_notch = stride - rows_bytes - gaps * ew_gap
    elif operand is not None and per_pixel:
        # One cube for two readers: MRDMA takes the even surfaces, ERDMA the odd ones, and each
        # skips the other's surface after its own rows.
        main, ew_base = operand, Ref(operand.buffer, operand.offset + stride)
        main_notch = ew_notch = 2 * stride - rows_bytes
    for field, notch in (
        ("RDMA_SURF_NOTCH.SURF_NOTCH_ADDR", main_notch),
        ("RDMA_EW_SURF_NOTCH.EW_SURF_NOTCH", ew_notch),
    ):
        if notch < 0:
            raise writer.fail(f"DPU_RDMA.{field}", f"= {notch} makes surfaces overlap")
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", EW_LINE_NOTCH_ADDR=ew_gap, HEIGHT=output.height)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", CHANNEL=output.channels)
    _write_optional_address(writer, "DPU_RDMA.RDMA_SRC_BASE_ADDR", main)
    writer.write("DPU_RDMA.RDMA_BRDMA_CFG", BRDMA_DATA_USE=_operand_data(task.bs))
    _write_optional_address(writer, "DPU_RDMA.RDMA_BS_BASE_ADDR", task.bs.operands)
    writer.write(
        "DPU_RDMA.RDMA_NRDMA_CFG",
        NRDMA_DATA_USE=OperandData.MUL if task.bn.mul is Source.MEMORY else 0,
    )
    _write_optional_address(writer, "DPU_RDMA.RDMA_BN_BASE_ADDR", task.bn.operands)
    if operand is None:
        writer.write("DPU_RDMA.RDMA_ERDMA_CFG", ERDMA_DISABLE=1)
    else:
        writer.write(
            "DPU_RDMA.RDMA_ERDMA_CFG",
            ERDMA_DATA_MODE=data_mode(ew),
            ERDMA_DATA_SIZE=element_size(ew),
        )
    _write_optional_address(writer, "DPU_RDMA.RDMA_EW_BASE_ADDR", ew_base)
    writer.write(
        "DPU_RDMA.RDMA_EW_SURF_STRIDE",
        EW_SURF_STRIDE=stride if operand is None or per_pixel else ATOM_BYTES,
    )
    is_combined = operand is not None and per_pixel and not is_flying
    writer.write(
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG",
        IN_PRECISION=PRECISIONS[task.element],
        BURST_LEN=BurstLength.BURST_16,
        PROC_PRECISION=PRECISIONS[task.element],
        COMB_USE=CombinedRead.ENABLE | CombinedRead.TO_ERDMA if is_combined else 0,
        MRDMA_DISABLE=not (is_flying or is_combined),
        MRDMA_FP16TOFP32_EN=task.is_half and is_flying,
        CONV_MODE=task.mode.conv_mode,
        FLYING_MODE=is_flying,
    )
    writer.write("DPU_RDMA.RDMA_SRC_DMA_CFG", LINE_NOTCH_ADDR=main_gap)
    writer.write("DPU_RDMA.RDMA_SURF_NOTCH", SURF_NOTCH_ADDR=main_notch)
    writer.write("DPU_RDMA.RDMA_PAD_CFG")
    writer.write(
        "DPU_RDMA.RDMA_WEIGHT",
        E_WEIGHT=ARBITER_WEIGHT,
        N_WEIGHT=ARBITER_WEIGHT,
        B_WEIGHT=ARBITER_WEIGHT,
        M_WEIGHT=ARBITER_WEIGHT,
    )
    writer.write("DPU_RDMA.RDMA_EW_SURF_NOTCH", EW_SURF_NOTCH=ew_notch)


def _row_gap(writer: RegCmdWriter, output: OutputCube, line_stride_bytes: int | None) -> int:
    """Pixels between the end of an operand's row and the start of the next."""
    if line_stride_bytes is None or output.height == 1:
        return 0
    gap, rest = divmod(line_stride_bytes - output.width * ATOM_BYTES, ATOM_BYTES)
    if rest or gap < 0:
        problem = f"from {line_stride_bytes} bytes per row of {output.width} pixels"
        raise writer.fail("DPU_RDMA.RDMA_SRC_DMA_CFG.LINE_NOTCH_ADDR", problem)
    return gap


def _operand_data(bs: BsStage) -> int:
    """Dense int32 when only the summand is in memory, else 64-byte blocks of all three operands."""
    if bs.mul is Source.MEMORY or bs.ow is Source.MEMORY:
        return OperandData.ALU | OperandData.OW | OperandData.MUL
    return OperandData.ALU if bs.alu is Source.MEMORY else 0


def _write_optional_address(writer: RegCmdWriter, name: str, place: Ref | None) -> None:
    if place is None:
        writer.write(name)
    else:
        writer.write_address(name, place)
