"""A second reading of RK3576's tasks without a convolution: whole 32-bit numbers by offset.

Shares nothing with the tables or the encoder: every number is written down from the description of
the vendor's programs, whose own sums, products and functions it gives, register by register.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST, LARGEST = 0x80000000, 0x7FFFFFFF


@dataclass(frozen=True)
class Map:
    """The numbers that say what a task computes; counts as they are, addresses in bytes."""

    kind: str  # sum, product, copy, function, load
    rows: int
    columns: int
    channels: int
    source: int
    target: int
    scalars: int = 0
    operand: int = 0
    operand_offset: int = 0
    operand_scale: int = 1
    operand_shift: int = 0
    scale: int = 1
    shift: int = 0
    offset: int = 0
    first_entry: int = 0  # of the tables, and the last one
    last_entry: int = 0


SWITCHES = {
    "sum": {0x4038: 0x100012, 0x407C: 0x8002C0C0, 0x501C: 0x1A, 0x5034: 0x40000044},
    "product": {
        0x4038: 0x100012,
        0x4044: 2,
        0x4050: 0x20000,
        0x407C: 0x810F4094,
        0x501C: 2,
        0x5034: 0x40000044,
    },
    "copy": {
        0x4038: 0x100012,
        0x4044: 2,
        0x4050: 0x20000,
        0x407C: 0x10041C1,
        0x501C: 2,
        0x5034: 0x41,
    },
    "function": {
        0x4038: 0x53,
        0x4044: 2,
        0x4050: 0x20000,
        0x407C: 0x1004140,
        0x40CC: 0x10,
        0x4108: 0x2000006,
        0x410C: 0x50500,
        0x5028: 0x1A,
        0x5034: 0x41,
        **dict.fromkeys(range(0x4110, 0x4120, 4), 0xFFFFC000),
        **dict.fromkeys(range(0x4140, 0x4150, 4), 0x4000),
    },
    "load": {
        0x4038: 0x53,
        0x4044: 2,
        0x4050: 0x20000,
        0x407C: 0x10041C1,
        0x4108: 0xFF0000,
        0x5034: 1,
    },
}


def registers(n: Map) -> dict[int, int]:
    """Offset to content, of everything that the task writes but the entries of tables."""
    both = n.rows - 1 << 16 | n.columns - 1
    words = dict.fromkeys(_ALL, 0)
    for least in (0x4048, 0x4058, 0x406C, 0x4074, 0x4088, 0x40A4):
        words |= {least: LEAST, least + 4: LARGEST}
    words |= {
        0x4004: 0x30 if n.kind == "function" else 0xE,
        0x5004: 0x30 if n.kind == "function" else 0xE,
        0x400C: 5,
        0x4018: n.target,
        0x401C: n.rows * n.columns,
        0x4020: n.columns - 1,
        0x4024: n.rows - 1,
        0x402C: n.channels - 1,
        0x4030: n.channels - 1 << 16 | 0xF00,
        0x4034: both,
        0x4060: 0x20 if n.kind == "function" else 0x903,
        0x4080: n.operand_offset & 0xFFFF,
        0x4084: n.operand_shift << 16 | n.operand_scale & 0xFFFF,
        0x40AC: n.offset & 0xFFFFFFFF,
        0x40B0: 0x10000 | n.scale,
        0x40B4: n.shift,
        0x40C0: 0x4440000,
        0x40D0: 0x40FFFF,
        0x500C: n.columns - 1,
        0x5010: n.rows - 1,
        0x5014: n.channels - 1,
        0x5018: n.source,
        0x5044: 9,
    }
    words |= SWITCHES[n.kind]
    if n.kind in ("sum", "product"):
        words |= {0x5038: n.operand, 0x5040: n.rows * n.columns}
    if n.kind != "load":
        words |= {0x5030 if n.kind == "function" else 0x5024: n.scalars}
    if n.kind == "function":
        low, high = n.first_entry & 0xFFFF, n.last_entry & 0xFFFF
        words |= {0x4188: low << 16, 0x418C: low << 16 | low}
        words |= {0x4190: high << 16, 0x4194: high << 16 | high}
    return words


_ALL = (
    *(0x4010, 0x4014, 0x4028, 0x403C, 0x4044, 0x4050, 0x4080, 0x4090, 0x4094, 0x409C),
    *(0x40B8, 0x40BC, 0x40C8, 0x40CC, *range(0x4100, 0x4124, 4), 0x4130),
    *(*range(0x4140, 0x4158, 4), 0x4160, 0x4170, 0x4174, *range(0x4184, 0x4198, 4)),
    *(0x501C, 0x5020, 0x5024, 0x5028, 0x502C, 0x5030, 0x5034, 0x5038, 0x5040),
    *(0x5048, 0x504C, 0x5064, 0x506C, 0x5078, 0x507C),
)
