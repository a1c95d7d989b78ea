"""The chips that programs can be compiled for, and the files that a chip has besides its value."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from delegate.chip import NAMES
from delegate.chip.chip import Chip
from delegate.chip.register_model import RegisterMap
from delegate.chip.rk3588 import RK3588

DEFAULT: Final = RK3588
"""The chip of users who name no other."""


@cache
def chip_named(name: str) -> Chip:
    """Return the chip of a Program: the value in the folder of that name. Raises KeyError."""
    if name not in NAMES:
        raise KeyError(name)
    found: Chip = getattr(import_module(f"delegate.chip.{name}"), name.upper())
    return found


def every_chip() -> tuple[Chip, ...]:
    """Return all of them."""
    return tuple(chip_named(name) for name in NAMES)


def registers_of(name: str) -> RegisterMap:
    """Return the registers of the chip of a Program; of one that is not known here, which no device
    takes, the default's.
    """
    try:
        return chip_named(name).registers
    except KeyError:
        return DEFAULT.registers


@cache
def part_of(package: str, target: str, name: str) -> ModuleType:
    """Return the module ``name`` of a chip's ``target`` in ``package``, which keeps a folder for
    each.
    """
    return import_module(f"{package}.{target}.{name}")
