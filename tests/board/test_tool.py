"""When `make board` gives a guest up, and what it says of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.board.__main__ import judge
from tools.board.machine import Patience


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def silence_until_given_up(boot_s: int) -> int:
    """Seconds of a guest that took ``boot_s`` to boot, spoke once a minute, then fell silent."""
    clock = Clock()
    patience = Patience(1e6, clock)
    for second in range(boot_s + 600):
        clock.now += 1
        patience.look((second // 60,), second >= boot_s)
    for silence in range(100_000):
        clock.now += 1
        try:
            patience.look((0,), True)
        except SystemExit as end:
            assert "is up but was silent" in str(end)
            return silence
    raise AssertionError("never given up")


def test_a_slow_machine_has_longer():
    assert silence_until_given_up(3) == pytest.approx(120, abs=1)
    assert silence_until_given_up(100) == pytest.approx(24 * 101, abs=1)


def test_a_guest_that_never_boots_is_given_up():
    clock = Clock()
    patience = Patience(1e6, clock)
    patience.look((), False)
    clock.now += 121
    with pytest.raises(SystemExit, match="boots but was silent for 120 s"):
        patience.look((), False)


def test_a_guest_that_always_says_something_has_an_end():
    clock = Clock()
    patience = Patience(500, clock)
    for second in range(500):
        clock.now += 1
        patience.look((second,), True)
    clock.now += 1
    with pytest.raises(SystemExit, match="was not done after 500 s"):
        patience.look((500,), True)


@pytest.mark.parametrize("is_passed", [False, True])
@pytest.mark.parametrize("log", ["", "Traceback (most recent call last):"])
def test_a_failing_case_and_a_traceback_are_failures(tmp_path: Path, is_passed: bool, log: str):
    (tmp_path / "host").mkdir()
    rows = [
        {"case": name, "passed": passed, "seconds": 1.0, "detail": ""}
        for name, passed in (("doctor", True), ("classify", is_passed))
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "host/results.jsonl").write_text(text)
    (tmp_path / "host/guest.log").write_text(log)
    assert judge(tmp_path, ["doctor", "classify"]) == (not is_passed) + bool(log)


def test_a_case_that_was_not_run_is_a_failure(tmp_path: Path):
    (tmp_path / "host").mkdir()
    row = {"case": "doctor", "passed": True, "seconds": 1.0, "detail": ""}
    (tmp_path / "host/results.jsonl").write_text(json.dumps(row) + "\n")
    assert judge(tmp_path, ["doctor", "classify"]) == 1
