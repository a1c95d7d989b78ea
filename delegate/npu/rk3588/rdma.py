"""The DPU_RDMA registers of a task: what feeds the DPU and the operands of its stages."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.register_model import BurstLength, CombinedRead, OperandData
from delegate.lower.task import DpuTask, ElementwiseTask, OutputCube, Ref, Source
from delegate.npu.regcmd import RegCmdWriter, Table
from delegate.npu.rk3588.dpu import PRECISIONS, conv_mode, operand_form

ARBITER_WEIGHT = 1
"""Equal share of the bus for the four readers (observed in every program)."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reader of maps: where it begins, pixels between its rows, bytes between its surfaces."""

    base: Ref | None
    gap: int
    notch: int


def rdma_values(writer: RegCmdWriter, task: DpuTask) -> Table:
    """Return the values of DPU_RDMA but for the cube. Raises EncodingError."""
    ew = task.ew
    operand = ew.operand if ew is not None else None
    stride = ew.surface_stride_bytes if ew is not None and operand is not None else 0
    is_flying = isinstance(task, ElementwiseTask)
    per_pixel = ew is not None and not ew.per_channel
    is_combined = operand is not None and per_pixel and not is_flying
    main, second = _readers(writer, task)
    precision = PRECISIONS[task.element]
    # Dense int32 when only the summand is in memory, else 64-byte blocks of all three operands.
    bs, used = task.bs, 0
    if Source.MEMORY in (bs.mul, bs.ow):
        used = OperandData.ALU | OperandData.OW | OperandData.MUL
    elif bs.alu is Source.MEMORY:
        used = OperandData.ALU
    reader: dict[str, int] = {"ERDMA_DISABLE": 1}
    if ew is not None and operand is not None:
        mode, size = operand_form(ew)
        reader = {"ERDMA_DATA_MODE": mode, "ERDMA_DATA_SIZE": size}
    values: Table = {
        "DATA_CUBE_HEIGHT": {"EW_LINE_NOTCH_ADDR": second.gap},
        "SRC_BASE_ADDR": main.base,
        "BRDMA_CFG": {"BRDMA_DATA_USE": used},
        "NRDMA_CFG": {"NRDMA_DATA_USE": OperandData.MUL if task.bn.mul is Source.MEMORY else 0},
        "BN_BASE_ADDR": task.bn.operands,
        "ERDMA_CFG": reader,
        "EW_BASE_ADDR": second.base,
        "EW_SURF_STRIDE": {
            "EW_SURF_STRIDE": stride if operand is None or per_pixel else ATOM_BYTES
        },
        "FEATURE_MODE_CFG": {
            "IN_PRECISION": precision,
            "BURST_LEN": BurstLength.BURST_16,
            "PROC_PRECISION": precision,
            "COMB_USE": CombinedRead.ENABLE | CombinedRead.TO_ERDMA if is_combined else 0,
            "MRDMA_DISABLE": not (is_flying or is_combined),
            "MRDMA_FP16TOFP32_EN": task.element is Element.FP16 and is_flying,
            "CONV_MODE": conv_mode(task),
            "FLYING_MODE": is_flying,
        },
        "SRC_DMA_CFG": {"LINE_NOTCH_ADDR": main.gap},
        "SURF_NOTCH": {"SURF_NOTCH_ADDR": main.notch},
        "WEIGHT": {f"{one}_WEIGHT": ARBITER_WEIGHT for one in "ENBM"},
        "EW_SURF_NOTCH": {"EW_SURF_NOTCH": second.notch},
    }
    return {f"DPU_RDMA.RDMA_{name}": value for name, value in values.items()}


def _readers(writer: RegCmdWriter, task: DpuTask) -> tuple[_Reader, _Reader]:
    """MRDMA and ERDMA."""
    output, ew = task.output, task.ew
    main, operand = None, None if ew is None else ew.operand
    rows_bytes = output.height * output.width * ATOM_BYTES
    main_gap = main_notch = ew_gap = ew_notch = 0
    gaps = (output.height - 1) * ATOM_BYTES  # a surface's notch counts from its last row's end
    if isinstance(task, ElementwiseTask):
        main = task.source
        if task.source_line_stride_bytes is not None:
            main_gap = _row_gap(writer, output, task.source_line_stride_bytes)
        main_notch = task.source_surface_stride_bytes - rows_bytes - gaps * main_gap
    if ew is not None and operand is not None and not ew.per_channel:
        stride = ew.surface_stride_bytes
        if isinstance(task, ElementwiseTask):
            if ew.line_stride_bytes is not None:
                ew_gap = _row_gap(writer, output, ew.line_stride_bytes)
            ew_notch = stride - rows_bytes - gaps * ew_gap
        else:
            # One cube for two readers: MRDMA takes the even surfaces, ERDMA the odd ones, and each
            # skips the other's surface after its own rows.
            main, operand = operand, Ref(operand.buffer, operand.offset + stride)
            main_notch = ew_notch = 2 * stride - rows_bytes
    for field, notch in (
        ("RDMA_SURF_NOTCH.SURF_NOTCH_ADDR", main_notch),
        ("RDMA_EW_SURF_NOTCH.EW_SURF_NOTCH", ew_notch),
    ):
        if notch < 0:
            raise writer.fail(f"DPU_RDMA.{field}", f"= {notch} makes surfaces overlap")
    return _Reader(main, main_gap, main_notch), _Reader(operand, ew_gap, ew_notch)


def _row_gap(writer: RegCmdWriter, output: OutputCube, line_stride_bytes: int) -> int:
    """Pixels between the end of an operand's row and the start of the next."""
    if output.height == 1:
        return 0
    gap, rest = divmod(line_stride_bytes - output.width * ATOM_BYTES, ATOM_BYTES)
    if rest or gap < 0:
        problem = f"from {line_stride_bytes} bytes per row of {output.width} pixels"
        raise writer.fail("DPU_RDMA.RDMA_SRC_DMA_CFG.LINE_NOTCH_ADDR", problem)
    return gap
