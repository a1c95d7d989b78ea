"""CNA: fetches features and weights into CBUF and feeds the MAC array."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.register_model import (
    Access,
    BurstLength,
    Certainty,
    ConvMode,
    CoreSplit,
    CvtOrder,
    PixelInput,
    Precision,
    RegisterSpec,
    address,
    bit,
    bits,
    block,
    control_registers,
    reg,
    whole,
)


def converter_mode(offset: int) -> RegisterSpec:
    """Of the input converter, in both chips' tables."""
    return reg(
        offset,
        "CVT_CON0",
        "Input converter: mode.",
        bits(27, 22, "CVT_TRUNCATE_3", "right shift of channel 3"),
        bits(21, 16, "CVT_TRUNCATE_2", "right shift of channel 2"),
        bits(15, 10, "CVT_TRUNCATE_1", "right shift of channel 1"),
        bits(9, 4, "CVT_TRUNCATE_0", "right shift of channel 0"),
        bit(3, "DATA_SIGN", "input is signed"),
        bit(2, "ROUND_TYPE", "0: half to even"),
        bits(1, 1, "CVT_TYPE", "order of the two operations", CvtOrder),
        bit(0, "CVT_BYPASS", "converter off"),
    )


def decompressed_amounts(count: int) -> Iterator[RegisterSpec]:
    """The last registers of weight decompression, which neither chip's programs use."""
    for index in range(count):
        name = f"DCOMP_AMOUNT{index}"
        meaning = f"Weight decompression: amount {index} (0: off)."
        yield whole(0x1140 + 4 * index, name, meaning, name, "amount")


