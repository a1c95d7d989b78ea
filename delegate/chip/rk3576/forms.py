"""Forms of RK3576's tasks: every register that is known as a whole, and every choice among values.

What is a number there is a field of its own in the chip's register tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from delegate.chip.chip import Form, Registers
from delegate.chip.register_model import Field
from delegate.chip.rk3576.registers import REGISTERS

_CNA: Final = 0x01
_SWITCHES: Final = "MODE"
_NUMBERS: Final = frozenset({"LUT_ACCESS_DATA"})
"""Registers without fields that hold content."""


def form_of(enable_mask: int, registers: Registers) -> Form:
    """Return the form of the task that starts ``enable_mask`` with ``registers``."""
    return Form(_kind(enable_mask, registers), dict(_settings(registers)))


def _kind(mask: int, registers: Registers) -> str:
    if not mask & _CNA:
        return "fly"
    control = REGISTERS.by_name["CNA.CONV_CON1"]
    is_depthwise = registers.get(control.offset, 0) & control.field("CONV_MODE").mask
    return "dw" if is_depthwise else "conv"


def _settings(registers: Registers) -> Iterator[tuple[str, str]]:
    for offset, name, field in _chosen():
        value = registers.get(offset, 0) & field.mask
        if value:
            yield name, hex(value >> field.lo)


@lru_cache(maxsize=1)
def _chosen() -> tuple[tuple[int, str, Field], ...]:
    """Offset, name and field of every setting."""
    return tuple(
        (register.offset, f"{register.name}.{field.name}", field)
        for block in REGISTERS.blocks
        for register in block.registers
        if register.name not in _NUMBERS
        for field in register.fields
        if field.name == _SWITCHES or field.enum is not None
    )
