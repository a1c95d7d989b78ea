"""Tasks of the DPU alone to segments of RK3576: 89 registers of DPU and DPU_RDMA.

All in the forms of the vendor's programs for one core: sums and products of two maps, copies,
functions from tables, and loads of the tables. Numbers that are the same for all channels lie in a
record in memory: a summand, a multiplier and shifts, each only if it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.lower.numerics.pipeline import INDEX_STEP, EwOperation
from delegate.lower.task import BnStage, ElementwiseTask, EwStage, Source, TableLoad, TableUse
from delegate.npu.encode_dpu import write_pointers
from delegate.npu.encode_elementwise import ENABLE_MASK, INT_MASK
from delegate.npu.encode_rk3576_dpu import Fields, Form, write_dpu, write_rdma
from delegate.npu.encode_table import copy_of, entries_of_tables
from delegate.npu.regcmd import RegCmdWriter, Segment

_TABLE_END: Final = 512 * INDEX_STEP
"""Where BN's value selects the last entry of the tables; the first one lies as far below 0."""
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
    """The segment of ``task``. Raises EncodingError, also where its form is not known."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(_problems(task))
    _write(writer, chip, task, _form_of(task))
    return writer.finish(ENABLE_MASK, INT_MASK)


def encode_load(chip: Chip, layer: str, task: TableLoad) -> Segment:
    """A copy of an atom, then the entries of both tables. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    _write(writer, chip, copy_of(task), _LOAD)
    for table, entries in enumerate(entries_of_tables(writer, task.functions)):
        writer.rewrite("DPU.LUT_ACCESS_CFG", LUT_ACCESS_TYPE=1, LUT_TABLE_ID=table)
        for entry in entries:
            writer.rewrite("DPU.LUT_ACCESS_DATA", MODE=entry & 0xFFFF_FFFF)
    return writer.finish(ENABLE_MASK, INT_MASK)


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
    if output.row_gap_bytes or task.source_line_stride_bytes is not None:
        yield "DPU.DATA_CUBE_NOTCH_ADDR.MODE", "of gaps between rows is not known"
    strides = [("DPU.DST_SURF_STRIDE.DST_SURF_STRIDE", output.surface_stride_bytes)]
    strides.append(("DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.HEIGHT", task.source_surface_stride_bytes))
    if ew is not None:
        strides.append(("DPU_RDMA.RDMA_EW_SURF_STRIDE.EW_SURF_STRIDE", ew.surface_stride_bytes))
    whole = output.height * output.width * ATOM_BYTES
    for place, stride in strides:
        if output.channels > 16 and stride != whole:
            yield place, f"= {stride} for {whole} bytes of a surface: gaps are in no known program"
    yield from _stage_problems(task)
    if ew is not None:
        yield from _ew_problems(ew)


def _stage_problems(task: ElementwiseTask) -> Iterator[tuple[str, str]]:
    bs, out = task.bs, task.out_convert
    if bs.scalars is None:
        yield "DPU_RDMA.RDMA_BS_SCALAR_ADDR", "needs a record of numbers in memory"
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
    if out.ties_away or out.exponent:
        yield "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT", "with ties away from zero is not known"


def _ew_problems(ew: EwStage) -> Iterator[tuple[str, str]]:
    if ew.operand is None or ew.per_channel or ew.operand_bytes != 1:
        yield "DPU_RDMA.RDMA_ERDMA_CFG.MODE", "for other operands than maps of int8 is not known"
    if ew.operation not in (EwOperation.ADD, EwOperation.MULTIPLY):
        yield "DPU.EW_CFG.MODE", f"for {ew.operation.value} is in no known program"
    if ew.truncate or ew.relu or ew.relux_max is not None:
        yield "DPU.EW_CFG.MODE", "for a shift of the product, or a clamp, is not known"
    if ew.line_stride_bytes is not None:
        yield "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.HEIGHT", "of gaps between rows is not known"
    if ew.operation is EwOperation.MULTIPLY and (ew.scale, ew.shift) != (1, 0):
        yield "DPU.EW_CVT_SCALE_VALUE.SCALE", "before a product is 1 in every known program"


def _write(writer: RegCmdWriter, chip: Chip, task: ElementwiseTask, form: Form) -> None:
    write_pointers(writer, is_cleared=form is _LOOK_UP)
    fields = None if task.table is None else _table_fields(writer, task.table)
    write_dpu(writer, chip, task, form, task.output.channels, table_fields=fields)
    write_rdma(writer, task, form, task.output.channels)


def _table_fields(writer: RegCmdWriter, use: TableUse) -> Mapping[str, Fields]:
    """The tables' places; beyond them, where nothing looks, entries at the ends without a slope."""
    low, high = entries_of_tables(writer, use.functions)
    first, last = low[0] & 0xFFFF, high[-1] & 0xFFFF
    fields: dict[str, Fields] = {"LUT_INFO": {"MODE": 0x5_0500}}
    for number in _PLACES:
        fields[f"LUT_START_{number}"] = {"START": -_TABLE_END}
        fields[f"LUT_END_{number}"] = {"END": _TABLE_END}
    for name, entry in (("LOW", first), ("HIGH", last)):
        fields[f"LUT_{name}_VALUE_0"] = {"VALUE_1": entry}
        fields[f"LUT_{name}_VALUE_1"] = {"VALUE_1": entry, "VALUE_0": entry}
    return fields
