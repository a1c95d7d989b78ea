"""The stand-in kernel of this process, as workers see it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_library = ctypes.CDLL(None)
for _name in ("calls", "live_files", "live_buffers", "live_mappings"):
    getattr(_library, f"standin_{_name}").restype = ctypes.c_uint64


def set_faults(text: str = "") -> None:
    """Replaces the faults and starts counting calls again; a device that vanished is back."""
    _library.standin_set_faults(text.encode())


def calls() -> dict[str, int]:
    """Calls since the last ``set_faults``."""
    buffer = ctypes.create_string_buffer(1 << 16)
    _library.standin_all_calls(buffer, len(buffer))
    pairs = (word.split("=") for word in buffer.value.decode().split())
    return {name: int(count) for name, count in pairs}


def take_violations() -> list[str]:
    """Return what the stand-in objected to since the last time."""
    buffer = ctypes.create_string_buffer(1 << 20)
    _library.standin_take_violations(buffer, len(buffer))
    return buffer.value.decode().splitlines()


def live() -> tuple[int, int, int]:
    """Open files, buffers and mappings."""
    return (
        _library.standin_live_files(),
        _library.standin_live_buffers(),
        _library.standin_live_mappings(),
    )


@contextlib.contextmanager
def allocations() -> Iterator[list[int]]:
    """Calls of malloc, calloc, realloc and mmap in the block, the stand-in's own left out; the list
    has the number once the block is left.
    """
    counted: list[int] = []
    count = _library.standin_count_allocations
    count.restype = ctypes.c_uint64
    count(1)
    try:
        yield counted
    finally:
        counted.append(int(count(0)))


def submits_by_mask() -> dict[int, int]:
    """Submits to rknpu so far by core mask."""
    _library.standin_submits_by_mask.restype = ctypes.c_uint64
    counts = {mask: int(_library.standin_submits_by_mask(mask)) for mask in range(8)}
    return {mask: count for mask, count in counts.items() if count}
