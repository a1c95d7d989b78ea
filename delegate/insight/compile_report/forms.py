"""Lists the forms of programs' tasks with their evidence: who has run each, and in which layers.

In: parsed Programs of one chip. Out: plain values for JSON, the least known forms first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from delegate.chip.chip import Chip, Form, Standing
from delegate.chip.known_forms import BOARD, Source
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


@dataclass(slots=True)
class FormUse:
    """The number of ``tasks`` that have ``form``, and their layers."""

    form: Form
    tasks: int = 0
    layers: dict[str, None] = field(default_factory=dict)


def form_uses(programs: Sequence[Program]) -> list[FormUse]:
    """The forms of all programs together, in the order of their first task."""
    found: dict[str, FormUse] = {}
    for program in programs:
        for task, item in zip(program.tasks, program_forms(program), strict=True):
            use = found.setdefault(item.form.name, FormUse(item.form))
            use.tasks += 1
            use.layers[program.layers[task.layer].name] = None
    return list(found.values())


def forms_document(chip: Chip, programs: Sequence[Program]) -> list[dict[str, Any]]:
    """A row for each form, the least known first, then those of most tasks."""
    known = evidence_for(chip, is_exact=False).known
    rows = []
    for use in form_uses(programs):
        standing = Standing.WHOLE if known is None else known.standing(use.form)
        sources = _VENDORS_WORDS if known is None else known.sources(use.form)
        unknown = () if known is None else known.unknown(use.form)
        row = {
            "form": use.form.name,
            "kind": kind_in_words(use.form.kind),
            "words": form_in_words(use.form) if known is not None else _plain(use.form),
            "tasks": use.tasks,
            "evidence": EVIDENCE[standing],
            "ran": _who_ran(sources),
            "sources": [asdict(source) for source in sources],
            "unknown": [f"{name} {value}" for name, value in unknown],
            "layers": list(use.layers),
        }
        rows.append((standing, -use.tasks, row))
    return [row for *_, row in sorted(rows, key=lambda item: item[:2])]


def _plain(form: Form) -> str:
    """The settings of a form on a chip whose registers are known as a whole."""
    return ", ".join(f"{name} {value}" for name, value in sorted(form.settings.items()))


def _who_ran(sources: Sequence[Source]) -> str:
    """Return who has run a form, the best of ``mesa``, ``vendor``, ``this board`` and ``others``;
    empty: nobody.
    """
    names = {source.name for source in sources}
    known = (name for name in (MESA, VENDOR, BOARD) if name in names)
    return next(known, "others" if names else "")
