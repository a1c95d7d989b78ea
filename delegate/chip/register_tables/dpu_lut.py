"""DPU registers of the two lookup tables LE and LO."""

from __future__ import annotations

from delegate.chip.register_model import Certainty, RegisterSpec, bit, bits, reg, whole


def _slopes(offset: int, table: str) -> tuple[RegisterSpec, RegisterSpec]:
    return (
        reg(
            offset,
            f"LUT_{table}_SLOPE_SCALE",
            f"Slopes outside table {table}.",
            bits(31, 16, f"LUT_{table}_SLOPE_OFLOW_SCALE", "above", signed=True),
            bits(15, 0, f"LUT_{table}_SLOPE_UFLOW_SCALE", "below", signed=True),
        ),
        reg(
            offset + 4,
            f"LUT_{table}_SLOPE_SHIFT",
            f"Shifts of the slopes of {table}.",
            bits(9, 5, f"LUT_{table}_SLOPE_OFLOW_SHIFT", "above"),
            bits(4, 0, f"LUT_{table}_SLOPE_UFLOW_SHIFT", "below"),
        ),
    )


LUT_REGISTERS: tuple[RegisterSpec, ...] = (
    reg(
        0x4100,
        "LUT_ACCESS_CFG",
        "Table upload: which table, where.",
        bit(17, "LUT_ACCESS_TYPE", "1: write"),
        bit(16, "LUT_TABLE_ID", "0: LE, 1: LO"),
        bits(9, 0, "LUT_ADDR", "first entry"),
    ),
    reg(
        0x4104,
        "LUT_ACCESS_DATA",
        "Table upload: next entry.",
        bits(31, 16, "LUT_ACCESS_SIGN", "sign of the entry", certainty=Certainty.OBSERVED),
        bits(15, 0, "LUT_ACCESS_DATA", "entry, int16"),
    ),
    reg(
        0x4108,
        "LUT_CFG",
        "Choice between the two tables.",
        bit(7, "LUT_CAL_SEL", "with LUT_EXPAND_EN"),
        bit(6, "LUT_HYBRID_PRIORITY", "1: LO where both match"),
        bit(5, "LUT_OFLOW_PRIORITY", "1: LO above both"),
        bit(4, "LUT_UFLOW_PRIORITY", "1: LO below both"),
        bits(3, 2, "LUT_LO_LE_MUX", "how the tables combine"),
        bit(1, "LUT_EXPAND_EN", "join both tables"),
        bit(0, "LUT_ROAD_SEL", "road"),
    ),
    reg(
        0x410C,
        "LUT_INFO",
        "Which bits index the tables.",
        bits(23, 16, "LUT_LO_INDEX_SELECT", "index shift of LO"),
        bits(15, 8, "LUT_LE_INDEX_SELECT", "index shift of LE"),
    ),
    whole(0x4110, "LUT_LE_START", "First input of table LE.", "LUT_LE_START", "input", signed=True),
    whole(0x4114, "LUT_LE_END", "Last input of table LE.", "LUT_LE_END", "input", signed=True),
    whole(0x4118, "LUT_LO_START", "First input of table LO.", "LUT_LO_START", "input", signed=True),
    whole(0x411C, "LUT_LO_END", "Last input of table LO.", "LUT_LO_END", "input", signed=True),
    *_slopes(0x4120, "LE"),
    *_slopes(0x4128, "LO"),
)
