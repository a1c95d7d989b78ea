"""Tasks of the DPU alone to segments of RK3576: 89 registers of DPU and DPU_RDMA.

All in the forms of the vendor's programs for one core: sums and products of two maps, copies,
functions from tables, and loads of the tables. Numbers that are the same for all channels lie in a
record in memory: a summand, a multiplier and shifts, each only if it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.lower.numerics.pipeline import INDEX_STEP, EwOperation
from delegate.lower.task import (
    BnStage,
    BsStage,
    ElementwiseTask,
    EwStage,
    OutConvert,
    OutputCube,
    Source,
    TableLoad,
    TableUse,
)
from delegate.npu.encode_dpu import write_pointers
from delegate.npu.encode_table import entries_of_tables
from delegate.npu.regcmd import RegCmdWriter, Segment

ENABLE_MASK: Final = 0x18
"""Blocks that start: DPU and DPU_RDMA."""

INT_MASK: Final = 0x300
"""Interrupts that mean completion: DPU, either register group."""

_FEATURE_MODE: Final = 5
_WRITER: Final = 0xF00
_CONSTANTS: Final = {"UNDOCUMENTED_40C0": 0x444_0000, "UNDOCUMENTED_40D0": 0x40_FFFF}
_RDMA_MODE: Final = 9
_TABLE_END: Final = 512 * INDEX_STEP
"""Where BN's value selects the last entry of the tables; the first one lies as far below 0."""
_PLACES: Final = range(4)
"""Registers that say the same of the tables' ends."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Registers of switches, as wholes (observed)."""

    writer: int = 0x10_0012
    bs: int = 2
    grouping: int = 0x2_0000
    bn: int = 0x903
    ew: int = 0x100_41C1
    converter: int = 0
    table: int = 0
    ew_reader: int = 0x41
    bs_scalars: Mapping[str, int] | None = None
    bn_scalars: Mapping[str, int] | None = None


_ALL: Final = {"SCALAR_SHIFT": 1, "SCALAR_MUL": 1, "SCALAR_ALU": 1}
_SUMMAND: Final = {"SCALAR_ALU": 1}
_MAP: Final = 0x4000_0044
_SUM: Final = _Form(bs=0, grouping=0, ew=0x8002_C0C0, ew_reader=_MAP, bs_scalars=_ALL)
_PRODUCT: Final = _Form(ew=0x810F_4094, ew_reader=_MAP, bs_scalars=_SUMMAND)
_COPY: Final = _Form(bs_scalars=_SUMMAND)
_LOOK_UP: Final = _Form(
    writer=0x53, bn=0x20, ew=0x100_4140, converter=0x10, table=0x200_0006, bn_scalars=_ALL
)
_LOAD: Final = _Form(writer=0x53, table=0xFF_0000, ew_reader=1)


def encode_elementwise(chip: Chip, layer: str, task: ElementwiseTask) -> Segment:
    """The segment of ``task``. Raises EncodingError, also where its form is not known."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(_problems(task))
    _write(writer, chip, task, _form_of(task))
    return writer.finish(ENABLE_MASK, INT_MASK)


def encode_load(chip: Chip, layer: str, task: TableLoad) -> Segment:
    """A copy of an atom, then the entries of both tables. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    atom = OutputCube(task.target, 1, 1, 16, 16, 16, 1)
    copy = ElementwiseTask(task.tile, task.source, 16, atom, BsStage(), OutConvert(1, 0, 0))
    _write(writer, chip, copy, _LOAD)
    for table, entries in enumerate(entries_of_tables(writer, task.functions)):
        writer.rewrite("DPU.LUT_ACCESS_CFG", LUT_ACCESS_TYPE=1, LUT_TABLE_ID=table)
        for entry in entries:
            writer.rewrite("DPU.LUT_ACCESS_DATA", MODE=entry & 0xFFFF_FFFF)
    return writer.finish(ENABLE_MASK, INT_MASK)


def _form_of(task: ElementwiseTask) -> _Form:
    if task.table is not None:
        return _LOOK_UP
    if task.ew is None:
        return _COPY
    return _PRODUCT if task.ew.operation is EwOperation.MULTIPLY else _SUM


def _problems(task: ElementwiseTask) -> Iterator[tuple[str, str]]:
    """What no known program of this chip has: BLOCK.REGISTER.FIELD, and what is wrong there."""
    output, ew = task.output, task.ew
    if task.core:
        yield "DPU.S_POINTER", "of another core's program without a convolution is not known"
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
    if task.table is not None and (task.ew is not None or task.table.first is not None):
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


def _write(writer: RegCmdWriter, chip: Chip, task: ElementwiseTask, form: _Form) -> None:
    write_pointers(writer, is_cleared=form is _LOOK_UP)
    dpu = next(block for block in chip.registers.blocks if block.name == "DPU")
    behind = chip.registers.register("DPU.SURFACE_ADD").offset
    _write_cube(writer, task.output, form)
    _write_stages(writer, task, form)
    writer.write("DPU.SURFACE_ADD")
    fields = {} if task.table is None else _table_fields(writer, task.table)
    for register in dpu.registers:
        if register.offset <= behind:
            continue
        if register.name in _CONSTANTS:
            writer.write(register.full_name, MODE=_CONSTANTS[register.name])
        elif register.name == "UNDOCUMENTED_40CC":
            writer.write(register.full_name, MODE=form.converter)
        elif register.name == "LUT_CFG":
            writer.write(register.full_name, MODE=form.table)
        else:
            writer.write(register.full_name, **fields.get(register.name, {}))
    _write_rdma(writer, task, form)


