"""CNA: fetches features and weights into CBUF and feeds the MAC array.

CORE: MAC array and accumulator.
"""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers, repeated


def converter_mode(offset: int) -> str:
    """Return the register of the input converter's mode, in both chips' tables."""
    return f"""
0x{offset:04x} CVT_CON0: Input converter: mode.
  27:22 CVT_TRUNCATE_3: right shift of channel 3
  21:16 CVT_TRUNCATE_2: right shift of channel 2
  15:10 CVT_TRUNCATE_1: right shift of channel 1
  9:4 CVT_TRUNCATE_0: right shift of channel 0
  3 DATA_SIGN: input is signed
  2 ROUND_TYPE: 0: half to even
  1 CVT_TYPE (CvtOrder): order of the two operations
  0 CVT_BYPASS: converter off
"""


def decompressed_amounts(count: int) -> str:
    """Return the last registers of weight decompression, which neither chip's programs use."""
    return repeated(count, 0x1140, """
{offset} DCOMP_AMOUNT{n}: Weight decompression: amount {n} (0: off).
  31:0 DCOMP_AMOUNT{n}: amount
""")  # fmt: skip


_SCALES = repeated(4, 0x1050, """
{offset} CVT_CON{next}: Input converter: scale and offset of channel {n}.
  31:16 CVT_SCALE{n} (signed): multiplier
  15:0 CVT_OFFSET{n} (signed): summand
""")  # fmt: skip

