"""DPU of RK3576: BS, BN, EW and OUT_CVT stages, and the writer."""

from __future__ import annotations

from delegate.chip.register_model import Certainty, block, control_registers, repeated


def _clamp(base: int, name: str, meaning: str) -> str:
    return f"""
{base:#06x} {name}_MIN: {meaning}: lower limit.
  31:0 MIN (signed): limit
{base + 4:#06x} {name}_MAX: {meaning}: upper limit.
  31:0 MAX (signed): limit
"""


def _table(base: int, end: str) -> str:
    return repeated(4, base, f"""
{{offset}} LUT_{end}_{{n}}: Lookup tables: where the first entry, or the last one, is selected.
  31:0 {end} (signed): BN's value
""")  # fmt: skip


def _beyond(slopes: int, shift: int, name: str) -> str:
    """Below the tables, or above them."""
    shifts = f"{shift:#06x} {name}_SHIFT (switches): Beyond the tables: right shifts of the slopes."
    return repeated(2, slopes, f"""
{{offset}} {name}_SLOPE_{{n}} (switches): Beyond the tables: slopes.
""") + shifts  # fmt: skip


def _values(base: int, name: str) -> str:
    return repeated(2, base, f"""
{{offset}} {name}_VALUE_{{n}}: Beyond the tables: the result where a slope begins.
  31:16 VALUE_1: value
  15:0 VALUE_0: value
""")  # fmt: skip


DPU = block(
    "DPU",
    0x1001,
    "BS, BN, EW and OUT_CVT stages, and the writer.",
    f"""
{control_registers(0x4000)}
0x400c FEATURE_MODE_CFG (switches): Where data comes from and goes to.
0x4010 DATA_FORMAT: Element types.
  31:29 OUT_PRECISION (DpuPrecision): output
  28:26 IN_PRECISION (DpuPrecision): input
  2:0 PROC_PRECISION (DpuPrecision): arithmetic
0x4014 OFFSET_PEND (switches): 0 in every known program.
0x4018 DST_BASE_ADDR (address): Address of the first output row.
  31:0 DST_BASE_ADDR: byte address
0x401c DST_SURF_STRIDE: Pitch of output surfaces.
  27:0 DST_SURF_STRIDE (x16): bytes per surface
0x4020 DATA_CUBE_WIDTH: Width of the tile.
  15:0 WIDTH (m1): pixels
0x4024 DATA_CUBE_HEIGHT: Height of the tile.
  15:0 HEIGHT (m1): rows
0x4028 DATA_CUBE_NOTCH_ADDR (switches): 0 in every known program.
0x402c DATA_CUBE_CHANNEL: Channels of the tile.
  15:0 CHANNEL (m1): channels
0x4030 WDMA_SIZE_0: Channels that are written.
  31:16 CHANNEL_WDMA (m1): channels
  15:0 MODE: 0x710 dense, 0x310 depthwise
0x4034 WDMA_SIZE_1: Height and width that are written.
  31:16 HEIGHT_WDMA (m1): rows
  15:0 WIDTH_WDMA (m1): pixels
0x4038 WDMA_MODE (switches): How the DPU writes.
0x403c UNDOCUMENTED_403C (switches): 0 in every known convolution.
0x4044 BS_CFG (switches): BS: 1 dense, 0 depthwise, 2 without a multiplication.
{_clamp(0x4048, "BS", "BS")}
0x4050 BS_OW_CFG (switches): How groups of channels leave; depends on their number.
{_clamp(0x4058, "BN", "BN")}
0x4060 BN_CFG (switches): BN: 0x903 off, 0x902 clamps.
{_clamp(0x406C, "RELU", "Activation")}
{_clamp(0x4074, "RELU_2", "Activation, again")}
0x407c EW_CFG (switches): EW: element-wise operation with a second operand.
0x4080 EW_CVT_OFFSET_VALUE: EW: added to the operand before the scale.
  15:0 SUMMAND (signed): summand
0x4084 EW_CVT_SCALE_VALUE: EW: scale and shift of the operand; 1 where it is off.
  21:16 SHIFT: right shift
  15:0 SCALE (signed): multiplier
{_clamp(0x4088, "EW", "EW")}
0x4090 EW_OP_VALUE_0 (switches): EW: operand from a register.
0x4094 EW_OP_VALUE_1 (switches): EW: operand from a register.
0x409c UNDOCUMENTED_409C (switches): 0 in every known convolution.
{_clamp(0x40A4, "OUT", "Output converter")}
0x40ac OUT_CVT_OFFSET: Output converter: added after the shift, the zero point.
  31:0 OUT_CVT_OFFSET (signed): offset
0x40b0 OUT_CVT_SCALE: Output converter: multiplier.
  16 FLYING_EN: set in element-wise tasks
  15:0 OUT_CVT_SCALE (signed): scale
0x40b4 OUT_CVT_SHIFT: Output converter: right shift, ties to even.
  5:0 OUT_CVT_SHIFT: bits
0x40b8 SURFACE_ADD: From the end of a group's rows to the next group's first.
  27:0 SURF_ADD (x16): bytes
0x40bc UNDOCUMENTED_40BC (switches): 0 in every known convolution.
0x40c0 UNDOCUMENTED_40C0 (switches): 0x4440100 in every known convolution.
0x40c8 UNDOCUMENTED_40C8 (switches): 0 in every known convolution.
0x40cc UNDOCUMENTED_40CC (switches): 0 in every known convolution.
0x40d0 UNDOCUMENTED_40D0 (switches): 0x40ffff in every known program.
0x4100 LUT_ACCESS_CFG: Which of the lookup tables is written, and from where on.
  17 LUT_ACCESS_TYPE: 1: write
  16 LUT_TABLE_ID: 0 LE, 1 LO
  9:0 LUT_ADDR: entry
0x4104 LUT_ACCESS_DATA (switches): An entry of a lookup table.
0x4108 LUT_CFG (switches): Use of the lookup tables.
0x410c LUT_INFO (switches): Distance of the entries.
{_table(0x4110, "START")}
0x4120 UNDOCUMENTED_4120 (switches): 0 in every known convolution.
0x4130 UNDOCUMENTED_4130 (switches): 0 in every known convolution.
{_table(0x4140, "END")}
{_beyond(0x4150, 0x4160, "LUT_LOW")}
{_beyond(0x4170, 0x4184, "LUT_HIGH")}
{_values(0x4188, "LUT_LOW")}
{_values(0x4190, "LUT_HIGH")}
""",
    Certainty.OBSERVED,
)
