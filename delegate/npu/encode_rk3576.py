"""One tile of a convolution to one segment of RK3576: 139 registers of CNA, CORE, DPU, DPU_RDMA.

The order of the registers and their values are those of the vendor's programs for one core. What
differs from RK3588 besides the places of fields: operands per channel lie in blocks (48 bytes of
summands and multipliers for 8 depthwise channels), shifts in a record of their own in memory,
activations are clamps between two registers, the padding on the right and at the bottom is stated,
and streams re-arm CNA and CORE, too. Rows of every tile are fetched anew, which is right on silicon
in one kick and in several.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.chip.limits import align
from delegate.chip.register_model import BurstLength, CvtOrder, OperandData, RegisterMap
from delegate.lower.task import BnStage, ConvTask, ElementwiseTask, TableLoad, Task
from delegate.npu.encode_rk3576_alone import encode_elementwise, encode_load
from delegate.npu.regcmd import RegCmdWriter, Segment
from delegate.npu.rk3576_problems import PIXELS_AT_ONCE, problems

ENABLE_MASK = 0x1D
"""Blocks that start: CNA, CORE, DPU and DPU_RDMA."""

INT_MASK = 0x300
"""Interrupts that mean completion: DPU, either register group."""

GRAINS = 0xFFF
LINE_STRIDE_UNITS = 4
"""LINE_STRIDE per pixel of a row."""
DEPTHWISE_KERNELS = 2
CHANNELS_PER_SURFACE = 16
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Mode:
    """Registers of switches, as wholes (observed): dense or depthwise convolutions of int8."""

    convolution: int
    core: int
    feature: int
    writer: int
    wdma: int
    bs: int
    rdma: int
    operands: OperandData
    surfaces: int  # of a group that is written together


_DENSE = _Mode(
    convolution=0,
    core=1,
    feature=0x4000_0004,
    writer=0x710,
    wdma=0x12_0080,
    bs=1,
    rdma=0x4000_0010,
    operands=OperandData.ALU | OperandData.OW | OperandData.MUL,
    surfaces=2,
)
_DEPTHWISE = _Mode(
    convolution=1,
    core=10,
    feature=0x4000_000C,
    writer=0x310,
    wdma=0x10_0092,
    bs=0,
    rdma=0x4000_0012,
    operands=OperandData.ALU | OperandData.MUL,
    surfaces=4,
)
_BS_OW_DENSE = 0x8001_1111  # whole groups of 32 channels
_BS_OW_DEPTHWISE = 0x1_3033  # and the surfaces - 1, modulo 4, in bits 9:8
_BN_OFF, _BN_CLAMPS = 0x903, 0x902
_EW_OFF = 0x100_41C1
_ERDMA_OFF = 0x41
_CONSTANTS = {"UNDOCUMENTED_40C0": 0x444_0100, "UNDOCUMENTED_40D0": 0x40_FFFF}


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """The segment of one task. Raises EncodingError, also for tasks whose form is not known."""
    if isinstance(task, ElementwiseTask):
        return encode_elementwise(chip, layer, task)
    if isinstance(task, TableLoad):
        return encode_load(chip, layer, task)
    writer = RegCmdWriter(layer, task.tile, chip.registers)
    writer.refuse(problems(chip, task))
    _write_pointers(chip, writer, task)
    _write_cna(chip, writer, task)
    mode = _DEPTHWISE if task.is_depthwise else _DENSE
    _write_core(writer, task, mode)
    _write_dpu(writer, task, mode, chip.registers)
    _write_rdma(writer, task, mode)
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
    writer.write("DPU.S_POINTER", **rearm)
    writer.write("DPU_RDMA.RDMA_S_POINTER", **rearm)


def _write_cna(chip: Chip, writer: RegCmdWriter, task: ConvTask) -> None:
    feature, weights, output, cbuf = task.feature, task.weights, task.output, task.cbuf
    mode = _DEPTHWISE if task.is_depthwise else _DENSE
    second = chip.cbuf.banks if task.core else 0
    writer.write("CNA.CONV_CON1", CONV_MODE=mode.convolution)
    writer.write("CNA.CONV_CON2", FEATURE_GRAINS=GRAINS)
    writer.write(
        "CNA.CONV_CON3",
        ATROUS_Y_DILATION=task.dilation_h,
        ATROUS_X_DILATION=task.dilation_w,
        CONV_Y_STRIDE=task.stride_h,
        CONV_X_STRIDE=task.stride_w,
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
    """What is fetched of the feature map and of the weights, and what lies around the map."""
    feature, weights = task.feature, task.weights
    writer.write("CNA.FC_DATA_SIZE0", DMA_WIDTH=feature.width, DMA_HEIGHT=feature.height)
    writer.write("CNA.FC_DATA_SIZE1", DMA_CHANNEL=feature.channels)
    writer.write(
        "CNA.PAD_CON0",
        PAD_RIGHT=_used_padding(
            task.output.width,
            task.stride_w,
            weights.kw,
            task.dilation_w,
            feature.pad_left,
            feature.width,
        ),
        PAD_BOTTOM=_used_padding(
            task.output.height,
            task.stride_h,
            weights.kh,
            task.dilation_h,
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


def _channels(task: ConvTask) -> int:
    """Of the result, as programmed."""
    return task.feature.channels if task.is_depthwise else task.weights.kernels


def _write_core(writer: RegCmdWriter, task: ConvTask, mode: _Mode) -> None:
    output = task.output
    writer.write("CORE.MISC_CFG", CORE_EN=1, MODE=mode.core)
    writer.write("CORE.DATAOUT_SIZE_0", DATAOUT_HEIGHT=output.height, DATAOUT_WIDTH=output.width)
    writer.write("CORE.DATAOUT_SIZE_1", DATAOUT_CHANNEL=_channels(task))
    writer.write("CORE.CLIP_TRUNCATE")


def _write_dpu(writer: RegCmdWriter, task: ConvTask, mode: _Mode, registers: RegisterMap) -> None:
    output, channels = task.output, _channels(task)
    writer.write("DPU.FEATURE_MODE_CFG", MODE=mode.feature)
    writer.write("DPU.DATA_FORMAT")
    writer.write("DPU.OFFSET_PEND")
    writer.write_address("DPU.DST_BASE_ADDR", output.target)
    writer.write("DPU.DST_SURF_STRIDE", DST_SURF_STRIDE=output.surface_stride_bytes)
    writer.write("DPU.DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU.DATA_CUBE_HEIGHT", HEIGHT=output.height)
    writer.write("DPU.DATA_CUBE_NOTCH_ADDR")
    writer.write("DPU.DATA_CUBE_CHANNEL", CHANNEL=channels)
    writer.write("DPU.WDMA_SIZE_0", CHANNEL_WDMA=channels, MODE=mode.writer)
    writer.write("DPU.WDMA_SIZE_1", HEIGHT_WDMA=output.height, WIDTH_WDMA=output.width)
    writer.write("DPU.WDMA_MODE", MODE=mode.wdma)
    writer.write("DPU.UNDOCUMENTED_403C")
    writer.write("DPU.BS_CFG", MODE=mode.bs)
    _write_limits(writer, "BS")
    surfaces = channels // CHANNELS_PER_SURFACE
    grouping = _BS_OW_DEPTHWISE | (surfaces - 1 & 3) << 8 if task.is_depthwise else _BS_OW_DENSE
    writer.write("DPU.BS_OW_CFG", MODE=grouping)
    _write_limits(writer, "BN")
    writer.write("DPU.BN_CFG", MODE=_BN_CLAMPS if task.bn.relu else _BN_OFF)
    for name in ("RELU", "RELU_2"):
        _write_limits(writer, name, task.bn)
    writer.write("DPU.EW_CFG", MODE=_EW_OFF)
    writer.write("DPU.EW_CVT_OFFSET_VALUE")
    writer.write("DPU.EW_CVT_SCALE_VALUE", SCALE=1)
    _write_limits(writer, "EW")
    writer.write("DPU.EW_OP_VALUE_0")
    writer.write("DPU.EW_OP_VALUE_1")
    writer.write("DPU.UNDOCUMENTED_409C")
    _write_limits(writer, "OUT")
    out = task.out_convert
    writer.write("DPU.OUT_CVT_OFFSET", OUT_CVT_OFFSET=out.offset)
    writer.write("DPU.OUT_CVT_SCALE", OUT_CVT_SCALE=out.scale)
    writer.write("DPU.OUT_CVT_SHIFT", OUT_CVT_SHIFT=out.shift)
    # From behind the rows of a group's last surface that were written.
    written = output.height * output.width * ATOM_BYTES
    following = mode.surfaces * output.surface_stride_bytes - written
    writer.write("DPU.SURFACE_ADD", SURF_ADD=following)
    dpu = next(block for block in registers.blocks if block.name == "DPU")
    behind = registers.register("DPU.SURFACE_ADD").offset
    for register in dpu.registers:  # constants, and the tables, which are off
        if register.offset > behind:
            writer.write(register.full_name, **_constant(register.name))


def _constant(name: str) -> dict[str, int]:
    return {"MODE": _CONSTANTS[name]} if name in _CONSTANTS else {}


def _write_limits(writer: RegCmdWriter, name: str, clamp: BnStage | None = None) -> None:
    low, high = INT32_MIN, INT32_MAX
    if clamp is not None and clamp.relu:
        low = 0
        high = INT32_MAX if clamp.relux_max is None else clamp.relux_max
    writer.write(f"DPU.{name}_MIN", MIN=low)
    writer.write(f"DPU.{name}_MAX", MAX=high)


def _write_rdma(writer: RegCmdWriter, task: ConvTask, mode: _Mode) -> None:
    output, bs = task.output, task.bs
    assert bs.operands is not None
    assert bs.scalars is not None
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_WIDTH", WIDTH=output.width)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", HEIGHT=output.height)
    writer.write("DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", CHANNEL=_channels(task))
    writer.write("DPU_RDMA.RDMA_SRC_BASE_ADDR")
    writer.write("DPU_RDMA.RDMA_BRDMA_CFG", BRDMA_DATA_USE=mode.operands, SCALAR_SHIFT=1)
    writer.write_address("DPU_RDMA.RDMA_BS_BASE_ADDR", bs.operands)
    writer.write_address("DPU_RDMA.RDMA_BS_SCALAR_ADDR", bs.scalars)
    writer.write("DPU_RDMA.RDMA_NRDMA_CFG")
    writer.write("DPU_RDMA.RDMA_BN_BASE_ADDR")
    writer.write("DPU_RDMA.RDMA_BN_SCALAR_ADDR")
    writer.write("DPU_RDMA.RDMA_ERDMA_CFG", MODE=_ERDMA_OFF)
    writer.write("DPU_RDMA.RDMA_EW_BASE_ADDR")
    writer.write("DPU_RDMA.RDMA_EW_SURF_STRIDE")
    writer.write("DPU_RDMA.RDMA_FEATURE_MODE_CFG", MODE=mode.rdma)
    for offset in (0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C):
        writer.write(f"DPU_RDMA.UNDOCUMENTED_{offset:04X}")