CNA = block(
    "CNA",
    0x0201,
    "Fetches features and weights into CBUF and feeds the MAC array.",
    *control_registers(0x1000, pointer_access=Access.HOST),
    reg(
        0x100C,
        "CONV_CON1",
        "Mode and element types of the convolution.",
        bit(30, "NONALIGN_DMA", "rows are packed pixels"),
        bit(29, "GROUP_LINE_OFF", "fetch one row at a time instead of four"),
        bit(16, "DECONV", "transposed convolution"),
        bits(15, 12, "ARGB_IN", "channels of packed pixels", PixelInput),
        bits(9, 7, "PROC_PRECISION", "arithmetic", Precision),
        bits(6, 4, "IN_PRECISION", "input elements", Precision),
        bits(3, 0, "CONV_MODE", "dense or depthwise", ConvMode),
    ),
    reg(
        0x1010,
        "CONV_CON2",
        "Prefetch depth and sharing between cores.",
        bits(
            31,
            28,
            "CORE_SPLIT",
            "sharing of a layer between cores",
            CoreSplit,
            certainty=Certainty.OBSERVED,
        ),
        bits(23, 16, "KERNEL_GROUP", "kernel groups, unused on one core"),
        bits(13, 4, "FEATURE_GRAINS", "rows to buffer before the scan starts"),
        bit(2, "CSC_WO_EN", "1: no weights to CORE"),
        bit(1, "CSC_DO_EN", "1: no data to CORE"),
        bit(0, "CMD_FIFO_SRST", "reset the command FIFO"),
    ),
    reg(
        0x1014,
        "CONV_CON3",
        "Strides and dilation.",
        bits(30, 28, "NN_MODE", "MAC arrays of several cores together"),
        bits(25, 21, "ATROUS_Y_DILATION", "dilation in h", minus_one=True),
        bits(20, 16, "ATROUS_X_DILATION", "dilation in w", minus_one=True),
        bits(13, 11, "DECONV_Y_STRIDE", "transposed stride in h", minus_one=True),
        bits(10, 8, "DECONV_X_STRIDE", "transposed stride in w", minus_one=True),
        bits(5, 3, "CONV_Y_STRIDE", "stride in h"),
        bits(2, 0, "CONV_X_STRIDE", "stride in w"),
    ),
    reg(
        0x1020,
        "DATA_SIZE0",
        "Width and height of the input tile.",
        bits(26, 16, "DATAIN_WIDTH", "pixels"),
        bits(10, 0, "DATAIN_HEIGHT", "rows"),
    ),
    reg(
        0x1024,
        "DATA_SIZE1",
        "Channels of the input tile.",
        bits(29, 16, "DATAIN_CHANNEL_REAL", "(real channels - 1) modulo 64"),
        bits(15, 0, "DATAIN_CHANNEL", "channels, whole groups of 16 (int8)"),
    ),
    reg(
        0x1028,
        "DATA_SIZE2",
        "Width of the output tile.",
        bits(10, 0, "DATAOUT_WIDTH", "pixels"),
    ),
    reg(
        0x102C,
        "DATA_SIZE3",
        "Pixels of the output tile.",
        bits(23, 22, "SURF_MODE", "surfaces in series"),
        bits(21, 0, "DATAOUT_ATOMICS", "height * width"),
    ),
    whole(0x1030, "WEIGHT_SIZE0", "Weight bytes of the task.", "WEIGHT_BYTES", "bytes"),
    reg(
        0x1034,
        "WEIGHT_SIZE1",
        "Weight bytes of one kernel.",
        bits(18, 0, "WEIGHT_BYTES_PER_KERNEL", "kh * kw * channels * element bytes"),
    ),
    reg(
        0x1038,
        "WEIGHT_SIZE2",
        "Kernel size and count.",
        bits(28, 24, "WEIGHT_WIDTH", "kw"),
        bits(20, 16, "WEIGHT_HEIGHT", "kh"),
        bits(13, 0, "WEIGHT_KERNELS", "kernels, rounded up to even; 1 for depthwise"),
    ),
    reg(
        0x1040,
        "CBUF_CON0",
        "Split of the 12 CBUF banks of 32 KiB, and reuse of their content.",
        bit(13, "WEIGHT_REUSE", "weights of the previous task are still in their banks"),
        bit(12, "DATA_REUSE", "rows of the previous task are still in their banks"),
        bits(10, 8, "FC_DATA_BANK", "banks for zero skipping, must be 0"),
        bits(7, 4, "WEIGHT_BANK", "banks for weights"),
        bits(3, 0, "DATA_BANK", "banks for feature rows"),
    ),
    reg(
        0x1044,
        "CBUF_CON1",
        "CBUF space of one input row.",
        bits(14, 14, "DATA_ENTRIES_HIGH", "15th bit of DATA_ENTRIES", certainty=Certainty.OBSERVED),
        bits(13, 0, "DATA_ENTRIES", "entries of 64 bytes per row; pixels of a packed tile"),
    ),
    converter_mode(0x104C),
    *(
        reg(
            0x1050 + 4 * channel,
            f"CVT_CON{channel + 1}",
            f"Input converter: scale and offset of channel {channel}.",
            bits(31, 16, f"CVT_SCALE{channel}", "multiplier", signed=True),
            bits(15, 0, f"CVT_OFFSET{channel}", "summand", signed=True),
        )
        for channel in range(4)
    ),
    reg(
        0x1060,
        "FC_CON0",
        "Zero skipping of fully connected layers (unused).",
        bits(31, 16, "FC_SKIP_DATA", "value to skip"),
        bit(0, "FC_SKIP_EN", "enable"),
    ),
    reg(
        0x1064,
        "FC_CON1",
        "Zero skipping: feature offset (unused).",
        bits(16, 0, "DATA_OFFSET", "offset"),
    ),
    reg(
        0x1068,
        "PAD_CON0",
        "Padding before the tile; right and bottom follow from the output size.",
        bits(7, 4, "PAD_LEFT", "columns"),
        bits(3, 0, "PAD_TOP", "rows"),
    ),
    address(0x1070, "FEATURE_DATA_ADDR", "Address of the first input row.", "FEATURE_BASE_ADDR"),
    reg(
        0x1074,
        "FC_CON2",
        "Zero skipping: weight offset (unused).",
        bits(16, 0, "WEIGHT_OFFSET", "offset"),
    ),
    reg(
        0x1078,
        "DMA_CON0",
        "Burst lengths of the fetches.",
        bit(31, "OV4K_BYPASS", "do not split bursts at 4 KiB"),
        bits(19, 16, "WEIGHT_BURST_LEN", "weight bursts", BurstLength),
        bits(3, 0, "DATA_BURST_LEN", "feature bursts", BurstLength),
    ),
    reg(
        0x107C,
        "DMA_CON1",
        "Pitch of input rows.",
        bits(27, 0, "LINE_STRIDE", "pixels of four rows; with GROUP_LINE_OFF of one"),
    ),
    reg(
        0x1080,
        "DMA_CON2",
        "Pitch of input surfaces.",
        bits(
            27,
            0,
            "SURF_STRIDE",
            "surface pixels - LINE_STRIDE (GROUP_LINE_OFF: DMA_WIDTH)",
            signed=True,
        ),
    ),
    reg(
        0x1084,
        "FC_DATA_SIZE0",
        "Width and height that the feature DMA fetches.",
        bits(29, 16, "DMA_WIDTH", "pixels"),
        bits(10, 0, "DMA_HEIGHT", "rows"),
    ),
    reg(
        0x1088,
        "FC_DATA_SIZE1",
        "Channels that the feature DMA fetches.",
        bits(15, 0, "DMA_CHANNEL", "channels, whole groups"),
    ),
    reg(
        0x1090,
        "CLK_GATE",
        "Clock gating overrides.",
        bit(4, "CBUF_CS_DISABLE_CLKGATE", "CBUF always clocked"),
        bit(2, "CSC_DISABLE_CLKGATE", "sequence scan always clocked"),
        bit(1, "CNA_WEIGHT_DISABLE_CLKGATE", "weight fetch always clocked"),
        bit(0, "CNA_FEATURE_DISABLE_CLKGATE", "feature fetch always clocked"),
        access=Access.HOST,
    ),
    reg(
        0x1100,
        "DCOMP_CTRL",
        "Weight decompression: control (0: off).",
        bit(3, "WT_DEC_BYPASS", "bypass"),
        bits(2, 0, "DECOMP_CONTROL", "mode"),
    ),
    reg(
        0x1104,
        "DCOMP_REGNUM",
        "Weight decompression: register count (0: off).",
        bits(31, 0, "DCOMP_REGNUM", "registers"),
    ),
    address(0x1110, "DCOMP_ADDR0", "Address of the weights.", "DECOMPRESS_ADDR0"),
    *decompressed_amounts(16),
    reg(
        0x1180,
        "CVT_CON5",
        "Input converter: channels that it applies to.",
        bits(31, 0, "PER_CHANNEL_CVT_EN", "one bit per channel"),
    ),
    reg(
        0x1184,
        "PAD_CON1",
        "Value of padding pixels.",
        bits(31, 0, "PAD_VALUE", "sign-extended; depthwise: byte twice", signed=True),
    ),
)
