"""Runs many generated cases: each in a process of its own, with a limit of time, over several
workers, with progress.

A case is its seed: what failed is repeated by running that seed alone. A case passes, is skipped
(there is nothing to compare), is refused with an error, breaks the contract, crashes or hangs.
"""

from __future__ import annotations

import collections
import faulthandler
import gc
import multiprocessing
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

PASSED, SKIPPED, BROKEN, CRASHED, HUNG = "passed", "skipped", "broken", "crashed", "hung"
# An error of the delegate where the runtime alone goes on.
REFUSED = "refused"
# Results differ in a way that the reference kernels cannot judge: only the runtime reads the file,
# or it reads beyond its tensors.
UNJUDGED = "unjudged"
REFUSAL = "rk3588 delegate: "
BAD = (BROKEN, CRASHED, HUNG, REFUSED)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case. ``counts``: what its judge counted, to be added up."""

    seed: int
    kind: str
    text: str = ""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildResult:
    """``kind`` is PASSED with ``value``, or one of the others with ``text``."""

    kind: str
    value: Any = None  # of an exception: its type's name
    text: str = ""


def in_child(function: Callable[[], Any], seconds: float) -> ChildResult:
    """Runs ``function`` in a fork of this process, whose output goes nowhere."""
    gc.freeze()  # else the child's first collection copies every page
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run_child(function, writing)
    os.close(writing)
    try:
        content, is_late = _read_until(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
    if is_late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_late:
        return ChildResult(HUNG, text=f"no end after {seconds:.0f} s")
    if os.WIFSIGNALED(status):
        return ChildResult(CRASHED, text=signal.Signals(os.WTERMSIG(status)).name)
    if not content:
        return ChildResult(CRASHED, text=f"exit {os.WEXITSTATUS(status)}")
    result: ChildResult = pickle.loads(content)
    return result


def _run_child(function: Callable[[], Any], writing: int) -> None:
    """Never returns."""
    gc.disable()
    faulthandler.disable()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        result = ChildResult(PASSED, function())
    except BaseException as error:
        kind = REFUSED if REFUSAL in str(error) else BROKEN
        text = "".join(traceback.format_exception(error)[-3:])
        result = ChildResult(kind, type(error).__name__, text)
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(result, pipe)
        pipe.flush()
    os._exit(0)


def _read_until(reading: int, deadline: float) -> tuple[bytes, bool]:
    content = bytearray()
    while True:
        left = deadline - time.monotonic()
        ready = select.select([reading], [], [], max(left, 0))[0]
        if not ready:
            return bytes(content), True
        piece = os.read(reading, 1 << 20)
        if not piece:
            return bytes(content), False
        content += piece


Judge = Callable[[int], Outcome]


def _worker(judge: Judge, seeds: range, results: Any) -> None:
    for seed in seeds:
        try:
            results.put(judge(seed))
        except Exception:  # a defect of the generator or the judge
            results.put(Outcome(seed, BROKEN, "judge: " + traceback.format_exc(limit=-3)))


def run(judge: Judge, seeds: range, jobs: int) -> Iterator[Outcome]:
    """The outcomes of all ``seeds``, in the order in which they come. ``judge`` bounds its time."""
    if jobs <= 1:
        yield from map(judge, seeds)
        return
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=_worker, args=(judge, seeds[number::jobs], results))
        for number in range(jobs)
    ]
    for worker in workers:
        worker.start()
    for _ in seeds:
        yield results.get()
    for worker in workers:
        worker.join()


def report(
    outcomes: Iterator[Outcome], total: int, *, stop_after: int = 0, every_seconds: float = 30
) -> int:
    """Prints progress, every bad case, and the counts at the end. The number of bad cases."""
    kinds: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    bad = 0
    started = shown = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        kinds[outcome.kind] += 1
        counts.update(outcome.counts)
        if outcome.kind in BAD:
            bad += 1
            print(f"seed {outcome.seed}: {outcome.kind}: {outcome.text}", flush=True)
        if time.monotonic() - shown > every_seconds or done == total:
            shown = time.monotonic()
            summary = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            print(f"{done} of {total} in {shown - started:.0f} s: {summary}", flush=True)
        if stop_after and bad >= stop_after:
            break
    for name, count in sorted(counts.items()):
        print(f"{count:12} {name}", file=sys.stdout)
    return bad
