"""Element types of tensors: on the host, and as the NPU's cubes hold them.

Limits that lowering obeys on every chip of the family: atoms, alignment, sizes of buffers.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np

ATOM_BYTES: Final = 16
"""One pixel of one surface of a cube (C2 of NC1HWC2), the same on all chips of the family."""


class Element(enum.IntEnum):
    """An element type; the number is its code in a serialised Program.

    The NPU has no unsigned numbers: a uint8 tensor lies in a cube as int8, value - 128 (observed).
    All other types are the same on both sides.
    """

    dtype: np.dtype[Any]
    """The type as NumPy has it on the host."""
    bytes: int
    lanes: int
    """Elements of an atom: channels of a surface."""
    offset: int
    """By how much the host's numbers are larger than those in cubes."""

    UINT8 = 0, np.uint8, 128
    INT8 = 1, np.int8
    INT16 = 2, np.int16
    INT32 = 3, np.int32
    FP16 = 4, np.float16
    FP32 = 5, np.float32

    def __new__(cls, code: int, kind: type[np.generic] = np.int8, offset: int = 0) -> Element:
        found = int.__new__(cls, code)
        found._value_ = code
        found.dtype, found.offset = np.dtype(kind), offset
        found.bytes = found.dtype.itemsize
        found.lanes = ATOM_BYTES // found.bytes
        return found


__all__ = [
    "ATOM_BYTES",
    "CHANNELS_PER_SURFACE",
    "DMA_ALIGN_BYTES",
    "MAX_BUFFER_BYTES",
    "MAX_TOTAL_BYTES",
    "align",
    "surfaces_of",
]

# Channels of a surface of int8 (C2 of NC1HWC2).
CHANNELS_PER_SURFACE: Final = Element.INT8.lanes

# Sizes of a program's buffers: far above real ones, and all of them within the 4 GiB that address
# registers reach.
MAX_BUFFER_BYTES: Final = 1 << 30
MAX_TOTAL_BYTES: Final = 3 << 30

# DMA addresses of tensors, weights and operands. 16 is documented (fields [31:4]); 64 keeps bursts
# whole.
DMA_ALIGN_BYTES: Final = 64


def align(value: int, granule: int) -> int:
    """``value`` rounded up to a multiple of ``granule``."""
    return -(-value // granule) * granule


def surfaces_of(channels: int) -> int:
    """Surfaces that hold ``channels`` channels of int8."""
    return -(-channels // CHANNELS_PER_SURFACE)
