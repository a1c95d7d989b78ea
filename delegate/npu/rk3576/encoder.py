"""One tile of a convolution to one segment of RK3576: 139 registers of CNA, CORE, DPU, DPU_RDMA.

The order of the registers and their values are those of the vendor's programs for one core. What
differs from RK3588 besides the places of fields: operands per channel lie in blocks (48 bytes of
summands and multipliers for 8 depthwise channels), shifts in a record of their own in memory,
activations are clamps between two registers, the padding on the right and at the bottom is stated,
and streams re-arm CNA and CORE, too. Rows of every tile are fetched anew, which is right on silicon
in one kick and in several.

Tasks of the DPU alone to segments of RK3576: 89 registers of DPU and DPU_RDMA.

All in the forms of the vendor's programs for one core: sums and products of two maps, copies,
functions from tables, and loads of the tables. Numbers that are the same for all channels lie in a
record in memory: a summand, a multiplier and shifts, each only if it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.chip.register_model import OperandData
from delegate.lower.numerics.pipeline import INDEX_STEP, EwOperation
from delegate.lower.task import (
    BnStage,
    ConvTask,
    ElementwiseTask,
    EwStage,
    Source,
    TableLoad,
    TableUse,
    Task,
)
from delegate.npu.regcmd import REARMED, RegCmdWriter, Segment, Table, convolution, joined, pointers
from delegate.npu.rk3576.dpu import PIXELS_AT_ONCE, Form, dpu_values, problems
from delegate.npu.rk3588.encoder import (
    ALONE_ENABLE_MASK,
    ENABLE_MASK,
    INT_MASK,
    copy_of,
    entries_of_tables,
)

GRAINS = 0xFFF
LINE_STRIDE_UNITS = 4
"""LINE_STRIDE per pixel of a row."""
DEPTHWISE_KERNELS = 2


@dataclass(frozen=True, slots=True)
class _Mode:
    """Dense or depthwise convolutions of int8. ``surfaces``: of a group that is written
    together.
    """

    convolution: int
    core: int
    surfaces: int
    form: Form


_SCALARS = {"SCALAR_SHIFT": 1}
_DENSE = _Mode(
    convolution=0,
    core=1,
    surfaces=2,
    form=Form(
        feature=0x4000_0004,
        writer=0x710,
        writer_mode=0x12_0080,
        bs=1,
        grouping=0x8001_1111,  # whole groups of 32 channels
        unknown_40c0=0x444_0100,
        rdma=0x4000_0010,
        bs_reader={
            "BRDMA_DATA_USE": OperandData.ALU | OperandData.OW | OperandData.MUL,
            **_SCALARS,
        },
    ),
)
_DEPTHWISE = _Mode(
    convolution=1,
    core=10,
    surfaces=4,
    form=Form(
        feature=0x4000_000C,
        writer=0x310,
        writer_mode=0x10_0092,
        bs=0,
        grouping=0x1_3033,  # and the surfaces - 1, modulo 4, in bits 9:8
        unknown_40c0=0x444_0100,
        rdma=0x4000_0012,
        bs_reader={"BRDMA_DATA_USE": OperandData.ALU | OperandData.MUL, **_SCALARS},
    ),
)


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """Return the segment of one task. Raises EncodingError, also where its form is not known."""
    if isinstance(task, ElementwiseTask):
        return encode_elementwise(chip, layer, task)
    if isinstance(task, TableLoad):
        return encode_load(chip, layer, task)
    assert isinstance(task, ConvTask)
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(problems(chip, task))
    mode = _DEPTHWISE if task.is_depthwise else _DENSE
    channels = task.feature.channels if task.is_depthwise else task.weights.kernels
    form, output = mode.form, task.output
    if task.is_depthwise:
        surfaces = channels // CHANNELS_PER_SURFACE
        form = replace(form, grouping=form.grouping | (surfaces - 1 & 3) << 8)
    written = output.height * output.width * ATOM_BYTES
    following = mode.surfaces * output.surface_stride_bytes - written
    banks = _bank_values(chip, task)
    table = joined(
        convolution(task),
        banks,
        _own_values(task, mode, channels),
        dpu_values(task, form, channels, following),
    )
    armed = {f"{block}.S_POINTER": REARMED for block in ("CNA", "CORE")}
    first = {**armed, "CNA.CBUF_CON1": banks["CNA.CBUF_CON1"], **pointers()}
    writer.write_table(first, ("CNA", "CORE", "DPU", "DPU_RDMA"), {**table, **first})
    return writer.finish(ENABLE_MASK, INT_MASK)


def _bank_values(chip: Chip, task: ConvTask) -> Table:
    """Return which banks of CBUF the tile has: each core has its own."""
    feature = task.feature
    second = chip.cbuf.banks if task.core else 0
    entries, start = feature.entries_per_row, second * chip.cbuf.bank_entries
    data_end = start + task.data_banks * chip.cbuf.bank_entries
    return {
        "CNA.CBUF_CON0": {
            "CBUF_EN": 1,
            "DATA_BANK": task.data_banks,
            "WEIGHT_FIRST_BANK": second + task.data_banks,
        },
        "CNA.CBUF_CON1": {"SECOND_CORE": bool(task.core), "END_BANK": second + chip.cbuf.banks},
        "CNA.CBUF_CON2": {"DATA_ENTRIES": entries, "WINDOW_START": start},
        "CNA.CBUF_CON3": {"DATA_END": data_end, "FETCH_START": start},
        "CNA.CBUF_CON4": {"DATAIN_WIDTH": feature.width, "DATA_ENTRIES": entries},
    }


def _own_values(task: ConvTask, mode: _Mode, channels: int) -> Table:
    """Return what CNA and CORE of this chip have besides what all have."""
    feature, weights, output = task.feature, task.weights, task.output
    per_kernel = weights.kh * weights.kw * feature.channels
    kernel_bits = per_kernel // 8 if task.is_depthwise else 2 * per_kernel
    width, height = feature.width, feature.height
    stride, dilation = task.strides[0], task.dilations[0]  # the same in both directions
    right = _used_padding(output.width, stride, weights.kw, dilation, feature.pad_left, width)
    bottom = _used_padding(output.height, stride, weights.kh, dilation, feature.pad_top, height)
    return {
        "CNA.CONV_CON1": {"CONV_MODE": mode.convolution},
        "CNA.CONV_CON2": {"FEATURE_GRAINS": GRAINS},
        "CNA.WEIGHT_SIZE1": {"WEIGHT_BYTES_PER_KERNEL": per_kernel},
        "CNA.WEIGHT_SIZE2": {
            "WEIGHT_SIDE_1": weights.kw,
            "WEIGHT_SIDE_0": weights.kh,
            "WEIGHT_KERNELS": DEPTHWISE_KERNELS if task.is_depthwise else weights.kernels,
        },
        "CNA.DATA_SIZE1": {"FETCHED_ENTRIES": feature.entries_per_row * height},
        "CNA.DATA_SIZE2": {"KERNEL_BITS": kernel_bits},
        "CNA.CVT_CON1": {"CVT_SCALE0": 1, "CVT_SCALE1": 1},
        "CNA.CVT_CON2": {"CVT_SCALE2": 1, "CVT_SCALE3": 1},
        "CNA.PAD_CON0": {"PAD_RIGHT": right, "PAD_BOTTOM": bottom},
        "CNA.DMA_CON1": {"LINE_STRIDE": LINE_STRIDE_UNITS * width},
        "CNA.DMA_CON2": {"SURF_STRIDE": feature.surface_stride_bytes // ATOM_BYTES},
        "CNA.DMA_CON3": {"FETCHED_PIXELS": align(width * height, PIXELS_AT_ONCE)},
        "CNA.FULL_SIZE": {"FULL_WIDTH_1": width, "FULL_WIDTH_0": width},
        "CORE.MISC_CFG": {"CORE_EN": 1, "MODE": mode.core},
        "CORE.DATAOUT_SIZE_1": {"DATAOUT_CHANNEL": channels},
    }


def _used_padding(
    outputs: int, stride: int, kernel: int, dilation: int, before: int, inputs: int
) -> int:
    """Rows, or columns, behind the input that the last window reaches over."""
    reach = (outputs - 1) * stride + (kernel - 1) * dilation + 1
    return max(0, reach - before - inputs)


_TABLE_END: Final = 512 * INDEX_STEP
"""The value of BN that selects the last entry of the tables; the first one lies as far below 0."""
_PLACES: Final = range(4)
"""Registers that say the same of the tables' ends."""

