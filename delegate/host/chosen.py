"""The chip that programs are compiled for, the driver that will run them, and the clock that it
runs the NPU at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from delegate.chip import NAMES
from delegate.chip.chip import PROVED, Chip, Driver, Primitive, Span
from delegate.errors import DeviceError
from delegate.options import Options

_WITHOUT_BOARD = ("simulator", "null")
_NODES = {"/accel/": "rocket", "/dri/": "rknpu"}
"""Parts of the paths of device nodes."""
WAITS_FOR_POOLING = "rknpu"
"""The driver that waits for the PPU, as it looks at what its last task names; the mainline one
knows the DPU's interrupt alone (``board.md``)."""


def chosen_chip(options: Options) -> Chip:
    """Return the one that option ``chip`` names; with "auto" what the NPU of this machine is,
    unless the device is none. Where nothing says, RK3588.
    """
    # On demand: a process that runs kept programs needs no registers.
    from delegate.chip.chips import chip_named

    name = options.chip
    if name == "auto" and options.device not in _WITHOUT_BOARD:
        from delegate._native import npu_chip

        name, _, _ = npu_chip()
    chip = chip_named(name if name in NAMES else NAMES[0])
    has_unit = any(block.name == "PPU" for block in chip.registers.blocks)
    if has_unit and driver_name(options.device) == WAITS_FOR_POOLING:
        return replace(chip, lacks=chip.lacks - {Primitive.POOLING})
    return chip


def proved_forms(options: Options) -> dict[str, str]:
    """Return what the board of ``options`` has proved, by name; without one, with none that opens
    and where ``verify`` is off: nothing.
    """
    if options.verify == "off" or not driver_name(options.device):
        return {}
    from delegate._native import board_evidence

    try:
        _, _, states = board_evidence(options.device, options.cache_dir, options.cores)
    except DeviceError:
        return {}
    return {name: state for name, state in states.items() if state.startswith(PROVED)}


def driver_name(device: str) -> str:
    """Return the driver that option ``device`` comes to; empty: no NPU's, or nobody knows."""
    if device in _NODES.values():
        return device
    if device == "auto":
        from delegate._native import find_npu_node

        device = find_npu_node()
    return next((name for part, name in _NODES.items() if part in device), "")


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
