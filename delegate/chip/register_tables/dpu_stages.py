"""DPU registers of the stages BS, BN, EW and OUT_CVT."""

from __future__ import annotations

from delegate.chip.register_model import (
    AluAlgorithm,
    CvtOrder,
    CvtRounding,
    ElementSize,
    EwDataMode,
    OperandSource,
    OperandType,
    RegisterSpec,
    bit,
    bits,
    reg,
    whole,
)


def _x_registers(base: int, name: str) -> tuple[RegisterSpec, ...]:
    """Of BS and of BN, which have the same four."""
    return (
        reg(
            base,
            f"{name}_CFG",
            f"{name}: which steps run.",
            bits(19, 16, f"{name}_ALU_ALGO", "operation", AluAlgorithm),
            bits(8, 8, f"{name}_ALU_SRC", "summand", OperandSource),
            bit(7, f"{name}_RELUX_EN", "clamp above"),
            bit(6, f"{name}_RELU_BYPASS", "no clamp at 0"),
            bit(5, f"{name}_MUL_PRELU", "multiply negative values only"),
            bit(4, f"{name}_MUL_BYPASS", "no multiplication"),
            bit(1, f"{name}_ALU_BYPASS", "no addition"),
            bit(0, f"{name}_BYPASS", "stage off"),
        ),
        reg(
            base + 4,
            f"{name}_ALU_CFG",
            f"{name}: summand from a register.",
            bits(31, 0, f"{name}_ALU_OPERAND", "summand", signed=True),
        ),
        reg(
            base + 8,
            f"{name}_MUL_CFG",
            f"{name}: multiplier and shift.",
            bits(31, 16, f"{name}_MUL_OPERAND", "multiplier", signed=True),
            bits(13, 8, f"{name}_MUL_SHIFT_VALUE", "right shift of values >= 0"),
            bits(1, 1, f"{name}_TRUNCATE_SRC", "shift", OperandSource),
            bits(0, 0, f"{name}_MUL_SRC", "multiplier", OperandSource),
        ),
        reg(
            base + 12,
            f"{name}_RELUX_CMP_VALUE",
            f"{name}: upper limit.",
            bits(31, 0, f"{name}_RELUX_CMP_DAT", "limit", signed=True),
        ),
    )


STAGE_REGISTERS: tuple[RegisterSpec, ...] = (
    *_x_registers(0x4040, "BS"),
    reg(
        0x4050,
        "BS_OW_CFG",
        "Write-out grouping, and the OW term: operand times sum of inputs.",
        bits(31, 28, "RGP_CNTER", "regrouping"),
        bit(27, "TP_ORG_EN", "transpose"),
        bits(10, 8, "SIZE_E_2", "write-out size: 1 dense, 3 depthwise, 7 int32"),
        bits(7, 5, "SIZE_E_1", "write-out size"),
        bits(4, 2, "SIZE_E_0", "write-out size"),
        bit(1, "OD_BYPASS", "no OW term"),
        bits(0, 0, "OW_SRC", "OW operand", OperandSource),
    ),
    reg(
        0x4054,
        "BS_OW_OP",
        "OW term from a register: minus the weight zero point.",
        bits(15, 0, "OW_OP", "operand", signed=True),
    ),
    *_x_registers(0x4060, "BN"),
    reg(
        0x4070,
        "EW_CFG",
        "EW: element-wise operation with a second operand.",
        bits(31, 31, "EW_CVT_TYPE", "order of offset and scale", CvtOrder),
        bits(30, 30, "EW_CVT_ROUND", "rounding of the scale", CvtRounding),
        bits(29, 28, "EW_DATA_MODE", "operand per channel or pixel", EwDataMode),
        bits(23, 22, "EDATA_SIZE", "operand element", ElementSize),
        bit(21, "EW_EQUAL_EN", "compare"),
        bit(20, "EW_BINARY_EN", "binary result"),
        bits(19, 16, "EW_ALU_ALGO", "operation", AluAlgorithm),
        bit(10, "EW_RELUX_EN", "clamp above"),
        bit(9, "EW_RELU_BYPASS", "no clamp at 0"),
        bit(8, "EW_OP_CVT_BYPASS", "operand not converted"),
        bit(7, "EW_LUT_BYPASS", "no table"),
        bits(6, 6, "EW_OP_SRC", "operand", OperandSource),
        bit(5, "EW_MUL_PRELU", "multiply negative values only"),
        bits(2, 2, "EW_OP_TYPE", "ALU or multiplication", OperandType),
        bit(1, "EW_OP_BYPASS", "no operation"),
        bit(0, "EW_BYPASS", "stage off"),
    ),
    reg(
        0x4074,
        "EW_CVT_OFFSET_VALUE",
        "EW: added to the operand before the scale.",
        bits(31, 0, "EW_OP_CVT_OFFSET", "offset", signed=True),
    ),
    reg(
        0x4078,
        "EW_CVT_SCALE_VALUE",
        "EW: scale and shift of the operand.",
        bits(31, 22, "EW_TRUNCATE", "right shift after the operation"),
        bits(21, 16, "EW_OP_CVT_SHIFT", "right shift of the operand"),
        bits(15, 0, "EW_OP_CVT_SCALE", "scale", signed=True),
    ),
    whole(
        0x407C, "EW_RELUX_CMP_VALUE", "EW: upper limit.", "EW_RELUX_CMP_DAT", "limit", signed=True
    ),
    reg(
        0x4080,
        "OUT_CVT_OFFSET",
        "Output converter: added after the shift, the zero point.",
        bits(31, 0, "OUT_CVT_OFFSET", "offset", signed=True),
    ),
    reg(
        0x4084,
        "OUT_CVT_SCALE",
        "Output converter: multiplier.",
        bit(16, "FP32TOFP16_EN", "float conversion"),
        bits(15, 0, "OUT_CVT_SCALE", "scale", signed=True),
    ),
    reg(
        0x4088,
        "OUT_CVT_SHIFT",
        "Output converter: right shift.",
        bit(31, "CVT_TYPE", "float path"),
        bits(30, 30, "CVT_ROUND", "rounding", CvtRounding),
        bits(19, 12, "MINUS_EXP", "float path: exponent"),
        bits(11, 0, "OUT_CVT_SHIFT", "bits; the low six are used"),
    ),
    *(
        reg(
            0x4090 + 4 * number,
            f"EW_OP_VALUE_{number}",
            f"EW: operand {number} from a register.",
            bits(31, 0, f"EW_OPERAND_{number}", "operand", signed=True),
        )
        for number in range(8)
    ),
)
