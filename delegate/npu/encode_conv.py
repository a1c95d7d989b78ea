"""One tile of a convolution to one segment of 126 registers: CNA, CORE, DPU and DPU_RDMA.

int8 or fp16 feature maps in NC1HWC2, dense or depthwise, optionally with a fused element-wise
operand.
"""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.chip.register_model import BurstLength, CvtOrder, Precision
from delegate.lower.task import ConvTask, FeatureInput, Source
from delegate.npu.dpu_problems import size_problems
from delegate.npu.encode_dpu import conv_mode, write_dpu, write_pointers
from delegate.npu.encode_rdma import write_rdma
from delegate.npu.regcmd import RegCmdWriter, Segment

ENABLE_MASK = 0x1D
"""Blocks that start: CNA, CORE, DPU and DPU_RDMA."""

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

DCOMP_AMOUNTS = 16


def encode_conv(chip: Chip, layer: str, task: ConvTask) -> Segment:
    """The segment of ``task``. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile)
    writer.refuse(_problems(chip, task))
    # The order is that of the vendor's streams, which write four registers ahead of the pointers
    # and again in their places.
    _write_cbuf(writer, task)
    writer.write("CNA.DCOMP_REGNUM")
    writer.write("CNA.DCOMP_CTRL")
    _write_mode(writer, task)
    write_pointers(writer, is_cleared=task.table is not None)
    _write_mode(writer, task, again=True)
    _write_geometry(writer, task)
    _write_cbuf(writer, task, again=True)
    writer.write("CNA.CBUF_CON1", DATA_ENTRIES=task.feature.entries_per_row)
    _write_input_converter(writer)
    _write_fetch(writer, task)
    _write_weights(writer, task)
    writer.write("CNA.CVT_CON5")
    writer.write("CNA.PAD_CON1", PAD_VALUE=_pad_word(task.feature.pad_value, task.is_depthwise))
    _write_core(writer, task)
    write_dpu(writer, task)
    write_rdma(writer, task)
    return writer.finish(ENABLE_MASK, INT_MASK)


def _problems(chip: Chip, task: ConvTask) -> Iterator[tuple[str, str]]:
    """Yield problems that no field sees alone: BLOCK.REGISTER.FIELD, and what is wrong there."""
    yield from _cbuf_problems(chip, task)
    yield from _size_problems(chip, task)
    yield from size_problems(chip.limits, task)
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
    if task.bs.alu is not Source.MEMORY:
        problem = (
            "must be memory: a convolution without bias operands in memory is no known program"
        )
        yield "DPU.BS_CFG.BS_ALU_SRC", problem
    # The writer works in whole groups; partial ones hang (observed).
    group = chip.groups.outputs(task.is_depthwise) // task.element.bytes
    group_bytes = output.surfaces_per_group * ATOM_BYTES
    if output.channels % group or group_bytes != group * output.element_bytes:
        problem = f"= {output.channels} is not whole groups of {group}"
        yield "DPU.DATA_CUBE_CHANNEL.CHANNEL", problem
    if not task.is_depthwise and kernels > output.channels:
        problem = f"= {kernels} exceeds the {output.channels} channels of the output"
        yield "CNA.WEIGHT_SIZE2.WEIGHT_KERNELS", problem


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
    """All rows of the tile fit the data banks; weights may stream, unless they are reused."""
    chip, feature, weights = of.cbuf, task.feature, task.weights
    cbuf, weight_bytes, entries = task.cbuf, weights.total_bytes, feature.entries_per_row
    if min(cbuf.data_banks, cbuf.weight_banks) < 1:
        yield "CNA.CBUF_CON0", "gives no bank to the data or to the weights"
    banks = cbuf.data_banks + cbuf.weight_banks
    if banks > chip.banks:
        yield "CNA.CBUF_CON0", f"uses {banks} banks; the limit is {chip.banks}"
    if not 1 <= entries <= chip.max_row_entries:
        problem = f"= {entries} exceeds the limit 1..{chip.max_row_entries}"
        yield "CNA.CBUF_CON1.DATA_ENTRIES", problem
    if chip.banks_of_image(feature.height, feature.width, entries) > cbuf.data_banks:
        needed = entries * feature.height * chip.entry_bytes
        problem = f"= {cbuf.data_banks} cannot hold {needed} bytes of input rows"
        if needed <= cbuf.data_banks * chip.bank_bytes:
            problem += " of one column: the last bank is nearly full"
        yield "CNA.CBUF_CON0.DATA_BANK", problem
    room = cbuf.weight_banks * chip.bank_bytes
    if cbuf.weight_reuse and weight_bytes > room:
        problem = f"needs {weight_bytes} bytes of weights in {cbuf.weight_banks} banks"
        yield "CNA.CBUF_CON0.WEIGHT_REUSE", problem
    at_once = of.groups.outputs(task.is_depthwise) // task.element.bytes
    group_bytes = min(at_once, weights.kernels) * weights.bytes_per_kernel
    # The array waits for ever if less is there while weights stream.
    if room < min(weight_bytes, 2 * group_bytes):
        problem = f"= {cbuf.weight_banks} cannot hold two groups of kernels of {group_bytes} bytes"
        yield "CNA.CBUF_CON0.WEIGHT_BANK", problem


def _write_cbuf(writer: RegCmdWriter, task: ConvTask, *, again: bool = False) -> None:
    write = writer.rewrite if again else writer.write
    write(
        "CNA.CBUF_CON0",
        WEIGHT_REUSE=task.cbuf.weight_reuse,
        DATA_REUSE=task.cbuf.data_reuse,
        WEIGHT_BANK=task.cbuf.weight_banks,
        DATA_BANK=task.cbuf.data_banks,
    )


def _write_mode(writer: RegCmdWriter, task: ConvTask, *, again: bool = False) -> None:
    write = writer.rewrite if again else writer.write
    write(
        "CNA.CONV_CON1",
        GROUP_LINE_OFF=is_window(task.feature),
        DECONV=task.spread != (1, 1),
        PROC_PRECISION=PRECISIONS[task.element],
        IN_PRECISION=PRECISIONS[task.element],
        CONV_MODE=conv_mode(task),
    )


def is_window(feature: FeatureInput) -> bool:
    """Whether its rows are parts of wider ones: a tile of columns, or all that a stride reads.

    Four lines are fetched at once unless GROUP_LINE_OFF is set; every known program with such a
    window sets it, and all that do not have LINE_STRIDE = 4 * DMA_WIDTH.
    """
    return feature.line_stride_bytes != feature.width * ATOM_BYTES


def feature_grains(feature: FeatureInput, kh: int, stride_h: int) -> int:
    """Rows to prefetch before the scan starts; affects speed only (observed).

    All rows of the tile when they are few, else about 1024 CBUF entries, but never less than the
    rows of one output row and the next step.
    """
    whole_tile = feature.height + kh + feature.pad_top
    worth = -(-PREFETCH_ENTRIES // feature.entries_per_row) + 1
    return min(whole_tile, max(worth, kh + stride_h), MAX_GRAINS)


def _write_geometry(writer: RegCmdWriter, task: ConvTask) -> None:
    feature, output, weights = task.feature, task.output, task.weights
    grains = feature_grains(feature, weights.kh, task.strides[0])
    writer.write("CNA.CONV_CON2", FEATURE_GRAINS=grains)
    writer.write(
        "CNA.CONV_CON3",
        ATROUS_Y_DILATION=task.dilations[0],
        ATROUS_X_DILATION=task.dilations[1],
        DECONV_Y_STRIDE=task.spread[0],
        DECONV_X_STRIDE=task.spread[1],
        CONV_Y_STRIDE=task.strides[0],
        CONV_X_STRIDE=task.strides[1],
    )
    writer.write("CNA.DATA_SIZE0", DATAIN_WIDTH=feature.width, DATAIN_HEIGHT=feature.height)
    writer.write(
        "CNA.DATA_SIZE1",
        DATAIN_CHANNEL_REAL=(feature.channels_real - 1) % DATAIN_CHANNEL_MODULUS,
        DATAIN_CHANNEL=feature.channels,
    )
    writer.write("CNA.DATA_SIZE2", DATAOUT_WIDTH=output.width)
    writer.write("CNA.DATA_SIZE3", DATAOUT_ATOMICS=output.height * output.width)
    writer.write("CNA.WEIGHT_SIZE0", WEIGHT_BYTES=weights.total_bytes)
    writer.write("CNA.WEIGHT_SIZE1", WEIGHT_BYTES_PER_KERNEL=weights.bytes_per_kernel)
    writer.write(
        "CNA.WEIGHT_SIZE2",
        WEIGHT_WIDTH=weights.kw,
        WEIGHT_HEIGHT=weights.kh,
        WEIGHT_KERNELS=weights.kernels,
    )


def _write_input_converter(writer: RegCmdWriter) -> None:
    """Features are not converted: bypass, neutral scales."""
    writer.write("CNA.CVT_CON0", DATA_SIGN=1, CVT_TYPE=CvtOrder.ADD_FIRST, CVT_BYPASS=1)
    for channel in range(4):
        writer.write(f"CNA.CVT_CON{channel + 1}", **{f"CVT_SCALE{channel}": 1})


def _write_fetch(writer: RegCmdWriter, task: ConvTask) -> None:
    feature = task.feature
    writer.write("CNA.FC_CON0")
    writer.write("CNA.FC_CON1")
    writer.write("CNA.PAD_CON0", PAD_LEFT=feature.pad_left, PAD_TOP=feature.pad_top)
    writer.write_address("CNA.FEATURE_DATA_ADDR", feature.source)
    writer.write("CNA.FC_CON2")
    writer.write(
        "CNA.DMA_CON0",
        WEIGHT_BURST_LEN=BurstLength.BURST_16,
        DATA_BURST_LEN=BurstLength.BURST_16,
    )
    line, line_rest = divmod(feature.line_stride_bytes, ATOM_BYTES)
    surface, surface_rest = divmod(feature.surface_stride_bytes, ATOM_BYTES)
    if line_rest:
        problem = f"from {feature.line_stride_bytes} bytes per row, no multiple of {ATOM_BYTES}"
        raise writer.fail("CNA.DMA_CON1.LINE_STRIDE", problem)
    if surface_rest:
        problem = f"from {feature.surface_stride_bytes} bytes per surface, no multiple of 16"
        raise writer.fail("CNA.DMA_CON2.SURF_STRIDE", problem)
    # Both count pixels. A surface's pitch is SURF_STRIDE behind the fetched width of a row, or
    # behind the four rows that are fetched at once; it may be negative (maps of fewer rows).
    fetched = feature.width
    if not is_window(feature):
        line = fetched = GROUPED_LINES * feature.width
    writer.write("CNA.DMA_CON1", LINE_STRIDE=line)
    writer.write("CNA.DMA_CON2", SURF_STRIDE=surface - fetched)
    writer.write("CNA.FC_DATA_SIZE0", DMA_WIDTH=feature.width, DMA_HEIGHT=feature.height)
    writer.write("CNA.FC_DATA_SIZE1", DMA_CHANNEL=feature.channels)


def _write_weights(writer: RegCmdWriter, task: ConvTask) -> None:
    """Uncompressed weights: only the address of the decompressor is used."""
    writer.rewrite("CNA.DCOMP_CTRL")
    writer.rewrite("CNA.DCOMP_REGNUM")
    writer.write_address("CNA.DCOMP_ADDR0", task.weights.source)
    for index in range(DCOMP_AMOUNTS):
        writer.write(f"CNA.DCOMP_AMOUNT{index}")


def _pad_word(value: int, is_depthwise: bool) -> int:
    """PAD_CON1: the byte sign-extended; depthwise reads odd lanes from the second byte."""
    if not is_depthwise:
        return value
    doubled = (value & 0xFF) * 0x0101
    return doubled - 0x10000 if doubled & 0x8000 else doubled


def _write_core(writer: RegCmdWriter, task: ConvTask) -> None:
    output = task.output
    # The sum of the inputs goes with int8 results only (measured on silicon by others).
    writer.write(
        "CORE.MISC_CFG",
        PROC_PRECISION=PRECISIONS[task.element],
        DW_EN=task.is_depthwise,
        QD_EN=output.element_bytes == 1,
    )
    writer.write("CORE.DATAOUT_SIZE_0", DATAOUT_HEIGHT=output.height, DATAOUT_WIDTH=output.width)
    writer.write("CORE.DATAOUT_SIZE_1", DATAOUT_CHANNEL=output.channels)
    writer.write("CORE.CLIP_TRUNCATE")
    writer.write("CORE.UNDOCUMENTED_3030")
