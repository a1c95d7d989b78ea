"""What a feature of the hardware is: register settings with a meaning, and how that is known.

A Program uses a feature when one of its tasks holds the feature's settings: nothing is declared by
what makes tasks. A setting that no feature names is a mistake in the chip's table, which a test
finds, so that no program can rest on something without a name.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, tuple[int, ...]]
"""Fields, as "BLOCK.REGISTER.FIELD", to the numbers that they may hold in the register; ``NONZERO``
for any but 0. An address register, as "BLOCK.REGISTER", holds the number of the buffer that it
points into. ``FACTS`` are about a task as a whole."""

NONZERO: tuple[int, ...] = ()

FACTS = ("task.core", "task.keeps_table")
"""The core that a task is for; 1 if it looks up what a task before the last one loaded."""


class Rank(enum.IntEnum):
    """How well a feature is known; the greater, the better the evidence."""

    ASSUMED = 0
    DOCUMENTED = 1
    MEASURED = 2
    VENDOR = 3
    SILICON = 4

    @property
    def text(self) -> str:
        """The rank in words."""
        return _RANK_TEXTS[self]


_RANK_TEXTS = {
    Rank.SILICON: "run by a driver on silicon",
    Rank.VENDOR: "in programs of the vendor's compiler",
    Rank.MEASURED: "measured by others",
    Rank.DOCUMENTED: "documented",
    Rank.ASSUMED: "assumed",
}


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that the hardware is taken to do. A task uses it when all ``settings`` hold.

    ``source`` says where the rank comes from, ``without`` what can be done on a board that does not
    have the feature, ``deviations`` what others have reported to be different.
    """

    name: str
    meaning: str
    rank: Rank
    source: str
    without: str
    settings: Settings
    deviations: tuple[str, ...] = field(default=())

    def is_used(self, values: Mapping[str, int]) -> bool:
        """Whether a task that leaves ``values`` in its fields uses it; absent fields are 0."""
        return all(_holds(values.get(name, 0), numbers) for name, numbers in self.settings.items())


def read_features(table: str) -> tuple[Feature, ...]:
    """Features from their table: a line "name: meaning" each, below it "RANK: source" with the name
    of its rank in small letters, "without: ..." and its settings, a line "BLOCK.REGISTER: FIELD=1
    OTHER=2|3 THIRD=nonzero" per register; perhaps "reported: ...", once per deviation. Raises
    KeyError, TypeError or ValueError where a part is missing.
    """
    rows: list[dict[str, Any]] = []
    for line in filter(str.strip, table.splitlines()):
        label, _, text = " ".join(line.split()).partition(": ")
        if not line.startswith(" "):
            rows.append({"name": label, "meaning": text, "settings": {}, "deviations": ()})
        elif label.upper() in Rank.__members__:
            rows[-1] |= {"rank": Rank[label.upper()], "source": text}
        elif label == "without":
            rows[-1]["without"] = text
        elif label == "reported":
            rows[-1]["deviations"] += (text,)
        else:
            for name, _, numbers in (item.partition("=") for item in text.split()):
                known = NONZERO if numbers == "nonzero" else tuple(map(int, numbers.split("|")))
                rows[-1]["settings"][f"{label}.{name}"] = known
    return tuple(Feature(**row) for row in rows)


def _holds(value: int, numbers: tuple[int, ...]) -> bool:
    return value in numbers if numbers else value != 0