def _write_cube(writer: RegCmdWriter, output: OutputCube, form: _Form) -> None:
    height, width, channels = output.height, output.width, output.channels
    writer.write("DPU.FEATURE_MODE_CFG", MODE=_FEATURE_MODE)
    writer.write("DPU.DATA_FORMAT")
    writer.write("DPU.OFFSET_PEND")
    writer.write_address("DPU.DST_BASE_ADDR", output.target)
    writer.write("DPU.DST_SURF_STRIDE", DST_SURF_STRIDE=output.surface_stride_bytes)
    writer.write("DPU.DATA_CUBE_WIDTH", WIDTH=width)
    writer.write("DPU.DATA_CUBE_HEIGHT", HEIGHT=height)
    writer.write("DPU.DATA_CUBE_NOTCH_ADDR")
    writer.write("DPU.DATA_CUBE_CHANNEL", CHANNEL=channels)
    writer.write("DPU.WDMA_SIZE_0", CHANNEL_WDMA=channels, MODE=_WRITER)
    writer.write("DPU.WDMA_SIZE_1", HEIGHT_WDMA=height, WIDTH_WDMA=width)
    writer.write("DPU.WDMA_MODE", MODE=form.writer)
    writer.write("DPU.UNDOCUMENTED_403C")


def _write_stages(writer: RegCmdWriter, task: ElementwiseTask, form: _Form) -> None:
    ew, out = task.ew, task.out_convert
    writer.write("DPU.BS_CFG", MODE=form.bs)
    _write_open_limits(writer, "BS")
    writer.write("DPU.BS_OW_CFG", MODE=form.grouping)
    _write_open_limits(writer, "BN")
    writer.write("DPU.BN_CFG", MODE=form.bn)
    for name in ("RELU", "RELU_2"):
        _write_open_limits(writer, name)
    writer.write("DPU.EW_CFG", MODE=form.ew)
    writer.write("DPU.EW_CVT_OFFSET_VALUE", SUMMAND=ew.offset if ew is not None else 0)
    scale, shift = (ew.scale, ew.shift) if ew is not None else (1, 0)
    writer.write("DPU.EW_CVT_SCALE_VALUE", SHIFT=shift, SCALE=scale)
    _write_open_limits(writer, "EW")
    for name in ("EW_OP_VALUE_0", "EW_OP_VALUE_1", "UNDOCUMENTED_409C"):
        writer.write(f"DPU.{name}")
    _write_open_limits(writer, "OUT")
    writer.write("DPU.OUT_CVT_OFFSET", OUT_CVT_OFFSET=out.offset)
    writer.write("DPU.OUT_CVT_SCALE", FLYING_EN=1, OUT_CVT_SCALE=out.scale)
    writer.write("DPU.OUT_CVT_SHIFT", OUT_CVT_SHIFT=out.shift)


def _write_open_limits(writer: RegCmdWriter, name: str) -> None:
    writer.write(f"DPU.{name}_MIN", MIN=-(1 << 31))
    writer.write(f"DPU.{name}_MAX", MAX=(1 << 31) - 1)


def _table_fields(writer: RegCmdWriter, use: TableUse) -> Mapping[str, Mapping[str, int]]:
    """The tables' places; beyond them, where nothing looks, entries at the ends without a slope."""
    low, high = entries_of_tables(writer, use.functions)
    first, last = low[0] & 0xFFFF, high[-1] & 0xFFFF
    fields: dict[str, Mapping[str, int]] = {"LUT_INFO": {"MODE": 0x5_0500}}
    for number in _PLACES:
        fields[f"LUT_START_{number}"] = {"START": -_TABLE_END}
        fields[f"LUT_END_{number}"] = {"END": _TABLE_END}
    for name, entry in (("LOW", first), ("HIGH", last)):
        fields[f"LUT_{name}_VALUE_0"] = {"VALUE_1": entry}
        fields[f"LUT_{name}_VALUE_1"] = {"VALUE_1": entry, "VALUE_0": entry}
    return fields


def _write_rdma(writer: RegCmdWriter, task: ElementwiseTask, form: _Form) -> None:
    output, scalars, ew = task.output, task.bs.scalars, task.ew
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", HEIGHT=output.height)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", CHANNEL=output.channels)
    writer.write_address("DPU_RDMA.RDMA_SRC_BASE_ADDR", task.source)
    for reader, stage, used in (("B", "BS", form.bs_scalars), ("N", "BN", form.bn_scalars)):
        writer.write(f"DPU_RDMA.RDMA_{reader}RDMA_CFG", **(used or {}))
        writer.write(f"DPU_RDMA.RDMA_{stage}_BASE_ADDR")
        if used is not None and scalars is not None:
            writer.write_address(f"DPU_RDMA.RDMA_{stage}_SCALAR_ADDR", scalars)
        else:
            writer.write(f"DPU_RDMA.RDMA_{stage}_SCALAR_ADDR")
    writer.write("DPU_RDMA.RDMA_ERDMA_CFG", MODE=form.ew_reader)
    if ew is not None and ew.operand is not None:
        writer.write_address("DPU_RDMA.RDMA_EW_BASE_ADDR", ew.operand)
        writer.write("DPU_RDMA.RDMA_EW_SURF_STRIDE", EW_SURF_STRIDE=ew.surface_stride_bytes)
    else:
        writer.write("DPU_RDMA.RDMA_EW_BASE_ADDR")
        writer.write("DPU_RDMA.RDMA_EW_SURF_STRIDE")
    writer.write("DPU_RDMA.RDMA_FEATURE_MODE_CFG", MODE=_RDMA_MODE)
    for offset in (0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C):
        writer.write(f"DPU_RDMA.UNDOCUMENTED_{offset:04X}")
