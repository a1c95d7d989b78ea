"""Element types of tensors: on the host, and as the NPU's cubes hold them."""

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
        """As NumPy has it on the host."""
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
