"""DPU: BS, BN, EW and OUT_CVT stages, and the writer."""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers
from delegate.chip.register_tables.dpu_lut import LUT_REGISTERS
from delegate.chip.register_tables.dpu_stages import STAGE_REGISTERS

DPU = block(
    "DPU",
    0x1001,
    "BS, BN, EW and OUT_CVT stages, and the writer.",
    f"""
{control_registers(0x4000)}
0x400c FEATURE_MODE_CFG: Where data comes from and goes to.
  31 COMB_USE: combined read, as DPU_RDMA COMB_USE bit 0
  30 TP_EN: transpose
  29:26 RGP_TYPE: regrouping
  25 NONALIGN: unaligned output
  24:9 SURF_LEN: length of unaligned output
  8:5 BURST_LEN (BurstLength): write bursts
  4:3 CONV_MODE (ConvMode): as CNA.CONV_CON1
  2:1 OUTPUT_MODE (OutputMode): destination
  0 FLYING_MODE: main data from MRDMA instead of CORE
0x4010 DATA_FORMAT: Element types, and shifts for negative values.
  31:29 OUT_PRECISION (DpuPrecision): output
  28:26 IN_PRECISION (DpuPrecision): input
  25:16 EW_TRUNCATE_NEG: EW right shift of values < 0
  15:10 BN_MUL_SHIFT_VALUE_NEG: BN right shift of values < 0
  9:4 BS_MUL_SHIFT_VALUE_NEG: BS right shift of values < 0
  3 MC_SURF_OUT: several surfaces in series
  2:0 PROC_PRECISION (DpuPrecision): arithmetic
0x4014 OFFSET_PEND: Value of channels added by padding.
  15:0 OFFSET_PEND: value
0x4020 DST_BASE_ADDR (address): Address of the first output row.
  31:0 DST_BASE_ADDR: byte address
0x4024 DST_SURF_STRIDE: Pitch of output surfaces.
  31:4 DST_SURF_STRIDE (x16): bytes per surface
0x4030 DATA_CUBE_WIDTH: Width of the tile.
  12:0 WIDTH (m1): pixels
0x4034 DATA_CUBE_HEIGHT: Height of the tile.
  24:22 MINMAX_CTL: minimum and maximum search
  12:0 HEIGHT (m1): rows
0x4038 DATA_CUBE_NOTCH_ADDR: Pixels to skip after each row.
  28:16 NOTCH_ADDR_1: pixels
  12:0 NOTCH_ADDR_0: pixels
0x403c DATA_CUBE_CHANNEL: Channels of the tile.
  28:16 ORIG_CHANNEL (m1): real channels
  12:0 CHANNEL (m1): channels, whole groups
0x4058 WDMA_SIZE_0: Channels that are written.
  27 TP_PRECISION: transpose element
  26:16 SIZE_C_WDMA: channel step
  12:0 CHANNEL_WDMA (m1): channels, whole groups
0x405c WDMA_SIZE_1: Height and width that are written.
  28:16 HEIGHT_WDMA (m1): rows
  12:0 WIDTH_WDMA (m1): pixels
0x40c0 SURFACE_ADD: Bytes between groups of output surfaces.
  31:4 SURF_ADD (x16): bytes
0x40c4 UNDOCUMENTED_40C4 (observed): Not in the manual; correct programs write 0.
  31:0 VALUE: must be 0
{STAGE_REGISTERS}
{LUT_REGISTERS}
""",
)
