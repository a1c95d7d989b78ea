"""DPU of RK3576: BS, BN, EW and OUT_CVT stages, and the writer."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.register_model import (
    Certainty,
    DpuPrecision,
    RegisterSpec,
    address,
    bit,
    bits,
    block,
    control_registers,
    reg,
    whole,
)


def mode(offset: int, name: str, meaning: str) -> RegisterSpec:
    """A register of switches that is known as a whole only."""
    return whole(offset, name, meaning, "MODE", "switches")


def _clamp(offset: int, name: str, meaning: str) -> tuple[RegisterSpec, RegisterSpec]:
    return (
        whole(offset, f"{name}_MIN", f"{meaning}: lower limit.", "MIN", "limit", signed=True),
        whole(offset + 4, f"{name}_MAX", f"{meaning}: upper limit.", "MAX", "limit", signed=True),
    )


def _unused(*offsets: int) -> Iterator[RegisterSpec]:
    for offset in offsets:
        yield mode(offset, f"UNDOCUMENTED_{offset:04X}", "0 in every known convolution.")


def _table(offset: int, name: str, field: str, signed: bool) -> RegisterSpec:
    meaning = "Lookup tables: where the first entry, or the last one, is selected."
    item = bits(31, 0, field, "BN's value", signed=signed)
    return reg(offset, name, meaning, item)


def _beyond(offset: int, shifts: int, name: str) -> Iterator[RegisterSpec]:
    """Below the tables, or above them."""
    for number in range(2):
        yield mode(offset + 4 * number, f"{name}_SLOPE_{number}", "Beyond the tables: slopes.")
    yield mode(shifts, f"{name}_SHIFT", "Beyond the tables: right shifts of the slopes.")


def _values(offset: int, name: str) -> Iterator[RegisterSpec]:
    for number in range(2):
        yield reg(
            offset + 4 * number,
            f"{name}_VALUE_{number}",
            "Beyond the tables: the result where a slope begins.",
            bits(31, 16, "VALUE_1", "value"),
            bits(15, 0, "VALUE_0", "value"),
        )


DPU = block(
    "DPU",
    0x1001,
    "BS, BN, EW and OUT_CVT stages, and the writer.",
    *control_registers(0x4000),
    mode(0x400C, "FEATURE_MODE_CFG", "Where data comes from and goes to."),
    reg(
        0x4010,
        "DATA_FORMAT",
        "Element types.",
        bits(31, 29, "OUT_PRECISION", "output", DpuPrecision),
        bits(28, 26, "IN_PRECISION", "input", DpuPrecision),
        bits(2, 0, "PROC_PRECISION", "arithmetic", DpuPrecision),
    ),
    mode(0x4014, "OFFSET_PEND", "0 in every known program."),
    address(0x4018, "DST_BASE_ADDR", "Address of the first output row.", "DST_BASE_ADDR"),
    reg(
        0x401C,
        "DST_SURF_STRIDE",
        "Pitch of output surfaces.",
        bits(27, 0, "DST_SURF_STRIDE", "bytes per surface", unit=16),
    ),
    reg(
        0x4020,
        "DATA_CUBE_WIDTH",
        "Width of the tile.",
        bits(15, 0, "WIDTH", "pixels", minus_one=True),
    ),
    reg(
        0x4024,
        "DATA_CUBE_HEIGHT",
        "Height of the tile.",
        bits(15, 0, "HEIGHT", "rows", minus_one=True),
    ),
    mode(0x4028, "DATA_CUBE_NOTCH_ADDR", "0 in every known program."),
    reg(
        0x402C,
        "DATA_CUBE_CHANNEL",
        "Channels of the tile.",
        bits(15, 0, "CHANNEL", "channels", minus_one=True),
    ),
    reg(
        0x4030,
        "WDMA_SIZE_0",
        "Channels that are written.",
        bits(31, 16, "CHANNEL_WDMA", "channels", minus_one=True),
        bits(15, 0, "MODE", "0x710 dense, 0x310 depthwise"),
    ),
    reg(
        0x4034,
        "WDMA_SIZE_1",
        "Height and width that are written.",
        bits(31, 16, "HEIGHT_WDMA", "rows", minus_one=True),
        bits(15, 0, "WIDTH_WDMA", "pixels", minus_one=True),
    ),
    mode(0x4038, "WDMA_MODE", "How the DPU writes."),
    *_unused(0x403C),
    mode(0x4044, "BS_CFG", "BS: 1 dense, 0 depthwise, 2 without a multiplication."),
    *_clamp(0x4048, "BS", "BS"),
    mode(0x4050, "BS_OW_CFG", "How groups of channels leave; depends on their number."),
    *_clamp(0x4058, "BN", "BN"),
    mode(0x4060, "BN_CFG", "BN: 0x903 off, 0x902 clamps."),
    *_clamp(0x406C, "RELU", "Activation"),
    *_clamp(0x4074, "RELU_2", "Activation, again"),
    mode(0x407C, "EW_CFG", "EW: element-wise operation with a second operand."),
    reg(
        0x4080,
        "EW_CVT_OFFSET_VALUE",
        "EW: added to the operand before the scale.",
        bits(15, 0, "SUMMAND", "summand", signed=True),
    ),
    reg(
        0x4084,
        "EW_CVT_SCALE_VALUE",
        "EW: scale and shift of the operand; 1 where it is off.",
        bits(21, 16, "SHIFT", "right shift"),
        bits(15, 0, "SCALE", "multiplier", signed=True),
    ),
    *_clamp(0x4088, "EW", "EW"),
    mode(0x4090, "EW_OP_VALUE_0", "EW: operand from a register."),
    mode(0x4094, "EW_OP_VALUE_1", "EW: operand from a register."),
    *_unused(0x409C),
    *_clamp(0x40A4, "OUT", "Output converter"),
    reg(
        0x40AC,
        "OUT_CVT_OFFSET",
        "Output converter: added after the shift, the zero point.",
        bits(31, 0, "OUT_CVT_OFFSET", "offset", signed=True),
    ),
    reg(
        0x40B0,
        "OUT_CVT_SCALE",
        "Output converter: multiplier.",
        bit(16, "FLYING_EN", "set in element-wise tasks"),
        bits(15, 0, "OUT_CVT_SCALE", "scale", signed=True),
    ),
    reg(
        0x40B4,
        "OUT_CVT_SHIFT",
        "Output converter: right shift, ties to even.",
        bits(5, 0, "OUT_CVT_SHIFT", "bits"),
    ),
    reg(
        0x40B8,
        "SURFACE_ADD",
        "From the end of a group's rows to the next group's first.",
        bits(27, 0, "SURF_ADD", "bytes", unit=16),
    ),
    *_unused(0x40BC),
    mode(0x40C0, "UNDOCUMENTED_40C0", "0x4440100 in every known convolution."),
    *_unused(0x40C8, 0x40CC),
    mode(0x40D0, "UNDOCUMENTED_40D0", "0x40ffff in every known program."),
    reg(
        0x4100,
        "LUT_ACCESS_CFG",
        "Which of the lookup tables is written, and from where on.",
        bit(17, "LUT_ACCESS_TYPE", "1: write"),
        bit(16, "LUT_TABLE_ID", "0 LE, 1 LO"),
        bits(9, 0, "LUT_ADDR", "entry"),
    ),
    mode(0x4104, "LUT_ACCESS_DATA", "An entry of a lookup table."),
    mode(0x4108, "LUT_CFG", "Use of the lookup tables."),
    mode(0x410C, "LUT_INFO", "Distance of the entries."),
    *(_table(0x4110 + 4 * number, f"LUT_START_{number}", "START", True) for number in range(4)),
    *_unused(0x4120, 0x4130),
    *(_table(0x4140 + 4 * number, f"LUT_END_{number}", "END", True) for number in range(4)),
    *_beyond(0x4150, 0x4160, "LUT_LOW"),
    *_beyond(0x4170, 0x4184, "LUT_HIGH"),
    *_values(0x4188, "LUT_LOW"),
    *_values(0x4190, "LUT_HIGH"),
    certainty=Certainty.OBSERVED,
)
