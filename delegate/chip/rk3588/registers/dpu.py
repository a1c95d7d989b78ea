"""DPU: BS, BN, EW and OUT_CVT stages, and the writer. The two lookup tables are LE and LO."""

from __future__ import annotations

from delegate.chip.register_model import block, control_registers, repeated


def _x_registers(base: int, name: str) -> str:
    """Return the registers of BS or of BN, which have the same four."""
    return f"""
{base:#06x} {name}_CFG: {name}: which steps run.
  19:16 {name}_ALU_ALGO (AluAlgorithm): operation
  8 {name}_ALU_SRC (OperandSource): summand
  7 {name}_RELUX_EN: clamp above
  6 {name}_RELU_BYPASS: no clamp at 0
  5 {name}_MUL_PRELU: multiply negative values only
  4 {name}_MUL_BYPASS: no multiplication
  1 {name}_ALU_BYPASS: no addition
  0 {name}_BYPASS: stage off
{base + 4:#06x} {name}_ALU_CFG: {name}: summand from a register.
  31:0 {name}_ALU_OPERAND (signed): summand
{base + 8:#06x} {name}_MUL_CFG: {name}: multiplier and shift.
  31:16 {name}_MUL_OPERAND (signed): multiplier
  13:8 {name}_MUL_SHIFT_VALUE: right shift of values >= 0
  1 {name}_TRUNCATE_SRC (OperandSource): shift
  0 {name}_MUL_SRC (OperandSource): multiplier
{base + 12:#06x} {name}_RELUX_CMP_VALUE: {name}: upper limit.
  31:0 {name}_RELUX_CMP_DAT (signed): limit
"""


_EW_OPERANDS = repeated(8, 0x4090, """
{offset} EW_OP_VALUE_{n}: EW: operand {n} from a register.
  31:0 EW_OPERAND_{n} (signed): operand
""")  # fmt: skip

STAGE_REGISTERS = f"""
{_x_registers(0x4040, "BS")}
0x4050 BS_OW_CFG: Write-out grouping, and the OW term: operand times sum of inputs.
  31:28 RGP_CNTER: regrouping
  27 TP_ORG_EN: transpose
  10:8 SIZE_E_2: write-out size: 1 dense, 3 depthwise, 7 int32
  7:5 SIZE_E_1: write-out size
  4:2 SIZE_E_0: write-out size
  1 OD_BYPASS: no OW term
  0 OW_SRC (OperandSource): OW operand
0x4054 BS_OW_OP: OW term from a register: minus the weight zero point.
  15:0 OW_OP (signed): operand
{_x_registers(0x4060, "BN")}
0x4070 EW_CFG: EW: element-wise operation with a second operand.
  31 EW_CVT_TYPE (CvtOrder): order of offset and scale
  30 EW_CVT_ROUND (CvtRounding): rounding of the scale
  29:28 EW_DATA_MODE (EwDataMode): operand per channel or pixel
  23:22 EDATA_SIZE (ElementSize): operand element
  21 EW_EQUAL_EN: compare
  20 EW_BINARY_EN: binary result
  19:16 EW_ALU_ALGO (AluAlgorithm): operation
  10 EW_RELUX_EN: clamp above
  9 EW_RELU_BYPASS: no clamp at 0
  8 EW_OP_CVT_BYPASS: operand not converted
  7 EW_LUT_BYPASS: no table
  6 EW_OP_SRC (OperandSource): operand
  5 EW_MUL_PRELU: multiply negative values only
  2 EW_OP_TYPE (OperandType): ALU or multiplication
  1 EW_OP_BYPASS: no operation
  0 EW_BYPASS: stage off
0x4074 EW_CVT_OFFSET_VALUE: EW: added to the operand before the scale.
  31:0 EW_OP_CVT_OFFSET (signed): offset
0x4078 EW_CVT_SCALE_VALUE: EW: scale and shift of the operand.
  31:22 EW_TRUNCATE: right shift after the operation
  21:16 EW_OP_CVT_SHIFT: right shift of the operand
  15:0 EW_OP_CVT_SCALE (signed): scale
0x407c EW_RELUX_CMP_VALUE: EW: upper limit.
  31:0 EW_RELUX_CMP_DAT (signed): limit
0x4080 OUT_CVT_OFFSET: Output converter: added after the shift, the zero point.
  31:0 OUT_CVT_OFFSET (signed): offset
0x4084 OUT_CVT_SCALE: Output converter: multiplier.
  16 FP32TOFP16_EN: float conversion
  15:0 OUT_CVT_SCALE (signed): scale
0x4088 OUT_CVT_SHIFT: Output converter: right shift.
  31 CVT_TYPE: float path
  30 CVT_ROUND (CvtRounding): rounding
  19:12 MINUS_EXP: float path: exponent
  11:0 OUT_CVT_SHIFT: bits; the low six are used
{_EW_OPERANDS}
"""


def _slopes(base: int, table: str) -> str:
    return f"""
{base:#06x} LUT_{table}_SLOPE_SCALE: Slopes outside table {table}.
  31:16 LUT_{table}_SLOPE_OFLOW_SCALE (signed): above
  15:0 LUT_{table}_SLOPE_UFLOW_SCALE (signed): below
{base + 4:#06x} LUT_{table}_SLOPE_SHIFT: Shifts of the slopes of {table}.
  9:5 LUT_{table}_SLOPE_OFLOW_SHIFT: above
  4:0 LUT_{table}_SLOPE_UFLOW_SHIFT: below
"""


LUT_REGISTERS = f"""
0x4100 LUT_ACCESS_CFG: Table upload: which table, where.
  17 LUT_ACCESS_TYPE: 1: write
  16 LUT_TABLE_ID: 0: LE, 1: LO
  9:0 LUT_ADDR: first entry
0x4104 LUT_ACCESS_DATA: Table upload: next entry.
  31:16 LUT_ACCESS_SIGN (observed): sign of the entry
  15:0 LUT_ACCESS_DATA: entry, int16
0x4108 LUT_CFG: Choice between the two tables.
  7 LUT_CAL_SEL: with LUT_EXPAND_EN
  6 LUT_HYBRID_PRIORITY: 1: LO where both match
  5 LUT_OFLOW_PRIORITY: 1: LO above both
  4 LUT_UFLOW_PRIORITY: 1: LO below both
  3:2 LUT_LO_LE_MUX: how the tables combine
  1 LUT_EXPAND_EN: join both tables
  0 LUT_ROAD_SEL: road
0x410c LUT_INFO: Which bits index the tables.
  23:16 LUT_LO_INDEX_SELECT: index shift of LO
  15:8 LUT_LE_INDEX_SELECT: index shift of LE
0x4110 LUT_LE_START: First input of table LE.
  31:0 LUT_LE_START (signed): input
0x4114 LUT_LE_END: Last input of table LE.
  31:0 LUT_LE_END (signed): input
0x4118 LUT_LO_START: First input of table LO.
  31:0 LUT_LO_START (signed): input
0x411c LUT_LO_END: Last input of table LO.
  31:0 LUT_LO_END (signed): input
{_slopes(0x4120, "LE")}
{_slopes(0x4128, "LO")}
"""


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
