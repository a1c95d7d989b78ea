"""DPU registers of the stages BS, BN, EW and OUT_CVT."""

from __future__ import annotations

from delegate.chip.register_model import repeated


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
