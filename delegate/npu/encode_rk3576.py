"""One tile of a convolution to one segment of RK3576: 139 registers of CNA, CORE, DPU, DPU_RDMA.

The order of the registers and their values are those of the vendor's programs for one core. What
differs from RK3588 besides the places of fields: operands per channel lie in blocks (48 bytes of
summands and multipliers for 8 depthwise channels), shifts in a record of their own in memory,
activations are clamps between two registers, the padding on the right and at the bottom is stated,
and streams re-arm CNA and CORE, too. Rows of every tile are fetched anew, which is right on silicon
in one kick and in several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.chip.limits import align
from delegate.chip.register_model import BurstLength, CvtOrder, OperandData
from delegate.errors import EncodingError
from delegate.lower.task import ConvTask, ElementwiseTask, PoolTask, TableLoad, Task
from delegate.npu.encode_conv import ENABLE_MASK, INT_MASK
from delegate.npu.encode_dpu import write_pointers
from delegate.npu.encode_rk3576_alone import encode_elementwise, encode_load
from delegate.npu.encode_rk3576_dpu import Form, write_dpu, write_rdma
from delegate.npu.regcmd import RegCmdWriter, Segment
from delegate.npu.rk3576_problems import PIXELS_AT_ONCE, problems

GRAINS = 0xFFF
LINE_STRIDE_UNITS = 4
"""LINE_STRIDE per pixel of a row."""
DEPTHWISE_KERNELS = 2
CHANNELS_PER_SURFACE = 16


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
    """The segment of one task. Raises EncodingError, also for tasks whose form is not known."""
    if isinstance(task, ElementwiseTask):
        return encode_elementwise(chip, layer, task)
    if isinstance(task, TableLoad):
        return encode_load(chip, layer, task)
    if isinstance(task, PoolTask):
        raise EncodingError(f"layer {layer}: this chip's pooling unit is not known")
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(problems(chip, task))
    mode = _DEPTHWISE if task.is_depthwise else _DENSE
    channels = task.feature.channels if task.is_depthwise else task.weights.kernels
    _write_pointers(chip, writer, task)
    _write_cna(chip, writer, task, mode)
    _write_core(writer, task, mode, channels)
    form, output = mode.form, task.output
    if task.is_depthwise:
        surfaces = channels // CHANNELS_PER_SURFACE
        form = replace(form, grouping=form.grouping | (surfaces - 1 & 3) << 8)
    written = output.height * output.width * ATOM_BYTES
    following = mode.surfaces * output.surface_stride_bytes - written
    write_dpu(writer, chip, task, form, channels, following)
    write_rdma(writer, task, form, channels)
    return writer.finish(ENABLE_MASK, INT_MASK)


def _banks(chip: Chip, task: ConvTask) -> dict[str, int]:
    """CBUF_CON1: which core's banks."""
    second = chip.cbuf.banks if task.core else 0
    return {"SECOND_CORE": bool(task.core), "END_BANK": second + chip.cbuf.banks}


def _write_pointers(chip: Chip, writer: RegCmdWriter, task: ConvTask) -> None:
    rearm = {"POINTER_PP_MODE": 1, "EXECUTER_PP_EN": 1, "POINTER_PP_EN": 1}
    for block in ("CNA", "CORE"):
        writer.write(f"{block}.S_POINTER", **rearm)
    writer.write("CNA.CBUF_CON1", **_banks(chip, task))
    write_pointers(writer)


def _write_cna(chip: Chip, writer: RegCmdWriter, task: ConvTask, mode: _Mode) -> None:
    feature, weights, output, cbuf = task.feature, task.weights, task.output, task.cbuf
    second = chip.cbuf.banks if task.core else 0
    writer.write("CNA.CONV_CON1", CONV_MODE=mode.convolution)
    writer.write("CNA.CONV_CON2", FEATURE_GRAINS=GRAINS)
    writer.write(
        "CNA.CONV_CON3",
        ATROUS_Y_DILATION=task.dilations[0],
        ATROUS_X_DILATION=task.dilations[1],
        CONV_Y_STRIDE=task.strides[0],
        CONV_X_STRIDE=task.strides[1],
    )
    writer.write(
        "CNA.CBUF_CON0",
        CBUF_EN=1,
        DATA_BANK=cbuf.data_banks,
        WEIGHT_FIRST_BANK=second + cbuf.data_banks,
    )
    taps, channels = weights.kh * weights.kw, feature.channels
    writer.write("CNA.WEIGHT_SIZE0", WEIGHT_BYTES=weights.total_bytes)
    writer.write("CNA.WEIGHT_SIZE1", WEIGHT_BYTES_PER_KERNEL=taps * channels)
    writer.write(
        "CNA.WEIGHT_SIZE2",
        WEIGHT_SIDE_1=weights.kw,
        WEIGHT_SIDE_0=weights.kh,
        WEIGHT_KERNELS=DEPTHWISE_KERNELS if task.is_depthwise else weights.kernels,
    )
    entries = feature.entries_per_row
    writer.write(
        "CNA.DATA_SIZE1", FETCHED_ENTRIES=entries * feature.height, DATAIN_CHANNEL=channels
    )
    writer.write("CNA.DATA_SIZE0", DATAIN_WIDTH=feature.width, DATAIN_HEIGHT=feature.height)
    kernel_bits = taps * channels // 8 if task.is_depthwise else 2 * taps * channels
    writer.write("CNA.DATA_SIZE2", KERNEL_BITS=kernel_bits, DATAOUT_WIDTH=output.width)
    writer.write("CNA.DATA_SIZE3", DATAOUT_ATOMICS=output.height * output.width)
    writer.rewrite("CNA.CBUF_CON1", **_banks(chip, task))
    start = second * chip.cbuf.bank_entries
    writer.write("CNA.CBUF_CON2", DATA_ENTRIES=entries, WINDOW_START=start)
    data_end = start + cbuf.data_banks * chip.cbuf.bank_entries
    writer.write("CNA.CBUF_CON3", DATA_END=data_end, FETCH_START=start)
    writer.write("CNA.CBUF_CON4", DATAIN_WIDTH=feature.width, DATA_ENTRIES=entries)
    _write_input_converter(writer)
    _write_fetch(writer, task)


