"""Processes that die while their tasks run, as they are killed or by themselves: the kernel does
not complain, and the next process works.

The driver ``rocket`` is corrupted by a file that is closed while its jobs run. Its cases rest on
the keeper (``native/rocket/keeper.h``), of which each sees that it was there and is gone.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import delegate
from tools.board.cases import LIBRARY
from tools.board.cycles import CYCLES, has_c_host, is_late, load
from tools.board.faults import LATER
from tools.board.harness import (
    C_HOST,
    DEVICE,
    DRIVER,
    HOST,
    SLOWNESS,
    complaints,
    fork,
    invoke,
    kernel_timeouts,
    models,
    number,
    set_fault,
)
from tools.board.keepers import keepers, wait_for_end

KILLS = 20
OTHERS = 5
PAUSE_S = 1.0
_STREAMS = 2
_RUNS, _OUTPUT = Path("/tmp/runs"), Path("/tmp/dying")
_random = random.Random(1)


def _in_python(end: Callable[[], None]) -> Callable[[], int]:
    """Starts a process whose threads run a model for ever, until ``end`` ends it."""
    path = models()[0]

    def stream() -> None:
        item = load(path)
        invoke(item, 0)
        with open(_RUNS, "a") as runs:
            runs.write(".")
        while True:
            with contextlib.suppress(RuntimeError):
                invoke(item, 0)

    def body() -> None:
        for _ in range(_STREAMS):
            threading.Thread(target=stream, daemon=True).start()
        while not _RUNS.exists() or len(_RUNS.read_text()) < _STREAMS:
            time.sleep(0.02)
        end()

    return lambda: fork(body, _OUTPUT)


def _in_c() -> int:
    """Starts a program in C that loads and runs a model again and again."""
    compiled = HOST / "compiled"
    names = Path("/tmp/many")
    names.write_text(f"{compiled / 'model'}\n" * 10_000)
    command = [str(C_HOST), "--batch", LIBRARY, str(names), str(compiled / "model.input")]
    output = (os.POSIX_SPAWN_OPEN, 1, str(_RUNS), os.O_WRONLY | os.O_CREAT, 0o600)
    return os.posix_spawn(
        command[0], [*command, f"device={DEVICE}"], os.environ, file_actions=[output]
    )


def _until_it_runs(pid: int) -> None:
    end = time.monotonic() + 120 * SLOWNESS
    while not (_RUNS.exists() and len(_RUNS.read_text()) >= _STREAMS):
        assert os.waitpid(pid, os.WNOHANG)[0] == 0, "it ended before it ran"
        assert time.monotonic() < end, "it does not run"
        time.sleep(0.02)


@contextlib.contextmanager
def _hanging(is_asked: bool) -> Iterator[None]:
    set_fault(f"hang {LATER}" if is_asked else "")
    try:
        yield
    finally:
        set_fault("")


def _next_process(path: Path, expected: str) -> int:
    """Check that the model runs for another process; return the runs lost to the kernel's
    deadline.
    """
    for late in range(3):
        before, inferences = kernel_timeouts(), delegate.stats().inferences
        try:
            assert invoke(load(path), 0) == expected, "wrong after a death"
            assert delegate.stats().inferences > inferences, "the model is left to the CPU"
        except RuntimeError as error:
            if not is_late(str(error), before):
                raise
            continue
        return late
    raise AssertionError("nothing runs after a death")


def _die(
    count: int, kinds: list[Callable[[], int]], code: int, signals: tuple[signal.Signals, ...] = ()
) -> object:
    """``count`` processes that end with ``code``, by ``signals`` (the keeper gets those that can be
    held back, too) or by themselves; every third one while a task hangs.
    """
    path = models()[0]
    expected = invoke(load(path, device="simulator"), 0)
    before, late, hung = len(complaints()), 0, 0
    for turn in range(count):
        hangs = turn % 3 == 1
        hung += hangs
        _RUNS.unlink(missing_ok=True)
        others = keepers()
        pid = kinds[turn % len(kinds)]()
        _until_it_runs(pid)
        keeper = keepers() - others
        assert len(keeper) == (1 if DRIVER == "rocket" else 0), f"{len(keeper)} keepers"
        with _hanging(hangs):
            time.sleep(0.1 + 0.3 * _random.random())
            start = time.monotonic()
            for each in signals:
                for process in (pid, *(keeper if each != signal.SIGKILL else ())):
                    os.kill(process, each)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == code, f"it ended with {status}"
        # A machine that is busy may look later than that.
        is_there = keepers() & keeper == keeper
        assert is_there or time.monotonic() - start >= PAUSE_S, "the keeper has not waited"
        if turn % 2:
            wait_for_end(keeper, 10 * SLOWNESS)
        late += _next_process(path, expected)
        wait_for_end(keeper, 10 * SLOWNESS)
    time.sleep(1)
    # With the vendor's driver the next process waits in vain for every task that hangs.
    most = hung + count // 10 + 1 if DRIVER == "rknpu" else count // 5 + 2
    assert late <= most, f"the kernel's deadline passes too often: {late} times"
    return {"died": count, "late": late, "kernel_complaints": complaints()[before:]}


def _for_ever() -> None:
    time.sleep(3600)


def _soon(end: Callable[[], None]) -> Callable[[], None]:
    def body() -> None:
        time.sleep(0.1 + 0.3 * random.random())
        end()

    return body


def killed() -> object:
    kinds = [_in_python(_for_ever), *([_in_c] if has_c_host() else [])]
    count = max(KILLS, number("BOARD_CYCLES", CYCLES) // 25)
    return _die(count, kinds, -signal.SIGKILL, (signal.SIGKILL,))


def terminated() -> object:
    """The default action of SIGTERM, which a service manager sends to the keeper, too."""
    kinds = [_in_python(_for_ever), *([_in_c] if has_c_host() else [])]
    return _die(OTHERS, kinds, -signal.SIGTERM, (signal.SIGTERM,))


def aborted() -> object:
    return _die(OTHERS, [_in_python(_soon(os.abort))], -signal.SIGABRT)


def exited() -> object:
    """Without the exit handlers, while threads run the model."""
    return _die(OTHERS, [_in_python(_soon(lambda: os._exit(3)))], 3)
