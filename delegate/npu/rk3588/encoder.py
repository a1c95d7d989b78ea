"""Encode tasks for RK3588.

Tasks of the DPU alone: operations of maps, and loads of the DPU's tables.

One tile of a convolution to one segment of 126 registers: CNA, CORE, DPU and DPU_RDMA.

int8 or fp16 feature maps in NC1HWC2, dense or depthwise, optionally with a fused element-wise
operand.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.register_model import Precision
from delegate.lower.numerics.pipeline import Int64Array, table_entries
from delegate.lower.tables import TABLE_STEPS
from delegate.lower.task import (
    ConvTask,
    ElementwiseTask,
    FeatureInput,
    OutputCube,
    PoolTask,
    Source,
    Stages,
    TableLoad,
    Task,
    is_curve,
)
from delegate.npu.regcmd import (
    TAIL_WORDS,
    RegCmdWriter,
    Segment,
    Table,
    convolution,
    joined,
    pointers,
)
from delegate.npu.rk3588.dpu import conv_mode, dpu_values, problems
from delegate.npu.rk3588.pool import encode_pool
from delegate.npu.rk3588.rdma import rdma_values

ENABLE_MASK = 0x1D
"""Blocks that start: CNA, CORE, DPU and DPU_RDMA."""

BARE_ENABLE_MASK = 0x0D
"""Blocks that start in a convolution which reads nothing beside features and weights: no DPU_RDMA
(recorded of the vendor's fp16 programs)."""

INT_MASK = 0x300
"""Interrupts that mean completion: DPU, either register group."""

PRECISIONS = {Element.INT8: Precision.INT8, Element.FP16: Precision.FP16}
"""Element types of tasks, as CNA and CORE name them."""

GROUPED_LINES = 4
"""Rows that are fetched at once, and LINE_STRIDE then covers (observed in vendor programs)."""

DATAIN_CHANNEL_MODULUS = 64
"""DATAIN_CHANNEL_REAL keeps the real channel count modulo 64 (observed in vendor programs)."""

MAX_GRAINS = 1023
"""FEATURE_GRAINS has ten bits (documented)."""

PREFETCH_ENTRIES = 1024
"""About how many CBUF entries correct programs prefetch before the scan (observed; speed only)."""

_FIRST = ("CNA.CBUF_CON0", "CNA.DCOMP_REGNUM", "CNA.DCOMP_CTRL", "CNA.CONV_CON1")
"""Registers that the vendor's streams write ahead of the pointers, and again in their places."""


def _is_bare(task: ConvTask) -> bool:
    """Return whether all stages are off, as is known of fp16."""
    stages = Stages(task.bs, task.bn, task.ew, task.out_convert, task.table)
    return task.element is Element.FP16 and stages == Stages()


def _problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Yield problems that no field sees alone: BLOCK.REGISTER.FIELD, and what is wrong there."""
    yield from _cbuf_problems(chip, task)
    yield from _size_problems(chip, task)
    feature, weights, output = task.feature, task.weights, task.output
    channels, real, lanes = feature.channels, feature.channels_real, task.element.lanes
    if channels % lanes or channels < 1:
        problem = f"= {channels} is not a multiple of {lanes}"
        yield "CNA.DATA_SIZE1.DATAIN_CHANNEL", problem
    if not 0 < real <= channels:
        yield "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL", f"= {real} exceeds the limit 1..{channels}"
    kernels, per_kernel = weights.kernels, weights.bytes_per_kernel
    if weights.total_bytes != per_kernel * kernels:
        problem = f"= {weights.total_bytes} is not {kernels} kernels of {per_kernel} bytes"
        yield "CNA.WEIGHT_SIZE0.WEIGHT_BYTES", problem
    if task.is_depthwise and kernels != 1:
        problem = f"= {kernels} must be 1 for a depthwise convolution"
        yield "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS", problem
    if not -128 <= feature.pad_value <= 127:
        yield "CNA.PAD_CON1.PAD_VALUE", f"= {feature.pad_value} is not an int8"
    if task.element is Element.FP16 and feature.pad_value:
        yield "CNA.PAD_CON1.PAD_VALUE", "for fp16 is 0 in every known program"
    if task.bs.alu is not Source.MEMORY and not _is_bare(task):
        problem = (
            "must be memory: a convolution without bias operands in memory is no known program"
        )
        yield "DPU.BS_CFG.BS_ALU_SRC", problem
    # The writer works in whole groups; partial ones hang (observed).
    group = chip.groups.outputs(task.is_depthwise, task.element.bytes)
    group_bytes = output.surfaces_per_group * ATOM_BYTES
    if output.channels % group or group_bytes != group * output.element_bytes:
        problem = f"= {output.channels} is not whole groups of {group}"
        yield "DPU.DATA_CUBE_CHANNEL.CHANNEL", problem
    if not task.is_depthwise and kernels > output.channels:
        problem = f"= {kernels} exceeds the {output.channels} channels of the output"
        yield "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS", problem
    yield from problems(chip.limits, task)


def _size_problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Sizes that fields hold and others saw fail (docs/hazards.md)."""
    feature, kernels, limits = task.feature, task.weights.kernels, chip.limits
    if min(task.strides) < 1:
        yield "CNA.CONV_CON3.CONV_Y_STRIDE", "is at least 1"
    if not task.is_depthwise and (kernels % 2 or kernels > limits.kernels):
        problem = f"= {kernels} is not an even number up to {limits.kernels}"
        yield "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS", problem
    slabs = -(-feature.channels * task.element.bytes // chip.cbuf.entry_bytes)
    if (slabs - 1) * feature.width >= chip.cbuf.max_row_entries:
        problem = f"= {feature.channels} is too much beside {feature.width} columns"
        yield "CNA.DATA_SIZE1.DATAIN_CHANNEL", problem
    if task.spread == (1, 1):
        return
    if not set(task.spread) <= set(limits.spreads):
        problem = f"= {max(task.spread)} is none of {limits.spreads}"
        yield "CNA.CONV_CON3.DECONV_Y_STRIDE", problem
    pad = max(feature.pad_top, feature.pad_left)
    if pad > limits.spread_pad:
        problem = f"= {pad} exceeds {limits.spread_pad} beside pixels that lie apart"
        yield "CNA.PAD_CON0.PAD_TOP", problem


def _cbuf_problems(of: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Yield why not all rows of the tile fit the data banks; weights may stream, unless they are
    reused.
    """
    chip, feature, weights = of.cbuf, task.feature, task.weights
    weight_bytes, entries = weights.total_bytes, feature.entries_per_row
    if min(task.data_banks, task.weight_banks) < 1:
        yield "CNA.CBUF_CON0", "gives no bank to the data or to the weights"
    banks = task.data_banks + task.weight_banks
    if banks > chip.banks:
        yield "CNA.CBUF_CON0", f"uses {banks} banks; the limit is {chip.banks}"
    if not 1 <= entries <= chip.max_row_entries:
        problem = f"= {entries} exceeds the limit 1..{chip.max_row_entries}"
        yield "CNA.CBUF_CON1.DATA_ENTRIES", problem
    if chip.banks_of_image(feature.height, feature.width, entries) > task.data_banks:
        needed = entries * feature.height * chip.entry_bytes
        problem = f"= {task.data_banks} cannot hold {needed} bytes of input rows"
        if needed <= task.data_banks * chip.bank_bytes:
            problem += " of one column: the last bank is nearly full"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    room = task.weight_banks * chip.bank_bytes
    if task.weight_reuse and weight_bytes > room:
        problem = f"needs {weight_bytes} bytes of weights in {task.weight_banks} banks"
        yield "CNA.CBUF_CON0.WEIGHT_REUSE", problem
    at_once = of.groups.outputs(task.is_depthwise, task.element.bytes)
    group_bytes = min(at_once, weights.kernels) * weights.bytes_per_kernel
    # The array waits for ever if less is there while weights stream.
    if room < min(weight_bytes, 2 * group_bytes):
        problem = f"= {task.weight_banks} cannot hold two groups of kernels of {group_bytes} bytes"
        yield "CNA.CBUF_CON0.WEIGHT_BANK", problem


def feature_grains(feature: FeatureInput, kh: int, stride_h: int) -> int:
    """Rows to prefetch before the scan starts; affects speed only (observed).

    All rows of the tile when they are few, else about 1024 CBUF entries, but never less than the
    rows of one output row and the next step.
    """
    whole_tile = feature.height + kh + feature.pad_top
    worth = -(-PREFETCH_ENTRIES // feature.entries_per_row) + 1
    return min(whole_tile, max(worth, kh + stride_h), MAX_GRAINS)


def _own_values(writer: RegCmdWriter, task: ConvTask) -> Table:
    """Return what CNA and CORE of this chip have besides what all have."""
    feature, output, weights = task.feature, task.output, task.weights
    precision = PRECISIONS[task.element]
    is_window, line, surface = _pitches(writer, feature)
    padding = feature.pad_value
    if task.is_depthwise:  # odd lanes read the second byte
        doubled = (padding & 0xFF) * 0x0101
        padding = doubled - 0x10000 if doubled & 0x8000 else doubled
    return {
        "CNA.CONV_CON1": {
            "GROUP_LINE_OFF": is_window,
            "DECONV": task.spread != (1, 1),
            "PROC_PRECISION": precision,
            "IN_PRECISION": precision,
            "CONV_MODE": conv_mode(task),
        },
        "CNA.CONV_CON2": {"FEATURE_GRAINS": feature_grains(feature, weights.kh, task.strides[0])},
        "CNA.CONV_CON3": {"DECONV_Y_STRIDE": task.spread[0], "DECONV_X_STRIDE": task.spread[1]},
        "CNA.DATA_SIZE1": {
            "DATAIN_CHANNEL_REAL": (feature.channels_real - 1) % DATAIN_CHANNEL_MODULUS
        },
        "CNA.WEIGHT_SIZE1": {"WEIGHT_BYTES_PER_KERNEL": weights.bytes_per_kernel},
        "CNA.WEIGHT_SIZE2": {
            "WEIGHT_WIDTH": weights.kw,
            "WEIGHT_HEIGHT": weights.kh,
            "WEIGHT_KERNELS": weights.kernels,
        },
        "CNA.CBUF_CON0": {
            "WEIGHT_REUSE": task.weight_reuse,
            "WEIGHT_BANK": task.weight_banks,
            "DATA_BANK": task.data_banks,
        },
        "CNA.CBUF_CON1": {"DATA_ENTRIES": feature.entries_per_row},
        **{f"CNA.CVT_CON{n + 1}": {f"CVT_SCALE{n}": 1} for n in range(4)},
        "CNA.PAD_CON1": {"PAD_VALUE": padding},
        "CNA.DMA_CON1": {"LINE_STRIDE": line},
        "CNA.DMA_CON2": {"SURF_STRIDE": surface},
        # The sum of the inputs goes with int8 results only (measured on silicon by others).
        "CORE.MISC_CFG": {
            "PROC_PRECISION": precision,
            "DW_EN": task.is_depthwise,
            "QD_EN": output.element_bytes == 1,
        },
        "CORE.DATAOUT_SIZE_1": {"DATAOUT_CHANNEL": output.channels},
    }


def _pitches(writer: RegCmdWriter, feature: FeatureInput) -> tuple[bool, int, int]:
    """Return whether the rows of a task's input are parts of wider ones: a tile of columns, or all
    that a stride reads; LINE_STRIDE and SURF_STRIDE, which count pixels.

    Four lines are fetched at once unless GROUP_LINE_OFF is set; every known program with such a
    window sets it, and all that do not have LINE_STRIDE = 4 * DMA_WIDTH. A surface's pitch is
    SURF_STRIDE behind the fetched width of a row, or behind the four rows that are fetched at once;
    it may be negative (maps of fewer rows).
    """
    line, line_rest = divmod(feature.line_stride_bytes, ATOM_BYTES)
    surface, surface_rest = divmod(feature.surface_stride_bytes, ATOM_BYTES)
    if line_rest:
        problem = f"from {feature.line_stride_bytes} bytes per row, no multiple of {ATOM_BYTES}"
        raise writer.fail("CNA.DMA_CON1.LINE_STRIDE", problem)
    if surface_rest:
        problem = f"from {feature.surface_stride_bytes} bytes per surface, no multiple of 16"
        raise writer.fail("CNA.DMA_CON2.SURF_STRIDE", problem)
    if line != feature.width:
        return True, line, surface - feature.width
    fetched = GROUPED_LINES * feature.width
    return False, fetched, surface - fetched


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """Return the segment of one task. Raises EncodingError."""
    if isinstance(task, TableLoad):
        return encode_load(layer, task)
    if isinstance(task, PoolTask):
        return encode_pool(chip, layer, task)
    writer, enable_mask = RegCmdWriter(layer, task.tile), ENABLE_MASK
    if isinstance(task, ElementwiseTask):
        enable_mask = ALONE_ENABLE_MASK
        writer.refuse(problems(chip.limits, task))
        write_elementwise(writer, task)
    else:
        writer.refuse(_problems(chip, task))
        table = joined(
            convolution(task),
            _own_values(writer, task),
            dpu_values(writer, task),
            rdma_values(writer, task),
        )
        pointer = pointers(is_cleared=task.table is not None)
        blocks = ["CNA", "CORE", "DPU", "DPU_RDMA"]
        if _is_bare(task):
            enable_mask, left = BARE_ENABLE_MASK, blocks.pop()
            table, pointer = (
                {name: value for name, value in values.items() if not name.startswith(f"{left}.")}
                for values in (table, pointer)
            )
        writer.write_table((*_FIRST, *pointer), blocks, {**table, **pointer})
    if task.table is not None and task.table.is_loaded_here:
        _write_tables(writer, task.table.functions)
    return writer.finish(enable_mask, INT_MASK)


ALONE_ENABLE_MASK = 0x18
"""Blocks that start: DPU and DPU_RDMA."""


TABLES = 2
ENTRIES = 513
"""LE and LO, of int16 each. LE ends where LO begins."""
_MASK32 = 0xFFFF_FFFF
_ELEMENTWISE_WORDS = 69
TABLE_WORDS = TABLES * (1 + ENTRIES)
"""Commands that fill both tables."""
LOAD_WORDS = _ELEMENTWISE_WORDS + TABLE_WORDS + TAIL_WORDS
"""Commands of a load, tail included."""


def write_elementwise(writer: RegCmdWriter, task: ElementwiseTask) -> None:
    """Write all registers of ``task``."""
    channels, lanes = task.output.channels, task.element.lanes  # written at a time
    if channels % lanes or task.output.surfaces_per_group != 1:
        problem = f"= {channels} is not whole groups of {lanes}"
        raise writer.fail("DPU.DATA_CUBE_CHANNEL.CHANNEL", problem)
    pointer = pointers(is_cleared=task.table is not None)
    table = joined(dpu_values(writer, task), rdma_values(writer, task), pointer)
    writer.write_table(pointer, ("DPU", "DPU_RDMA"), table)


def encode_load(layer: str, task: TableLoad) -> Segment:
    """Return the segment of 1,097 registers that fills both tables. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile)
    write_elementwise(writer, copy_of(task))
    _write_tables(writer, task.functions)
    return writer.finish(ALONE_ENABLE_MASK, INT_MASK)


def _write_tables(writer: RegCmdWriter, functions: tuple[bytes, ...]) -> None:
    for table, entries in enumerate(entries_of_tables(writer, functions)):
        writer.rewrite("DPU.LUT_ACCESS_CFG", LUT_ACCESS_TYPE=1, LUT_TABLE_ID=table)
        # Extended by their signs, as in the vendor's programs.
        writer.rewrite_values("DPU.LUT_ACCESS_DATA", entries & _MASK32)


def copy_of(task: TableLoad) -> ElementwiseTask:
    """Return an atom, all stages off, as in the vendor's loads."""
    atom = OutputCube(task.target, 1, 1, 16, 16, 16, 1)
    return ElementwiseTask(task.tile, task.source, 16, atom)


def entries_of_tables(writer: RegCmdWriter, functions: tuple[bytes, ...]) -> list[Int64Array]:
    """Return the content of LE, then of LO; steps that no function needs repeat the last entry.
    Raises EncodingError.
    """
    is_one = is_curve(functions[0])
    count = 0 if is_one else sum(map(len, functions))
    if count > TABLE_STEPS:
        problem = f"for {count} results; there is room for {TABLE_STEPS}"
        raise writer.fail("DPU.LUT_ACCESS_CFG.LUT_ADDR", problem)
    if is_one:
        steps = np.frombuffer(functions[0], "<i2").astype(np.int64)
    else:
        results = np.frombuffer(b"".join(functions), np.int8).astype(np.int64)
        steps = table_entries(results)
    steps = np.pad(steps, (0, TABLES * (ENTRIES - 1) + 1 - steps.size), mode="edge")
    firsts = (table * (ENTRIES - 1) for table in range(TABLES))
    return [steps[first : first + ENTRIES] for first in firsts]
