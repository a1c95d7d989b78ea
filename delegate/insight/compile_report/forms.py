"""Lists the forms of programs' tasks with their evidence: who has run each, and in which layers.

In: parsed Programs of one chip. Out: plain values for JSON, the least known forms first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from delegate.chip.chip import Chip, Form, Standing
from delegate.chip.known_forms import BOARD, KnownForms, Source
from delegate.chip.rk3588.words import form_in_words, kind_in_words
from delegate.npu.evidence import evidence_for, program_forms
from delegate.npu.program_types import Program

EVIDENCE: Final = {
    Standing.REFUSED: "unknown",
    Standing.IN_PARTS: "parts",
    Standing.WHOLE: "whole",
}
"""``whole``: this combination of settings has been run; ``parts``: every setting has, though not
all together; ``unknown``: nobody has run some setting."""

VENDOR: Final = "vendor"
MESA: Final = "mesa"
_VENDORS_WORDS: Final = (Source(VENDOR, "its programs have every word", 0),)


def forms_document(chip: Chip, programs: Sequence[Program]) -> list[dict[str, Any]]:
    """A row for each form of all programs together, the least known first, then those of most
    tasks.
    """
    known = evidence_for(chip, is_exact=False).known
    rows: dict[str, tuple[Standing, dict[str, Any]]] = {}
    for program in programs:
        for task, item in zip(program.tasks, program_forms(program), strict=True):
            form = item.form
            if form.name not in rows:
                rows[form.name] = _row(form, known)
            row = rows[form.name][1]
            row["tasks"] += 1
            row["layers"][program.layers[task.layer].name] = None
    ordered = sorted(rows.values(), key=lambda found: (found[0], -found[1]["tasks"]))
    return [{**row, "layers": list(row["layers"])} for _, row in ordered]


def _row(form: Form, known: KnownForms | None) -> tuple[Standing, dict[str, Any]]:
    """The form's standing and its row, before any task."""
    standing = Standing.WHOLE if known is None else known.standing(form)
    sources = _VENDORS_WORDS if known is None else known.sources(form)
    unknown = () if known is None else known.unknown(form)
    settings = ", ".join(f"{name} {value}" for name, value in sorted(form.settings.items()))
    return standing, {
        "form": form.name,
        "kind": kind_in_words(form.kind),
        "words": form_in_words(form) if known is not None else settings,
        "tasks": 0,
        "evidence": EVIDENCE[standing],
        "ran": _who_ran(sources),
        "sources": [asdict(source) for source in sources],
        "unknown": [f"{name} {value}" for name, value in unknown],
        "layers": {},
    }


def _who_ran(sources: Sequence[Source]) -> str:
    """Return who has run a form, the best of ``mesa``, ``vendor``, ``this board`` and ``others``;
    empty: nobody.
    """
    names = {source.name for source in sources}
    known = (name for name in (MESA, VENDOR, BOARD) if name in names)
    return next(known, "others" if names else "")
