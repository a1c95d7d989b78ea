"""The driver that will run programs, and the clock that it runs the NPU at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from delegate.chip.chip import Chip, Driver, Span

_NODES = {"/accel/": "rocket", "/dri/": "rknpu"}
"""Parts of the paths of device nodes."""


def driver_name(device: str) -> str:
    """Return the driver that option ``device`` comes to; empty: no NPU's, or nobody knows."""
    if device in _NODES.values():
        return device
    if device == "auto":
        from delegate._native import find_npu_node

        device = find_npu_node()
    return next((name for part, name in _NODES.items() if part in device), "")


def waits_for_pooling(device: str) -> bool:
    """Return whether the driver of ``device`` waits for the PPU: the vendor's looks at what its
    last task names; the mainline one knows the DPU's interrupt alone (``board.md``).
    """
    return driver_name(device) == "rknpu"


def drivers_of(device: str, chip: Chip) -> Sequence[Driver]:
    """Return the driver of ``device``; without one all that ``chip`` has, so that an estimate made
    without a board is the same everywhere.
    """
    name = driver_name(device)
    return [driver for driver in chip.rates.drivers if name in ("", driver.name)]


def drivers_at(device: str, chip: Chip, clocks_hz: Sequence[int]) -> Sequence[Driver]:
    """Return the same at the clocks that were read where it runs; none: at those of the driver."""
    drivers = drivers_of(device, chip)
    if not clocks_hz or not driver_name(device):
        return drivers
    return [replace(one, clock_hz=Span(min(clocks_hz), max(clocks_hz))) for one in drivers]
