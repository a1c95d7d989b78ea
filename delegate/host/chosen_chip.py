"""The chip that programs are compiled for."""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.chip import Chip, Primitive
from delegate.chip.chips import DEFAULT, chip_named
from delegate.chip.names import NAMES
from delegate.host.chosen_driver import waits_for_pooling
from delegate.options import Options

_WITHOUT_BOARD = ("simulator", "null")


def chosen_chip(options: Options) -> Chip:
    """Return the one that option ``chip`` names; with "auto" what the NPU of this machine is,
    unless the device is none. Where nothing says, RK3588.
    """
    chip = _chip(options)
    has_unit = any(block.name == "PPU" for block in chip.registers.blocks)
    if has_unit and waits_for_pooling(options.device):
        return replace(chip, lacks=chip.lacks - {Primitive.POOLING})
    return chip


def _chip(options: Options) -> Chip:
    if options.chip != "auto":
        return chip_named(options.chip)
    if options.device in _WITHOUT_BOARD:
        return DEFAULT
    from delegate._native import npu_chip

    name, _, _ = npu_chip()
    return chip_named(name) if name in NAMES else DEFAULT
