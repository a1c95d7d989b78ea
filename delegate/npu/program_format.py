"""The tables of a serialised Program, by which it is both written and read: those of program.fbs.

Fields have the names that they have in Python, and lie in the order of their ids; behind a dot
those of a part of a binding, which are 0 where it has no such part.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from dataclasses import fields

from delegate.lower.lowered import Fold, Spread


class Kind(enum.Enum):
    """Types of fields: numbers as ``struct`` names them, and what a field refers to."""

    UINT8 = "<B"
    INT8 = "<b"
    UINT32 = "<I"
    INT32 = "<i"
    UINT64 = "<Q"
    FLOAT32 = "<f"
    TEXT = "string"
    BYTES = "[ubyte]"
    BYTES_IF_ANY = "[ubyte], left out if empty"
    INT32S = "[int32]"


Fields = Mapping[str, Kind]

FILE_IDENTIFIER = b"RKNP"

CHECKSUM_BYTES = 8


class Slot(enum.IntEnum):
    """Ids of the fields of Program."""

    VERSION = 0
    COMPILER = 1
    NAME = 2
    BUFFERS = 3
    RELOCS = 4
    LAYERS = 5
    TASKS = 6
    INPUTS = 7
    OUTPUTS = 8
    CHECKSUM = 9
    CHIP = 10


def _all(kind: Kind, *names: str) -> Fields:
    return dict.fromkeys(names, kind)


def _part(kind: Kind, name: str, of: type[Fold] | type[Spread]) -> Fields:
    return _all(kind, *(f"{name}.{field.name}" for field in fields(of)))


RELOC = struct.Struct("<IIQ")
"""Word, buffer and addend: a structure, which has no ids."""

BUFFER: Fields = {"size_bytes": Kind.UINT64, "content": Kind.BYTES}
LAYER: Fields = {"name": Kind.TEXT, "op": Kind.TEXT, "nodes": Kind.INT32S}
TASK: Fields = {
    **_all(Kind.UINT32, "regcmd_offset", "regcmd_count", "enable_mask", "int_mask", "layer", "job"),
    "tile": Kind.TEXT,
    **_all(Kind.UINT64, "npu_cycles", "ddr_cycles", "bytes"),
    "form": Kind.TEXT,
}
BINDING: Fields = {
    "tensor": Kind.INT32,
    "name": Kind.TEXT,
    "shape": Kind.INT32S,
    "element": Kind.UINT8,
    **_all(Kind.UINT32, "images", "height", "width", "channels", "surfaces"),
    **_all(Kind.UINT64, "surface_stride_bytes", "image_stride_bytes"),
    "location.buffer": Kind.UINT32,
    "location.offset": Kind.UINT64,
    "fill": Kind.INT8,
    **_part(Kind.UINT32, "fold", Fold),
    "affine.scale": Kind.FLOAT32,
    "affine.zero_point": Kind.INT32,
    "affine.element": Kind.UINT8,
    "table": Kind.BYTES_IF_ANY,
    "is_spread": Kind.UINT8,
    **_part(Kind.UINT64, "spread", Spread),
}
