"""Bringing up a board: the same cases on the NPU and on the simulator, from safe to risky.

Comes in: options that name a device and, if wanted, captures. Goes out: results in order, up to the
first case after which going on would tell nothing or endanger the board, and a diagnosis. Self-test
cases come first, then captures, those with fewer tasks and fewer commands before those with more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from delegate.chip.chip import Chip
from delegate.insight.benchmark import SIMULATOR
from delegate.insight.capture import Capture, load_capture, replay
from delegate.insight.doctor import keep_proofs
from rk3588_conformance.self_test import Step, run_case
from rk3588_conformance.self_test_cases import cases_of

if TYPE_CHECKING:
    from delegate.options import Options

KINDS = ("self-test", "capture")

# Words of errors after which the NPU may be stuck: nothing more is sent to it.
_STOPPING = ("no result after", "nothing was written", "device is gone", "hardware error")


def must_stop(error: str | None) -> bool:
    """Return whether ``error`` says that the NPU did not finish or is not there any more."""
    return error is not None and any(words in error for words in _STOPPING)


def risk(capture: Capture) -> tuple[int, int, int]:
    """Sorts captures: jobs, tasks, commands."""
    tasks = [task for job in capture.jobs for task in job.tasks]
    return len(capture.jobs), len(tasks), sum(task.regcmd_count for task in tasks)


def bring_up(options: Options, chip: Chip, captures: Sequence[Path]) -> Iterator[Step]:
    """Runs everything that asks something of ``chip``, which the device of ``options`` is, in order
    and stops behind the first step that ``must_stop``.

    A self-test case that passes proves what nobody is known to have run: the board keeps it, and
    programs that are compiled for it may have it from then on. After a case that computes something
    wrong the others still tell which forms are there; captures, which only ask for more, are left
    out.
    Raises CaptureError before anything runs if a file cannot be read.
    """
    loaded = sorted((load_capture(path) for path in captures), key=risk)
    is_right = True
    for case in cases_of(chip):
        result = run_case(case, options, chip)
        if result.passed:
            keep_proofs(options, result.proofs)
        yield result
        is_right = is_right and result.passed
        if must_stop(result.error):
            return
    if not is_right:
        return
    for capture in loaded:
        outcome = replay(capture, options.device, timeout_ms=options.timeout_ms)
        tasks = sum(len(job.tasks) for job in capture.jobs)
        yield Step("capture", capture.name, outcome.passed, tasks, outcome.error)
        if must_stop(outcome.error):
            return


def total_steps(chip: Chip, captures: Sequence[Path]) -> int:
    """Return how many steps there are if nothing stops them."""
    return len(cases_of(chip)) + len(captures)


def diagnosis(steps: Sequence[Step], total: int, device: str) -> str:
    """Say what the results mean, in one or two sentences. ``device``: the one that ran."""
    failed = [step for step in steps if not step.passed]
    if not failed and device == SIMULATOR:
        return f"all {total} cases passed on the simulator; no NPU has run anything: see `doctor`"
    if not failed:
        return f"all {total} cases passed: the NPU computes what the simulator computes"
    first, last_good = failed[0], [step.name for step in steps if step.passed][-1:]
    reached = f"up to {last_good[0]!r} everything agreed" if last_good else "nothing ran before it"
    if must_stop(first.error):
        return (
            f"{first.name!r} did not finish; {reached}. Stopped, {total - len(steps)} cases were "
            "not tried: look into dmesg, restart the board before the next attempt"
        )
    if not last_good:
        return f"{first.name!r} failed and {reached}: see its error, and `doctor`"
    return (
        f"{len(failed)} of {len(steps)} cases failed, the first is {first.name!r}; {reached}. Send "
        "the result file"
    )
