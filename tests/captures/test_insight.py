"""Captures of another driver, counted and explained."""

from pathlib import Path

import numpy as np
import pytest

from delegate.insight.capture import load_capture
from delegate.insight.simulated_run import count, explain
from tests.shared_folder import capture_files

SAMPLE = capture_files()[::9]


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_counters_add_up(path: Path) -> None:
    capture = load_capture(path)
    tasks = count(capture)
    assert len(tasks) == sum(len(job.tasks) for job in capture.jobs)
    written = sum(task.written_bytes for task in tasks)
    assert written >= sum(int(np.prod(check.shape_nchw)) for check in capture.checks)
    for task in tasks:
        assert (task.macs > 0) == (task.npu_cycles > 0) == (task.enable_mask in (0x0D, 0x1D))
        # 1024 products per cycle is what a core can do.
        assert task.macs <= task.npu_cycles * 1024
        assert task.cbuf_data_bytes <= task.data_banks * 32768
        assert 0 <= task.cbuf_fill <= 1


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem)
def test_elements_are_explained_within_the_bounds(path: Path) -> None:
    capture = load_capture(path)
    check = capture.checks[0]
    rng = np.random.default_rng(0)
    for _ in range(2):
        element = tuple(int(rng.integers(0, n)) for n in check.shape_nchw[1:])
        traces = explain(capture, 0, element).writes
        expected = capture.expected[check.expected][(0, *element)]
        assert traces[-1].output == expected
