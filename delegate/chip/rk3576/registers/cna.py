"""CNA and CORE of RK3576: CNA fetches features and weights into CBUF and feeds the MAC array, which
is CORE.
"""

from __future__ import annotations

from delegate.chip.register_model import Certainty, block, control_registers, repeated
from delegate.chip.rk3588.registers.cna import converter_mode, decompressed_amounts


def _zeros(base: int, count: int) -> str:
    return repeated(count, base, """
{offset} UNDOCUMENTED_{hex}: 0 in every known program.
  31:0 VALUE: must be 0
""")  # fmt: skip


_OFFSETS = repeated(3, 0x1054, """
{offset} CVT_OFFSET{n}: Input converter: offset of channel {n}.
  31:0 CVT_OFFSET{n} (signed): summand
""")  # fmt: skip

CNA = block(
    "CNA",
    0x0201,
    "Fetches features and weights into CBUF and feeds the MAC array.",
    f"""
{control_registers(0x1000)}
0x100c CONV_CON1: Mode and element types of the convolution.
  29 GROUP_LINE_OFF: packed pixels
  21 FLOAT_EN: floating point
  15:12 ARGB_IN: channels of packed pixels; 0: a cube
  9:7 PROC_PRECISION (Precision): arithmetic
  6:4 IN_PRECISION (Precision): input elements
  3:0 CONV_MODE: 0 dense, 1 depthwise, 6 and 2 packed pixels
0x1010 CONV_CON2: 0xfff in every known program.
  15:0 FEATURE_GRAINS: rows to buffer before the scan starts
0x1014 CONV_CON3: Strides and dilation.
  28 TWO_CORES: rows shared by two cores
  25:21 ATROUS_Y_DILATION (m1): dilation in h
  20:16 ATROUS_X_DILATION (m1): dilation in w
  5:3 CONV_Y_STRIDE: stride in h
  2:0 CONV_X_STRIDE: stride in w
0x1018 CBUF_CON0: Split of the core's CBUF banks of 64 KiB.
  31 DATA_REUSE: rows of the tile before stay
  30 CBUF_EN: 1 in every known program; 0 spoils every result
  15:8 DATA_BANK: banks for feature rows
  7:0 WEIGHT_FIRST_BANK: the first bank for weights
0x101c WEIGHT_SIZE0: Weight bytes of the task.
  31:0 WEIGHT_BYTES: bytes
0x1020 WEIGHT_SIZE1: Weights of one kernel.
  18:0 WEIGHT_BYTES_PER_KERNEL: kh * kw * channels
0x1024 WEIGHT_SIZE2: Kernel size and count. Sources differ on which of the sides is the height.
  31:24 WEIGHT_SIDE_1 (m1): one side of the kernel
  23:16 WEIGHT_SIDE_0 (m1): the other side
  15:0 WEIGHT_KERNELS (m1): kernels, an even number; 2 for depthwise
0x1028 DATA_SIZE1: Channels of the input tile.
  31:16 FETCHED_ENTRIES: CBUF entries of all rows that are fetched
  15:0 DATAIN_CHANNEL (m1): channels
0x102c DATA_SIZE0: Width and height of the input tile.
  31:16 DATAIN_WIDTH (m1): pixels
  15:0 DATAIN_HEIGHT (m1): rows
0x1030 DATA_SIZE2: Width of the output tile.
  31:16 KERNEL_BITS: kh * kw * channels * 2; depthwise kh * kw * channels / 8
  15:0 DATAOUT_WIDTH (m1): pixels
0x1034 DATA_SIZE3: Pixels of the output tile.
  31:0 DATAOUT_ATOMICS (m1): height * width
0x1038 CBUF_CON1: End of the core's banks, and reuse of weights.
  31 WEIGHT_REUSE: weights of the task before stay
  8 SECOND_CORE: the core's banks are the upper ones
  7:0 END_BANK: the bank behind the last one
0x103c CBUF_CON2: CBUF space of one input row, and where the tile's first row lies.
  31:16 DATA_ENTRIES: entries of 64 bytes per row
  15:0 WINDOW_START: entry of the first row
0x1040 CBUF_CON3: The entries that features take.
  31:16 DATA_END: entry behind the banks for features
  15:0 FETCH_START: entry where fetching begins
0x1044 CBUF_CON4: Width of the input, and the space of one row again.
  31:16 DATAIN_WIDTH: pixels
  15:0 DATA_ENTRIES: entries of 64 bytes per row
{converter_mode(0x1048)}
0x104c CVT_CON1: Input converter: scales of channels 0 and 1.
  31:16 CVT_SCALE1 (signed): multiplier
  15:0 CVT_SCALE0 (signed): multiplier
0x1050 CVT_CON2: Input converter: scales of channels 2 and 3.
  31:16 CVT_SCALE3 (signed): multiplier
  15:0 CVT_SCALE2 (signed): multiplier
{_OFFSETS}
{_zeros(0x1060, 6)}
0x1078 FC_DATA_SIZE0: Width and height that the feature DMA fetches.
  31:16 DMA_WIDTH (m1): pixels
  15:0 DMA_HEIGHT (m1): rows
0x107c FC_DATA_SIZE1: Channels that the feature DMA fetches.
  15:0 DMA_CHANNEL (m1): channels
0x1080 PAD_CON0: Padding around the tile; on the right and at the bottom what the last window uses.
  31:24 PAD_RIGHT: columns
  23:16 PAD_BOTTOM: rows
  15:8 PAD_LEFT: columns
  7:0 PAD_TOP: rows
0x1084 PAD_CON1: Value of padding pixels.
  31:0 PAD_VALUE (signed): sign-extended
0x1088 FEATURE_DATA_ADDR (address): Address of the first input row that is fetched.
  31:0 FEATURE_BASE_ADDR: byte address
0x108c DMA_CON0: Burst lengths of the fetches.
  19:16 WEIGHT_BURST_LEN (BurstLength): weight bursts
  3:0 DATA_BURST_LEN (BurstLength): feature bursts
0x1090 DMA_CON1: Pitch of input rows.
  31:0 LINE_STRIDE: 4 * width
0x1094 DMA_CON2: Pitch of input surfaces.
  31:0 SURF_STRIDE: pixels of a whole surface
0x1098 DMA_CON3: Pixels of a surface that are fetched.
  31:0 FETCHED_PIXELS: rounded up to 4
{_zeros(0x109C, 1)}
0x1100 DCOMP_CTRL: Weight decompression: control (0: off).
  31:0 DECOMP_CONTROL: mode
0x1104 DCOMP_REGNUM: Weight decompression: register count (0: off).
  31:0 DCOMP_REGNUM: registers
0x1110 DCOMP_ADDR0 (address): Address of the weights.
  31:0 DECOMPRESS_ADDR0: byte address
{decompressed_amounts(2)}
0x118c FULL_SIZE: Width of the whole input, twice.
  31:16 FULL_WIDTH_1 (m1): pixels
  15:0 FULL_WIDTH_0 (m1): pixels
""",
    Certainty.OBSERVED,
)

CORE = block(
    "CORE",
    0x0801,
    "MAC array and accumulator.",
    f"""
{control_registers(0x3000)}
0x3018 MISC_CFG: Mode and element type of the MAC array.
  28 CORE_EN: 1 in every known program
  10:8 PROC_PRECISION (Precision): arithmetic
  7 PIXELS: packed pixels
  3:0 MODE: 1 dense int8, 10 depthwise int8, 0 fp16
0x301c DATAOUT_SIZE_0: Height and width of the output tile.
  31:16 DATAOUT_HEIGHT (m1): rows
  15:0 DATAOUT_WIDTH (m1): pixels
0x3020 DATAOUT_SIZE_1: Channels of the output tile.
  15:0 DATAOUT_CHANNEL (m1): channels
0x3024 CLIP_TRUNCATE: Right shift of the accumulator before the DPU; 0 in every known program.
  4:0 CLIP_TRUNCATE: bits
""",
    Certainty.OBSERVED,
)
