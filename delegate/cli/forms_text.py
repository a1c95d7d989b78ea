"""The forms of tasks and who has run them, as ``compile`` prints them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from delegate.cli.table import print_table

_WHO: Final = {
    "mesa": "Mesa's driver makes tasks of this form",
    "vendor": "the vendor's compiler makes tasks of this form",
    "others": "others ran this form on a board",
}
_PARTS: Final = "every setting has been run, not all together"
_UNKNOWN: Final = "nobody has run some setting"


def evidence_line(document: dict[str, Any]) -> str:
    """Return in one line how many tasks are in forms that somebody has run on a board."""
    tasks: Counter[str] = Counter()
    for row in document["forms"]:
        tasks[row["evidence"]] += row["tasks"]
    known, every = tasks["whole"], tasks.total()
    text = f"{known} of {every} tasks have a form that others run on boards"
    if tasks["parts"]:
        text += f", {tasks['parts']} settings that others run"
    if tasks["unknown"]:
        text += f", {tasks['unknown']} a setting that nobody has run"
    return text


def print_forms(document: dict[str, Any]) -> None:
    """Print how many tasks are in forms that somebody has run, and every form with its words."""
    tasks: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for row in document["forms"]:
        evidence = _evidence(row)
        tasks[evidence] += row["tasks"]
        if row["evidence"] != "whole":
            names.setdefault(evidence, []).append(row["form"])
    order = [*_WHO.values(), _PARTS, _UNKNOWN]
    rows = [(tasks[what], what, ", ".join(names.get(what, ()))) for what in order if tasks[what]]
    title = "forms of tasks (docs/forms.md), by who has run them:"
    print_table(title, ("tasks", "evidence", "which"), rows, right=(0,))
    print_table(
        "every form, the least known first:",
        ("tasks", "form", "evidence", "kind", "what it does"),
        [_line(row) for row in document["forms"]],
        right=(0,),
    )


def _evidence(row: dict[str, Any]) -> str:
    if row["evidence"] != "whole":
        return _PARTS if row["evidence"] == "parts" else _UNKNOWN
    return _WHO[row["ran"]]


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    names = (source["name"] for source in row["sources"])
    who = ", ".join(dict.fromkeys(name if name in _WHO else "others" for name in names))
    nobody = f" (nobody: {', '.join(row['unknown'])})" if row["unknown"] else ""
    return row["tasks"], row["form"], who or row["evidence"], row["kind"], row["words"] + nobody
