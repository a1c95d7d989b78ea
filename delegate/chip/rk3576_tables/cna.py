"""CNA of RK3576: fetches features and weights into CBUF and feeds the MAC array."""

from __future__ import annotations

from delegate.chip.register_model import (
    BurstLength,
    Certainty,
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
from delegate.chip.register_tables.cna import converter_mode, decompressed_amounts


def _zero(offset: int) -> RegisterSpec:
    return reg(
        offset,
        f"UNDOCUMENTED_{offset:04X}",
        "0 in every known program.",
        bits(31, 0, "VALUE", "must be 0"),
    )


CNA = block(
    "CNA",
    0x0201,
    "Fetches features and weights into CBUF and feeds the MAC array.",
    *control_registers(0x1000),
    reg(
        0x100C,
        "CONV_CON1",
        "Mode and element types of the convolution.",
        bit(29, "GROUP_LINE_OFF", "packed pixels"),
        bit(21, "FLOAT_EN", "floating point"),
        bits(15, 12, "ARGB_IN", "channels of packed pixels; 0: a cube"),
        bits(9, 7, "PROC_PRECISION", "arithmetic", Precision),
        bits(6, 4, "IN_PRECISION", "input elements", Precision),
        bits(3, 0, "CONV_MODE", "0 dense, 1 depthwise, 6 and 2 packed pixels"),
    ),
    reg(
        0x1010,
        "CONV_CON2",
        "0xfff in every known program.",
        bits(15, 0, "FEATURE_GRAINS", "rows to buffer before the scan starts"),
    ),
    reg(
        0x1014,
        "CONV_CON3",
        "Strides and dilation.",
        bit(28, "TWO_CORES", "rows shared by two cores"),
        bits(25, 21, "ATROUS_Y_DILATION", "dilation in h", minus_one=True),
        bits(20, 16, "ATROUS_X_DILATION", "dilation in w", minus_one=True),
        bits(5, 3, "CONV_Y_STRIDE", "stride in h"),
        bits(2, 0, "CONV_X_STRIDE", "stride in w"),
    ),
    reg(
        0x1018,
        "CBUF_CON0",
        "Split of the core's CBUF banks of 64 KiB.",
        bit(31, "DATA_REUSE", "rows of the tile before stay"),
        bit(30, "CBUF_EN", "1 in every known program; 0 spoils every result"),
        bits(15, 8, "DATA_BANK", "banks for feature rows"),
        bits(7, 0, "WEIGHT_FIRST_BANK", "the first bank for weights"),
    ),
    whole(0x101C, "WEIGHT_SIZE0", "Weight bytes of the task.", "WEIGHT_BYTES", "bytes"),
    reg(
        0x1020,
        "WEIGHT_SIZE1",
        "Weights of one kernel.",
        bits(18, 0, "WEIGHT_BYTES_PER_KERNEL", "kh * kw * channels"),
    ),
    reg(
        0x1024,
        "WEIGHT_SIZE2",
        "Kernel size and count. Sources differ on which of the sides is the height.",
        bits(31, 24, "WEIGHT_SIDE_1", "one side of the kernel", minus_one=True),
        bits(23, 16, "WEIGHT_SIDE_0", "the other side", minus_one=True),
        bits(15, 0, "WEIGHT_KERNELS", "kernels, an even number; 2 for depthwise", minus_one=True),
    ),
    reg(
        0x1028,
        "DATA_SIZE1",
        "Channels of the input tile.",
        bits(31, 16, "FETCHED_ENTRIES", "CBUF entries of all rows that are fetched"),
        bits(15, 0, "DATAIN_CHANNEL", "channels", minus_one=True),
    ),
    reg(
        0x102C,
        "DATA_SIZE0",
        "Width and height of the input tile.",
        bits(31, 16, "DATAIN_WIDTH", "pixels", minus_one=True),
        bits(15, 0, "DATAIN_HEIGHT", "rows", minus_one=True),
    ),
    reg(
        0x1030,
        "DATA_SIZE2",
        "Width of the output tile.",
        bits(31, 16, "KERNEL_BITS", "kh * kw * channels * 2; depthwise kh * kw * channels / 8"),
        bits(15, 0, "DATAOUT_WIDTH", "pixels", minus_one=True),
    ),
    reg(
        0x1034,
        "DATA_SIZE3",
        "Pixels of the output tile.",
        bits(31, 0, "DATAOUT_ATOMICS", "height * width", minus_one=True),
    ),
    reg(
        0x1038,
        "CBUF_CON1",
        "End of the core's banks, and reuse of weights.",
        bit(31, "WEIGHT_REUSE", "weights of the task before stay"),
        bit(8, "SECOND_CORE", "the core's banks are the upper ones"),
        bits(7, 0, "END_BANK", "the bank behind the last one"),
    ),
    reg(
        0x103C,
        "CBUF_CON2",
        "CBUF space of one input row, and where the tile's first row lies.",
        bits(31, 16, "DATA_ENTRIES", "entries of 64 bytes per row"),
        bits(15, 0, "WINDOW_START", "entry of the first row"),
    ),
    reg(
        0x1040,
        "CBUF_CON3",
        "The entries that features take.",
        bits(31, 16, "DATA_END", "entry behind the banks for features"),
        bits(15, 0, "FETCH_START", "entry where fetching begins"),
    ),
    reg(
        0x1044,
        "CBUF_CON4",
        "Width of the input, and the space of one row again.",
        bits(31, 16, "DATAIN_WIDTH", "pixels"),
        bits(15, 0, "DATA_ENTRIES", "entries of 64 bytes per row"),
    ),
    converter_mode(0x1048),
    *(
        reg(
            0x104C + 4 * pair,
            f"CVT_CON{pair + 1}",
            f"Input converter: scales of channels {2 * pair} and {2 * pair + 1}.",
            bits(31, 16, f"CVT_SCALE{2 * pair + 1}", "multiplier", signed=True),
            bits(15, 0, f"CVT_SCALE{2 * pair}", "multiplier", signed=True),
        )
        for pair in range(2)
    ),
    *(
        reg(
            0x1054 + 4 * channel,
            f"CVT_OFFSET{channel}",
            f"Input converter: offset of channel {channel}.",
            bits(31, 0, f"CVT_OFFSET{channel}", "summand", signed=True),
        )
        for channel in range(3)
    ),
    *(_zero(offset) for offset in range(0x1060, 0x1078, 4)),
    reg(
        0x1078,
        "FC_DATA_SIZE0",
        "Width and height that the feature DMA fetches.",
        bits(31, 16, "DMA_WIDTH", "pixels", minus_one=True),
        bits(15, 0, "DMA_HEIGHT", "rows", minus_one=True),
    ),
    reg(
        0x107C,
        "FC_DATA_SIZE1",
        "Channels that the feature DMA fetches.",
        bits(15, 0, "DMA_CHANNEL", "channels", minus_one=True),
    ),
    reg(
        0x1080,
        "PAD_CON0",
        "Padding around the tile; on the right and at the bottom what the last window uses.",
        bits(31, 24, "PAD_RIGHT", "columns"),
        bits(23, 16, "PAD_BOTTOM", "rows"),
        bits(15, 8, "PAD_LEFT", "columns"),
        bits(7, 0, "PAD_TOP", "rows"),
    ),
    whole(
        0x1084, "PAD_CON1", "Value of padding pixels.", "PAD_VALUE", "sign-extended", signed=True
    ),
    reg(
        0x1088,
        "FEATURE_DATA_ADDR",
        "Address of the first input row that is fetched.",
        bits(31, 0, "FEATURE_BASE_ADDR", "byte address"),
        is_address=True,
    ),
    reg(
        0x108C,
        "DMA_CON0",
        "Burst lengths of the fetches.",
        bits(19, 16, "WEIGHT_BURST_LEN", "weight bursts", BurstLength),
        bits(3, 0, "DATA_BURST_LEN", "feature bursts", BurstLength),
    ),
    whole(0x1090, "DMA_CON1", "Pitch of input rows.", "LINE_STRIDE", "4 * width"),
    whole(
        0x1094, "DMA_CON2", "Pitch of input surfaces.", "SURF_STRIDE", "pixels of a whole surface"
    ),
    reg(
        0x1098,
        "DMA_CON3",
        "Pixels of a surface that are fetched.",
        bits(31, 0, "FETCHED_PIXELS", "rounded up to 4"),
    ),
    _zero(0x109C),
    whole(
        0x1100, "DCOMP_CTRL", "Weight decompression: control (0: off).", "DECOMP_CONTROL", "mode"
    ),
    reg(
        0x1104,
        "DCOMP_REGNUM",
        "Weight decompression: register count (0: off).",
        bits(31, 0, "DCOMP_REGNUM", "registers"),
    ),
    address(0x1110, "DCOMP_ADDR0", "Address of the weights.", "DECOMPRESS_ADDR0"),
    *decompressed_amounts(2),
    reg(
        0x118C,
        "FULL_SIZE",
        "Width of the whole input, twice.",
        bits(31, 16, "FULL_WIDTH_1", "pixels", minus_one=True),
        bits(15, 0, "FULL_WIDTH_0", "pixels", minus_one=True),
    ),
    certainty=Certainty.OBSERVED,
)
