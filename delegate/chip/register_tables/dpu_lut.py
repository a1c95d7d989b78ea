"""DPU registers of the two lookup tables LE and LO."""

from __future__ import annotations


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