_ALL: Final = {"SCALAR_SHIFT": 1, "SCALAR_MUL": 1, "SCALAR_ALU": 1}
_SUMMAND: Final = {"SCALAR_ALU": 1}
_MAP: Final = 0x4000_0044
_LOAD: Final = Form(
    feature=5,
    writer=0xF00,
    writer_mode=0x53,
    bs=2,
    grouping=0x2_0000,
    table=0xFF_0000,
    rdma=9,
    ew_reader=1,
)
_COPY: Final = replace(_LOAD, writer_mode=0x10_0012, table=0, ew_reader=0x41, bs_reader=_SUMMAND)
_SUM: Final = replace(_COPY, bs=0, grouping=0, ew=0x8002_C0C0, ew_reader=_MAP, bs_reader=_ALL)
_PRODUCT: Final = replace(_COPY, ew=0x810F_4094, ew_reader=_MAP)
_LOOK_UP: Final = replace(
    _COPY,
    writer_mode=0x53,
    bn=0x20,
    ew=0x100_4140,
    converter=0x10,
    table=0x200_0006,
    bs_reader={},
    bn_reader=_ALL,
)


def encode_elementwise(chip: Chip, layer: str, task: ElementwiseTask) -> Segment:
    """Return the segment of ``task``. Raises EncodingError, also where its form is not known."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(_problems(task))
    _write(writer, task, _form_of(task))
    return writer.finish(ALONE_ENABLE_MASK, INT_MASK)


def encode_load(chip: Chip, layer: str, task: TableLoad) -> Segment:
    """Return a copy of an atom, then the entries of both tables. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    _write(writer, copy_of(task), _LOAD)
    for table, entries in enumerate(entries_of_tables(writer, task.functions)):
        writer.rewrite("DPU.LUT_ACCESS_CFG", LUT_ACCESS_TYPE=1, LUT_TABLE_ID=table)
        writer.rewrite_values("DPU.LUT_ACCESS_DATA", entries & 0xFFFF_FFFF)
    return writer.finish(ALONE_ENABLE_MASK, INT_MASK)


