"""Counts per family: what the reports and the documentation show of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from delegate.conformance.outcome import Oracle, Outcome, Status

TOTAL = "all"


def summarize(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """{"families": {label: counts}, "all": counts}; see ``_Counts``."""
    families: dict[str, _Counts] = {}
    total = _Counts()
    for outcome in outcomes:
        families.setdefault(outcome.label, _Counts()).add(outcome)
        total.add(outcome)
    return {
        "families": {label: counts.document() for label, counts in families.items()},
        TOTAL: total.document(),
    }


class _Counts:
    """``refused``: passed because the model was refused by the right rule."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(
            ("cases", "passed", "refused", "skipped", "failed", "tflite_reference", "numpy",
             "max_abs_diff", "equal", "elements"), 0,
        )  # fmt: skip

    def add(self, outcome: Outcome) -> None:
        n = self.numbers
        n["cases"] += 1
        n["failed"] += outcome.status is Status.FAILED
        n["skipped"] += outcome.status is Status.SKIPPED
        passed = outcome.status is Status.OK
        n["passed"] += passed
        n["refused"] += passed and outcome.oracle is Oracle.NONE
        n["tflite_reference"] += outcome.oracle is Oracle.TFLITE
        n["numpy"] += outcome.oracle is Oracle.NUMPY
        n["max_abs_diff"] = max(n["max_abs_diff"], outcome.max_abs_diff)
        n["equal"] += outcome.equal
        n["elements"] += outcome.elements

    def document(self) -> dict[str, Any]:
        return dict(self.numbers)
