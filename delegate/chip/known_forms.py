"""The forms of tasks that somebody has run, or recorded from a driver that does.

The table of a chip (``known_forms.json`` in its folder, made by ``tools/known_forms.py``) has three
kinds of entries: tasks of Mesa's driver, which boards run every day; tasks of the vendor's
compiler; and settings that others ran on silicon, with what came out. Entries with a good verdict
confirm their settings; those that hung or computed something wrong by their settings are refused
wherever they occur. A board's own proofs (``bring-up``) are entries, too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from delegate.chip.chip import PROVED, ZEROS, Form, Settings, Standing

STAGES: Final = frozenset(
    {
        *("FEATURE_MODE", "DATA_FORMAT.prec", "DF.me", "BS_CFG", "BS_MUL.src", "BS_OW"),
        *("BN_CFG", "BN_MUL.src", "EW_CFG", "EW_TRUNC", "OUT_CVT.sc", "OUT_SHIFT.flags"),
        *("LUT_used", "LUT_CFG", "LUT_INFO", "LUT_RANGE", "LUT_SLOPES"),
        *("BRDMA", "NRDMA", "ERDMA", "RDMA_MODE", "SIZE_E", "CBUF_CON0.flags"),
    }
)
"""Settings that say what the DPU's stages compute, and of which operands, and whether weights are
kept from the task before; the others say how maps and weights lie in memory and in CBUF."""

BOARD: Final = "this board"
"""The source of what the board has proved itself."""

_GOOD = ("recorded", "exact", "within")
_BY_SETTINGS = "settings"

Items = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a known form: ``mesa``, ``vendor``, ``this board``, or where a measurement was
    published.
    ``what`` was measured; ``tasks`` were recorded.
    """

    name: str
    what: str
    tasks: int


@dataclass(frozen=True, slots=True, eq=False)
class KnownForms:
    """``whole``: sources of the forms whose every setting is given, by kind. ``values``: those that
    each setting had. ``bad``: settings that hung or were wrong together, and what was seen.
    """

    whole: Mapping[str, Mapping[Items, tuple[Source, ...]]]
    stages: Mapping[str, frozenset[Items]]
    values: Mapping[str, Mapping[str, frozenset[str]]]
    bad: Mapping[str, tuple[tuple[Settings, str], ...]]

    def sources(self, form: Form) -> tuple[Source, ...]:
        """Return who has run exactly this form; empty: nobody."""
        return self.whole.get(form.kind, {}).get(frozenset(form.settings.items()), ())

    def standing(self, form: Form) -> Standing:
        """Return how well the whole of ``form`` is known."""
        if self.sources(form):
            return Standing.WHOLE
        return Standing.REFUSED if self.unknown(form) else Standing.IN_PARTS

    def unknown(self, form: Form) -> tuple[tuple[str, str], ...]:
        """Return the settings of ``form`` that no task of its kind has been run with."""
        values = self.values.get(form.kind, {})
        items = form.settings.items()
        return tuple((name, value) for name, value in items if value not in values.get(name, ()))

    def refusal(self, form: Form) -> str:
        """Return what was seen of settings that ``form`` has, if they hung or were wrong; else
        empty.
        """
        for settings, what in self.bad.get(form.kind, ()):
            # A form leaves out what is 0.
            wanted = {k: None if value in ZEROS else value for k, value in settings.items()}
            if all(form.settings.get(name) == value for name, value in wanted.items()):
                return what
        return ""


def stages_of(settings: Settings) -> Items:
    """Return the settings of the stages."""
    return frozenset(item for item in settings.items() if item[0] in STAGES)


@cache
def known_forms_of(target: str, proved: tuple[str, ...] = ()) -> KnownForms | None:
    """Return what is known of the chips of ``target``; None: there is no table, whatever the
    encoder takes is what the vendor's programs have. ``proved``: states of forms, of this board.
    """
    rows = rows_of(target)
    return known_forms([*rows, *map(_proved_row, proved)]) if rows else None


def proved_state(form: Form) -> str:
    """Return the state that a board keeps of a form with which it was right."""
    settings = (f"{name}={value}" for name, value in form.settings.items())
    return " ".join((PROVED, form.kind, *settings))


def _proved_row(state: str) -> dict[str, Any]:
    _, kind, *settings = state.split()
    pairs = dict(setting.split("=", 1) for setting in settings)
    return {"kind": kind, "settings": pairs, "verdict": "exact", "whole": True, "source": BOARD}


def rows_of(target: str) -> list[dict[str, Any]]:
    """Return the entries of the table of ``target``; none: there is no table."""
    place = files(f"delegate.chip.{target}") / "known_forms.json"
    if not place.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(place.read_text(encoding="utf-8"))
    return rows


def known_forms(rows: Iterable[Mapping[str, Any]]) -> KnownForms:
    """Return what ``rows`` of a table confirm and refuse."""
    whole: dict[str, dict[Items, tuple[Source, ...]]] = defaultdict(dict)
    values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    shared: dict[tuple[str, str], tuple[str, str]] = {}  # most settings are those of many forms
    bad: dict[str, list[tuple[Settings, str]]] = defaultdict(list)
    for row in rows:
        kind, settings = row["kind"], row["settings"]
        if not row["verdict"].startswith(_GOOD):
            if row["cause"] == _BY_SETTINGS:
                bad[kind].append((settings, f"{row['what']} {row['verdict']}"))
            continue
        for name, value in settings.items():
            values[kind][name].add(value)
        if row["whole"]:
            source = Source(row["source"], row.get("what", ""), row.get("tasks", 0))
            items = frozenset(shared.setdefault(item, item) for item in settings.items())
            whole[kind][items] = (*whole[kind].get(items, ()), source)
    return KnownForms(
        whole,
        {
            kind: frozenset(stages_of(dict(items)) for items in found)
            for kind, found in whole.items()
        },
        {
            kind: {name: frozenset(seen) for name, seen in found.items()}
            for kind, found in values.items()
        },
        {kind: tuple(found) for kind, found in bad.items()},
    )
