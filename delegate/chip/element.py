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

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    FP16 = 4
    FP32 = 5

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type as NumPy has it on the host."""
        return np.dtype(_DTYPES[self])

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize

    @property
    def lanes(self) -> int:
        """Elements of an atom: channels of a surface."""
        return ATOM_BYTES // self.bytes

    @property
    def offset(self) -> int:
        """Return by how much the host's numbers are larger than those in cubes."""
        return 128 if self is Element.UINT8 else 0


_DTYPES: Final = {
    Element.UINT8: np.uint8,
    Element.INT8: np.int8,
    Element.INT16: np.int16,
    Element.INT32: np.int32,
    Element.FP16: np.float16,
    Element.FP32: np.float32,
}


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
