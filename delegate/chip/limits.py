"""Limits that lowering obeys on every chip of the family: atoms, alignment, sizes of buffers."""

from __future__ import annotations

from typing import Final

from delegate.chip.element import ATOM_BYTES, Element

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
