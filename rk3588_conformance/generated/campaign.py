"""Runs many generated cases: each in a process of its own, with a limit of time, over several
workers, with progress.

A case is its seed: what failed is repeated by running that seed alone. A case passes, is skipped
(there is nothing to compare), is refused with an error, breaks the contract, crashes or hangs.
"""

import collections
import contextlib
import faulthandler
import functools
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

PASSED, SKIPPED, BROKEN, CRASHED, HUNG = "passed", "skipped", "broken", "crashed", "hung"
# An error of the delegate where the runtime alone goes on.
REFUSED = "refused"
# Results differ in a way that the reference kernels cannot judge: only the runtime reads the file,
# or it reads beyond its tensors.
UNJUDGED = "unjudged"
REFUSAL = "rk3588 delegate: "
BAD = (BROKEN, CRASHED, HUNG, REFUSED)
_FORKS = get_context("fork")


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
    reading, writing = _FORKS.Pipe(duplex=False)
    child = _FORKS.Process(target=_run_child, args=(function, writing))
    child.start()
    writing.close()
    result: ChildResult | None = None
    with reading, contextlib.suppress(EOFError, ConnectionError):
        if reading.poll(seconds):
            result = reading.recv()
        else:
            result = ChildResult(HUNG, text=f"no end after {seconds:.0f} s")
            child.kill()
    child.join()
    if result is not None:
        return result
    assert child.exitcode is not None, "it has ended"
    code = -child.exitcode
    return ChildResult(CRASHED, text=signal.Signals(code).name if code > 0 else f"exit {-code}")


def _run_child(function: Callable[[], Any], writing: Connection) -> None:
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
    writing.send(result)
    os._exit(0)


Judge = Callable[[int], Outcome]


def _judged(judge: Judge, seed: int) -> Outcome:
    try:
        return judge(seed)
    except Exception:  # a defect of the generator or the judge
        return Outcome(seed, BROKEN, "judge: " + traceback.format_exc(limit=-3))


def run(judge: Judge, seeds: range, jobs: int) -> Iterator[Outcome]:
    """The outcomes of all ``seeds``, in order. ``judge`` bounds its time."""
    if jobs <= 1:
        yield from map(judge, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=_FORKS) as pool:
        yield from pool.map(functools.partial(_judged, judge), seeds)


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
