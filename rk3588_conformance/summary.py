"""Counts per family: what the reports and the documentation show of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rk3588_conformance.outcome import Oracle, Outcome, Status

TOTAL = "all"


_COUNTED = (
    "cases", "passed", "refused", "skipped", "failed", "tflite_reference", "numpy", "max_abs_diff",
    "equal", "elements",
)  # fmt: skip


def summarize(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """{"families": {label: counts}, "all": counts}. ``refused``: passed because the model was
    refused by the right rule.
    """
    families: dict[str, dict[str, int]] = {}
    total = dict.fromkeys(_COUNTED, 0)
    for outcome in outcomes:
        _count(families.setdefault(outcome.label, dict.fromkeys(_COUNTED, 0)), outcome)
        _count(total, outcome)
    return {"families": families, TOTAL: total}


def _count(n: dict[str, int], outcome: Outcome) -> None:
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
