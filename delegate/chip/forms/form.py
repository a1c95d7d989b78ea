"""A form: what the registers of a task say, but for its numbers.

Numbers are addresses, sizes, strides, scales, offsets, thresholds and paddings. Everything else is
a setting: which blocks and stages work, where their operands come from, how they round. A kind
(``dense_int8``) and its settings together are a form, the unit of evidence: a form is known if
somebody has run it on silicon.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Settings = Mapping[str, str]
Registers = Mapping[int, int]
"""Values by offset, as one task leaves them; registers that it does not write are absent."""

ZEROS: Final = ("0x0", "0", "1x1")
"""Values of settings by which nothing is switched on."""


@dataclass(frozen=True)
class Form:
    """The ``kind`` of a task and its ``settings``, by name; those that are not named are 0.
    ``name``: the kind and eight digits that stand for the settings; equal forms have equal names.
    """

    kind: str
    settings: Settings = field(hash=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        text = "\n".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        digits = hashlib.sha256(text.encode()).hexdigest()[:8]
        object.__setattr__(self, "name", f"{self.kind}-{digits}")
