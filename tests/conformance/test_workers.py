"""A case that dies or hangs is a failure of that case alone."""

import os
import time
from pathlib import Path

from rk3588_conformance.outcome import Outcome, Status
from rk3588_conformance.workers import Settings, run_in_processes


class Unruly(Settings):
    """Cases whose names say what they do to their process."""

    def work(self):
        return _misbehave


def _misbehave(name: str) -> Outcome:
    if name == "A.abort":
        os.abort()
    if name == "A.hang":
        time.sleep(600)
    return Outcome(name, "A", Status.OK)


def test_dead_and_hanging_cases_fail_and_the_others_run():
    names = [f"A.{i}" for i in range(8)]
    names[2], names[5] = "A.abort", "A.hang"
    settings = Unruly(Path(), {}, timeout_s=3.0)
    outcomes = list(run_in_processes(names, settings, 2))
    assert [outcome.name for outcome in outcomes] == names
    failed = {o.name: o.message for o in outcomes if o.status is Status.FAILED}
    assert failed == {
        "A.abort": "the process ended with exit code -6",
        "A.hang": "did not end within 3 s",
    }