CNA = block(
    "CNA",
    0x0201,
    "Fetches features and weights into CBUF and feeds the MAC array.",
    f"""
{control_registers(0x1000, pointer="host")}
0x100c CONV_CON1: Mode and element types of the convolution.
  30 NONALIGN_DMA: rows are packed pixels
  29 GROUP_LINE_OFF: fetch one row at a time instead of four
  16 DECONV: transposed convolution
  15:12 ARGB_IN (PixelInput): channels of packed pixels
  9:7 PROC_PRECISION (Precision): arithmetic
  6:4 IN_PRECISION (Precision): input elements
  3:0 CONV_MODE (ConvMode): dense or depthwise
0x1010 CONV_CON2: Prefetch depth and sharing between cores.
  31:28 CORE_SPLIT (CoreSplit, observed): sharing of a layer between cores
  23:16 KERNEL_GROUP: kernel groups, unused on one core
  13:4 FEATURE_GRAINS: rows to buffer before the scan starts
  2 CSC_WO_EN: 1: no weights to CORE
  1 CSC_DO_EN: 1: no data to CORE
  0 CMD_FIFO_SRST: reset the command FIFO
0x1014 CONV_CON3: Strides and dilation.
  30:28 NN_MODE: MAC arrays of several cores together
  25:21 ATROUS_Y_DILATION (m1): dilation in h
  20:16 ATROUS_X_DILATION (m1): dilation in w
  13:11 DECONV_Y_STRIDE (m1): transposed stride in h
  10:8 DECONV_X_STRIDE (m1): transposed stride in w
  5:3 CONV_Y_STRIDE: stride in h
  2:0 CONV_X_STRIDE: stride in w
0x1020 DATA_SIZE0: Width and height of the input tile.
  26:16 DATAIN_WIDTH: pixels
  10:0 DATAIN_HEIGHT: rows
0x1024 DATA_SIZE1: Channels of the input tile.
  29:16 DATAIN_CHANNEL_REAL: (real channels - 1) modulo 64
  15:0 DATAIN_CHANNEL: channels, whole groups of 16 (int8)
0x1028 DATA_SIZE2: Width of the output tile.
  10:0 DATAOUT_WIDTH: pixels
0x102c DATA_SIZE3: Pixels of the output tile.
  23:22 SURF_MODE: surfaces in series
  21:0 DATAOUT_ATOMICS: height * width
0x1030 WEIGHT_SIZE0: Weight bytes of the task.
  31:0 WEIGHT_BYTES: bytes
0x1034 WEIGHT_SIZE1: Weight bytes of one kernel.
  18:0 WEIGHT_BYTES_PER_KERNEL: kh * kw * channels * element bytes
0x1038 WEIGHT_SIZE2: Kernel size and count.
  28:24 WEIGHT_WIDTH: kw
  20:16 WEIGHT_HEIGHT: kh
  13:0 WEIGHT_KERNELS: kernels, rounded up to even; 1 for depthwise
0x1040 CBUF_CON0: Split of the 12 CBUF banks of 32 KiB, and reuse of their content.
  13 WEIGHT_REUSE: weights of the previous task are still in their banks
  12 DATA_REUSE: rows of the previous task are still in their banks
  10:8 FC_DATA_BANK: banks for zero skipping, must be 0
  7:4 WEIGHT_BANK: banks for weights
  3:0 DATA_BANK: banks for feature rows
0x1044 CBUF_CON1: CBUF space of one input row.
  14 DATA_ENTRIES_HIGH (observed): 15th bit of DATA_ENTRIES
  13:0 DATA_ENTRIES: entries of 64 bytes per row; pixels of a packed tile
{converter_mode(0x104C)}
{_SCALES}
0x1060 FC_CON0: Zero skipping of fully connected layers (unused).
  31:16 FC_SKIP_DATA: value to skip
  0 FC_SKIP_EN: enable
0x1064 FC_CON1: Zero skipping: feature offset (unused).
  16:0 DATA_OFFSET: offset
0x1068 PAD_CON0: Padding before the tile; right and bottom follow from the output size.
  7:4 PAD_LEFT: columns
  3:0 PAD_TOP: rows
0x1070 FEATURE_DATA_ADDR (address): Address of the first input row.
  31:0 FEATURE_BASE_ADDR: byte address
0x1074 FC_CON2: Zero skipping: weight offset (unused).
  16:0 WEIGHT_OFFSET: offset
0x1078 DMA_CON0: Burst lengths of the fetches.
  31 OV4K_BYPASS: do not split bursts at 4 KiB
  19:16 WEIGHT_BURST_LEN (BurstLength): weight bursts
  3:0 DATA_BURST_LEN (BurstLength): feature bursts
0x107c DMA_CON1: Pitch of input rows.
  27:0 LINE_STRIDE: pixels of four rows; with GROUP_LINE_OFF of one
0x1080 DMA_CON2: Pitch of input surfaces.
  27:0 SURF_STRIDE (signed): surface pixels - LINE_STRIDE (GROUP_LINE_OFF: DMA_WIDTH)
0x1084 FC_DATA_SIZE0: Width and height that the feature DMA fetches.
  29:16 DMA_WIDTH: pixels
  10:0 DMA_HEIGHT: rows
0x1088 FC_DATA_SIZE1: Channels that the feature DMA fetches.
  15:0 DMA_CHANNEL: channels, whole groups
0x1090 CLK_GATE (host): Clock gating overrides.
  4 CBUF_CS_DISABLE_CLKGATE: CBUF always clocked
  2 CSC_DISABLE_CLKGATE: sequence scan always clocked
  1 CNA_WEIGHT_DISABLE_CLKGATE: weight fetch always clocked
  0 CNA_FEATURE_DISABLE_CLKGATE: feature fetch always clocked
0x1100 DCOMP_CTRL: Weight decompression: control (0: off).
  3 WT_DEC_BYPASS: bypass
  2:0 DECOMP_CONTROL: mode
0x1104 DCOMP_REGNUM: Weight decompression: register count (0: off).
  31:0 DCOMP_REGNUM: registers
0x1110 DCOMP_ADDR0 (address): Address of the weights.
  31:0 DECOMPRESS_ADDR0: byte address
{decompressed_amounts(16)}
0x1180 CVT_CON5: Input converter: channels that it applies to.
  31:0 PER_CHANNEL_CVT_EN: one bit per channel
0x1184 PAD_CON1: Value of padding pixels.
  31:0 PAD_VALUE (signed): sign-extended; depthwise: byte twice
""",
)


CORE = block(
    "CORE",
    0x0801,
    "MAC array and accumulator.",
    f"""
{control_registers(0x3000, pointer="host")}
0x300c MAC_GATING (host): Clock gating of the MAC array.
  26:0 SLCG_OP_EN: gating signals
0x3010 MISC_CFG: Mode and element type of the MAC array.
  19:14 SOFT_GATING: accumulator gating
  10:8 PROC_PRECISION (Precision): arithmetic
  1 DW_EN: depthwise
  0 QD_EN: also sum the inputs, for the OW term of the DPU
0x3014 DATAOUT_SIZE_0: Height and width of the output tile.
  31:16 DATAOUT_HEIGHT (m1): rows
  15:0 DATAOUT_WIDTH (m1): pixels
0x3018 DATAOUT_SIZE_1: Channels of the output tile.
  15:0 DATAOUT_CHANNEL (m1): channels, whole groups
0x301c CLIP_TRUNCATE: Right shift of the accumulator before the DPU (0: none; its exact rule is \
      unproven).
  6 ROUND_TYPE: 0: half to even
  4:0 CLIP_TRUNCATE: bits
0x3030 UNDOCUMENTED_3030 (observed): Not in the manual; correct programs write 0 and no effect \
      was seen.
  31:0 VALUE: must be 0
""",
)
