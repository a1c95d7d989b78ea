"""The process that keeps files of the driver rocket open beyond another one's death."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel.board import ROOT, Board
from tools.board.keepers import descriptors, keepers, wait_for_end

PAUSE_S = 1.0


def names(board: Board, count: int) -> list[str]:
    """Return the names of the files that a keeper of ``count`` files has open."""
    return sorted([*[str(board.root / "dev/accel/accel0")] * count, "socket"])


def test_it_has_the_file_alone_and_is_nobodys_child(board):
    answer = board.add_rocket().work("keeper", device="rocket", what="one")
    resident_kb = answer.pop("resident_kb")
    assert answer == {
        "names": names(board, 1), "parent": False, "session": False, "folder": "/",
        "left_pipe": True, "child": "none",
    }  # fmt: skip
    assert resident_kb < 1024


def test_one_keeper_has_all_files_and_ends_with_the_last(board):
    answer = board.add_rocket().work("keeper", device="rocket", what="several")
    assert answer == [names(board, count) for count in (1, 2, 3, 2, 1, 1)]


def test_a_forked_child_has_its_own(board):
    answer = board.add_rocket().work("keeper", device="rocket", what="fork")
    assert answer == {
        "before": names(board, 1), "child": str(names(board, 1)), "after": names(board, 1)
    }  # fmt: skip


@contextlib.contextmanager
def holding(board: Board, device: str = "rocket", **environ: str) -> Iterator[tuple[Any, set[int]]]:
    """A process with an open file, and its keepers."""
    arguments = json.dumps({"device": device, "what": "hold"})
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kernel.work", "keeper", arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=board.environment | environ,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process, set(map(int, process.stdout.readline().split()))
        finally:
            process.kill()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT, "_exit"])
def test_the_file_outlives_the_process_by_a_second(board, end):
    with holding(board.add_rocket()) as (process, (keeper,)):
        if end == "_exit":
            process.stdin.close()
        else:
            process.send_signal(end)
        process.wait()
        death = time.monotonic()
        while keeper in keepers():
            time.sleep(0.01)
    assert PAUSE_S * 0.9 < time.monotonic() - death < 10


def test_signals_to_all_processes_leave_it_alone(board):
    """As a service manager and a terminal send them."""
    with holding(board.add_rocket()) as (process, (keeper,)):
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(keeper, each)
        process.kill()
        process.wait()
        time.sleep(0.3)
        assert str(board.root / "dev/accel/accel0") in descriptors(keeper).values()
        wait_for_end({keeper}, 10)


def test_the_vendor_driver_has_none(board):
    with holding(board.add_rknpu(), "rknpu") as (_, found):
        assert found == set()


def test_the_environment_switches_it_off(board):
    with holding(board.add_rocket(), RK3588_KEEPER="off") as (_, found):
        assert found == set()


@pytest.mark.parametrize(("is_forbidden", "count", "said"), [(False, 1, 0), (True, 0, 1)])
def test_what_sandboxes_make_of_it(board, is_forbidden, count, said):
    """Without one everything works; why there is none is said once, where ``log_level`` asks."""
    options = {"device": "rocket", "log_level": "info"}
    arguments = {"what": "delegates", "options": options, "is_forbidden": is_forbidden}
    done = board.add_rocket().python("-m", "tests.kernel.work", "keeper", json.dumps(arguments))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"keepers": count, "violations": []}
    assert done.stderr.count("Operation not permitted") == said
    assert done.stderr.count("no keeper") == said