def _form_of(task: ElementwiseTask) -> Form:
    if task.table is not None:
        return _LOOK_UP
    if task.ew is None:
        return _COPY
    return _PRODUCT if task.ew.operation is EwOperation.MULTIPLY else _SUM


def _problems(task: ElementwiseTask) -> Iterator[tuple[str, str]]:
    """Yield settings that no known program of this chip has: BLOCK.REGISTER.FIELD, and what is
    wrong there.
    """
    output, ew = task.output, task.ew
    if output.channels % 16 or output.surfaces_per_group != 1 or output.element_bytes != 1:
        problem = f"= {output.channels} is not whole surfaces of int8"
        yield "DPU.DATA_CUBE_CHANNEL.CHANNEL", problem
    yield from _stage_problems(task)
    if ew is not None:
        yield from _ew_problems(ew)


def _stage_problems(task: ElementwiseTask) -> Iterator[tuple[str, str]]:
    bs, out = task.bs, task.out_convert
    if Source.MEMORY in (bs.alu, bs.mul, bs.ow) or bs.relu or bs.relux_max is not None:
        yield "DPU.BS_CFG.MODE", "for operands per channel and clamps is not known here"
    has_multiplier = bs.mul is Source.REGISTER and bs.mul_operand != 1
    if has_multiplier and not task.scales_main:
        yield "DPU.BS_CFG.MODE", "for a multiplier is not known before a product or a copy"
    if bs.mul is Source.REGISTER and not 0 < bs.mul_operand < 1 << 15:
        yield "DPU.BS_CFG.MODE", f"for the multiplier {bs.mul_operand} is in no known program"
    if task.bn != BnStage():
        yield "DPU.BN_CFG.MODE", "for a multiplier, a summand or a clamp is not known here"
    if task.table is not None and task.ew is not None:
        yield "DPU.EW_CFG.MODE", "for another operation behind a table, or its place, is not known"
    if task.table is not None and task.table.is_loaded_here:
        yield "DPU.LUT_ACCESS_CFG.LUT_TABLE_ID", "in the task that looks up is not known"
    if out.ties_away or out.exponent:
        yield "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", "with ties away from zero is not known"


def _ew_problems(ew: EwStage) -> Iterator[tuple[str, str]]:
    if ew.operand is None or ew.operand_bytes != 1:
        yield "DPU_RDMA.RDMA_ERDMA_CFG.MODE", "for other operands than maps of int8 is not known"
    if ew.operation not in (EwOperation.ADD, EwOperation.MULTIPLY):
        yield "DPU.EW_CFG.MODE", f"for {ew.operation.value} is in no known program"
    if ew.truncate or ew.relu or ew.relux_max is not None:
        yield "DPU.EW_CFG.MODE", "for a shift of the product, or a clamp, is not known"
    if ew.operation is EwOperation.MULTIPLY and (ew.scale, ew.shift) != (1, 0):
        yield "DPU.EW_CVT_SCALE_VALUE.SCALE", "before a product is 1 in every known program"


def _write(writer: RegCmdWriter, task: ElementwiseTask, form: Form) -> None:
    first = pointers(is_cleared=form is _LOOK_UP)
    tables = None if task.table is None else _table_values(writer, task.table)
    table = dpu_values(task, form, task.output.channels, tables=tables)
    writer.write_table(first, ("DPU", "DPU_RDMA"), {**table, **first})


def _table_values(writer: RegCmdWriter, use: TableUse) -> Table:
    """Return the tables' places; beyond them, where nothing looks, entries at the ends without a
    slope.
    """
    low, high = entries_of_tables(writer, use.functions)
    values: Table = {"DPU.LUT_INFO": {"MODE": 0x5_0500}}
    for number in _PLACES:
        values[f"DPU.LUT_START_{number}"] = {"START": -_TABLE_END}
        values[f"DPU.LUT_END_{number}"] = {"END": _TABLE_END}
    for name, entry in (("LOW", int(low[0]) & 0xFFFF), ("HIGH", int(high[-1]) & 0xFFFF)):
        values[f"DPU.LUT_{name}_VALUE_0"] = {"VALUE_1": entry}
        values[f"DPU.LUT_{name}_VALUE_1"] = {"VALUE_1": entry, "VALUE_0": entry}
    return values