def _write_fetch(writer: RegCmdWriter, task: ConvTask) -> None:
    """Write what is fetched of the feature map and of the weights, and what lies around the map."""
    feature, weights = task.feature, task.weights
    writer.write("CNA.FC_DATA_SIZE0", DMA_WIDTH=feature.width, DMA_HEIGHT=feature.height)
    writer.write("CNA.FC_DATA_SIZE1", DMA_CHANNEL=feature.channels)
    writer.write(
        "CNA.PAD_CON0",
        PAD_RIGHT=_used_padding(
            task.output.width,
            task.strides[1],
            weights.kw,
            task.dilations[1],
            feature.pad_left,
            feature.width,
        ),
        PAD_BOTTOM=_used_padding(
            task.output.height,
            task.strides[0],
            weights.kh,
            task.dilations[0],
            feature.pad_top,
            feature.height,
        ),
        PAD_LEFT=feature.pad_left,
        PAD_TOP=feature.pad_top,
    )
    writer.write("CNA.PAD_CON1", PAD_VALUE=feature.pad_value)
    writer.write_address("CNA.FEATURE_DATA_ADDR", feature.source)
    writer.write(
        "CNA.DMA_CON0",
        WEIGHT_BURST_LEN=BurstLength.BURST_16,
        DATA_BURST_LEN=BurstLength.BURST_16,
    )
    writer.write("CNA.DMA_CON1", LINE_STRIDE=LINE_STRIDE_UNITS * feature.width)
    writer.write("CNA.DMA_CON2", SURF_STRIDE=feature.surface_stride_bytes // ATOM_BYTES)
    fetched = align(feature.width * feature.height, PIXELS_AT_ONCE)
    writer.write("CNA.DMA_CON3", FETCHED_PIXELS=fetched)
    writer.write("CNA.UNDOCUMENTED_109C")
    writer.write("CNA.DCOMP_CTRL")
    writer.write("CNA.DCOMP_REGNUM")
    writer.write_address("CNA.DCOMP_ADDR0", weights.source)
    writer.write("CNA.DCOMP_AMOUNT0")
    writer.write("CNA.DCOMP_AMOUNT1")
    writer.write("CNA.FULL_SIZE", FULL_WIDTH_1=feature.width, FULL_WIDTH_0=feature.width)


def _used_padding(
    outputs: int, stride: int, kernel: int, dilation: int, before: int, inputs: int
) -> int:
    """Rows, or columns, behind the input that the last window reaches over."""
    reach = (outputs - 1) * stride + (kernel - 1) * dilation + 1
    return max(0, reach - before - inputs)


def _write_input_converter(writer: RegCmdWriter) -> None:
    """int8 features are not converted: bypass, neutral scales."""
    writer.write("CNA.CVT_CON0", DATA_SIGN=1, CVT_TYPE=CvtOrder.ADD_FIRST, CVT_BYPASS=1)
    for pair in range(2):
        scales = {f"CVT_SCALE{2 * pair}": 1, f"CVT_SCALE{2 * pair + 1}": 1}
        writer.write(f"CNA.CVT_CON{pair + 1}", **scales)
    for channel in range(3):
        writer.write(f"CNA.CVT_OFFSET{channel}")
    for offset in range(0x1060, 0x1078, 4):
        writer.write(f"CNA.UNDOCUMENTED_{offset:04X}")


def _write_core(writer: RegCmdWriter, task: ConvTask, mode: _Mode, channels: int) -> None:
    output = task.output
    writer.write("CORE.MISC_CFG", CORE_EN=1, MODE=mode.core)
    writer.write("CORE.DATAOUT_SIZE_0", DATAOUT_HEIGHT=output.height, DATAOUT_WIDTH=output.width)
    writer.write("CORE.DATAOUT_SIZE_1", DATAOUT_CHANNEL=channels)
    writer.write("CORE.CLIP_TRUNCATE")
