"""The page of the last full run belongs to its summary, and the summary to the suite."""

import json
from pathlib import Path

from rk3588_conformance.outcome import Oracle, Outcome, Status
from rk3588_conformance.page import page, summarize

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_counts_of_families():
    outcomes = [
        Outcome("A.a/1", "A", Status.OK, oracle=Oracle.TFLITE, max_abs_diff=1, equal=8, elements=9),
        Outcome("A.a/2", "A", Status.OK),
        Outcome("A.a/3", "A", Status.SKIPPED, rules=("rule",)),
        Outcome("B.b/1", "B", Status.FAILED, oracle=Oracle.NUMPY, max_abs_diff=4, elements=3),
    ]
    summary = summarize(outcomes)
    expected = {
        "cases": 3, "passed": 2, "refused": 1, "skipped": 1, "failed": 0, "tflite_reference": 1,
        "numpy": 0, "max_abs_diff": 1, "equal": 8, "elements": 9,
    }  # fmt: skip
    assert summary["families"]["A"] == expected
    assert summary["all"]["failed"] == 1
    assert summary["all"]["max_abs_diff"] == 4
    text = page(summary)
    assert "| A | 3 | 2 | 1 | 1 | 0 | 1 | 0 | 1 | 88.8889 % |" in text
    assert text.endswith("| **all** | 4 | 2 | 1 | 1 | 1 | 1 | 1 | 4 | 66.6667 % |\n")


def test_the_page_is_up_to_date():
    summary = json.loads((DOCS / "conformance.json").read_text())
    assert (DOCS / "conformance.md").read_text() == page(summary)


def test_the_full_run_was_complete_and_clean():
    summary = json.loads((DOCS / "conformance.json").read_text())
    assert summary["all"]["failed"] == 0
    assert summary["all"]["cases"] > 10_000
    teflon = [
        counts
        for label, counts in summary["families"].items()
        if label.partition(" ")[0]
        in ("Conv2D", "DepthwiseConv2D", "Add", "AddQuant", "FullyConnected")
    ]
    assert sum(counts["cases"] for counts in teflon) == 3 * (1800 + 200 + 1800 + 100 + 24)
    assert sum(c["skipped"] for c in teflon) <= 0.005 * sum(c["cases"] for c in teflon)
