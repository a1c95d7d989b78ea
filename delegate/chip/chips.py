"""The chips that programs can be compiled for."""

from __future__ import annotations

from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.register_model import RegisterMap
from delegate.chip.rk3588 import RK3588

DEFAULT: Final = RK3588
"""The chip of users who name no other."""
NAMES: Final = ("rk3588", "rk3576")


def chip_named(name: str) -> Chip:
    """The chip of a Program. Raises KeyError."""
    if name == DEFAULT.name:
        return DEFAULT
    if name not in NAMES:
        raise KeyError(name)
    from delegate.chip.rk3576 import RK3576

    return RK3576


def every_chip() -> tuple[Chip, ...]:
    """All of them."""
    return tuple(chip_named(name) for name in NAMES)


def registers_of(name: str) -> RegisterMap:
    """Return the registers of the chip of a Program; of one that is not known here, which no device
    takes, the default's.
    """
    try:
        return chip_named(name).registers
    except KeyError:
        return DEFAULT.registers
