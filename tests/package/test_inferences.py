"""Gaps between runs become CPU spans; statistics against plain definitions."""

import numpy as np
import pytest

from delegate.insight.benchmark import summary
from delegate.insight.inferences import Run, inference_of


def a_run(first: int, last: int, start: int, end: int) -> Run:
    return Run(f"main nodes {first}..{last}", start, start + 1, None, end - 1, end)


def test_every_moment_of_an_inference_belongs_to_a_run_or_a_gap() -> None:
    runs = [a_run(7, 9, 200, 260), a_run(1, 3, 20, 50), a_run(1, 3, 1020, 1050)]
    order = [(0,), (1, 2, 3), (4, 5, 6), (7, 8, 9), (10,)]
    delegated = frozenset({1, 2, 3, 7, 8, 9})
    inference = inference_of(10, 300, runs, order, delegated)
    assert [run.first_node for run in inference.runs] == [1, 7]
    assert [(s.nodes, s.start_ns, s.end_ns) for s in inference.cpu] == [
        ((0,), 10, 20),
        ((4, 5, 6), 50, 200),
        ((10,), 260, 300),
    ]
    covered = sum(s.end_ns - s.start_ns for s in inference.cpu)
    covered += sum(r.end_ns - r.start_ns for r in inference.runs)
    assert covered == 290


def test_a_model_without_partitions_is_one_gap() -> None:
    inference = inference_of(0, 9, [], [(0, 1)], frozenset())
    assert [(s.nodes, s.start_ns, s.end_ns) for s in inference.cpu] == [((0, 1), 0, 9)]


def test_foreign_programs_have_no_node() -> None:
    assert Run("something else", 0, 0, None, 0, 0).first_node is None


def test_summary() -> None:
    values = [int(v) for v in np.random.default_rng(0).integers(1_000_000, 9_000_000, 101)]
    ordered = sorted(values)
    result = summary(values)
    assert result["count"] == 101
    assert result["min_ms"] == ordered[0] / 1e6
    assert result["max_ms"] == ordered[-1] / 1e6
    assert result["p50_ms"] == pytest.approx(ordered[50] / 1e6)
    assert result["p95_ms"] == pytest.approx(ordered[95] / 1e6)
    assert result["mean_ms"] == pytest.approx(sum(values) / 101e6)
