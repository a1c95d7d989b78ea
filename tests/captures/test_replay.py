"""Programs that another driver compiled, in use on silicon, give the numbers recorded with them,
and are counted and explained.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from delegate import _native
from delegate.errors import UsageError
from delegate.insight.capture import Capture, load_capture, read_tensor, replay
from delegate.insight.simulated_run import count, explain
from tests.loops import for_each
from tests.shared_folder import capture_files, stream_files
from tests.sim.stream import available_isas

FILES = capture_files()
STREAMS = stream_files()


@pytest.mark.parametrize("chained", [False, True], ids=["kicked", "chained"])
@for_each("path", FILES + STREAMS)
def test_capture_meets_its_bounds(path, chained):
    result = replay(load_capture(path), chained=chained)
    assert result.passed, result.error
    assert result.max_abs_diff is not None
    assert result.equal is not None


def run(capture: Capture, **how: object) -> dict[str, np.ndarray]:
    images = capture.memory()
    regions = [(b.name, b.dma_address, images[b.name]) for b in capture.buffers]
    jobs = [[(t.regcmd, t.regcmd_count, "") for t in job.tasks] for job in capture.jobs]
    _native.simulate(regions, jobs, **how)
    return images


@for_each("path", FILES + STREAMS)
def test_instruction_sets_threads_kicks_and_the_literal_path_do_not_matter(path):
    capture = load_capture(path)
    wanted = run(capture, isa="portable", threads=1)
    ways = [{"isa": isa, "chained": True} for isa in available_isas()]
    ways += [{"threads": n} for n in (1, 2, 5)]
    if path in (*FILES[::9], *STREAMS):
        ways.append({"plain": True})
    for how in ways:
        found = run(capture, **how)
        for name, image in wanted.items():
            np.testing.assert_array_equal(found[name], image, err_msg=f"{name} {how}")


def test_a_wrong_expectation_fails():
    capture = load_capture(FILES[0])
    check = capture.checks[0]
    expected = capture.expected[check.expected].copy()
    expected[0, 0, 0, 0] ^= 0x40
    wrong = dataclasses.replace(capture, expected={check.expected: expected})
    result = replay(wrong)
    assert not result.passed
    assert f"limit {check.max_abs_diff}" in str(result.error)


def test_a_fault_is_a_failed_result():
    capture = load_capture(FILES[0])
    image = capture.memory()
    task = capture.jobs[0].tasks[0]
    buffer = next(
        b for b in capture.buffers if b.dma_address <= task.regcmd < b.dma_address + b.size
    )
    image[buffer.name][task.regcmd - buffer.dma_address + 6] ^= 0x70
    result = replay(dataclasses.replace(capture, contents=image))
    assert not result.passed
    assert result.equal is None
    assert "task 0" in str(result.error)


def test_a_device_that_computes_nothing_does_not_replay():
    with pytest.raises(UsageError, match="computes nothing"):
        replay(load_capture(FILES[0]), device="null")


def test_read_tensor_is_the_inverse_of_the_documented_formula():
    capture = load_capture(FILES[0])
    check = capture.checks[0]
    image = run(capture)[check.buffer]
    tensor = read_tensor(check, image)
    _, channels, height, width = check.shape_nchw
    for c, h, w in ((0, 0, 0), (channels - 1, height - 1, width - 1), (channels // 2, 1, 2)):
        offset = check.offset + ((c // 16) * check.surface_pixels + h * width + w) * 16 + c % 16
        assert tensor[0, c, h, w] == image.view(np.int8)[offset]


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
