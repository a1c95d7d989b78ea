"""Work spread over processes: every item once, errors as results, nobody left."""

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable
from multiprocessing import active_children, resource_tracker, spawn

import pytest

from delegate.errors import DelegateError, ModelError
from delegate.host.workers import Failure, in_order, spread


def _identity(behaviour: str) -> Callable[[int], tuple[int, int]]:
    if behaviour == "refuses":
        raise ModelError("no such model")
    return functools.partial(_work, behaviour)


def _work(behaviour: str, item: int) -> tuple[int, int]:
    if item == 3:
        if behaviour == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "hangs":
            time.sleep(60)
        if behaviour == "breaks":
            raise KeyError(item)
    return item, os.getpid()


def done(behaviour: str, jobs: int = 2) -> list[tuple[int, int] | Failure]:
    prepare = functools.partial(_identity, behaviour)
    results = list(in_order(spread(prepare, iter(range(9)), jobs, timeout_s=5)))
    assert not active_children()
    return results


def test_every_item_is_done_once_by_several_processes():
    results = done("works", jobs=3)
    assert [item for item, _ in results] == list(range(9))
    assert os.getpid() not in {pid for _, pid in results}


@pytest.mark.parametrize(
    ("behaviour", "text", "is_lost"),
    [
        ("dies", "the process ended with exit code -9", True),
        ("hangs", "did not end within 5 s", True),
        ("breaks", "internal error: KeyError: 3; please report it with the output of --jobs 1 "
         "--debug", False),
    ],
)  # fmt: skip
def test_an_item_that_fails_is_told_and_the_others_are_done(behaviour, text, is_lost):
    results = done(behaviour)
    failure = results.pop(3)
    assert isinstance(failure, Failure)
    assert (failure.text, failure.is_lost) == (text, is_lost)
    assert [item for item, _ in results] == [0, 1, 2, 4, 5, 6, 7, 8]


def test_an_error_of_the_preparation_is_the_result_of_every_item():
    for failure in done("refuses"):
        assert isinstance(failure, Failure)
        assert (failure.text, failure.exit_code) == ("no such model", ModelError.exit_code)
        assert failure.error().exit_code == ModelError.exit_code


class _Slow:
    """An object that takes longer to arrive in a process than an item may take."""

    def __reduce__(self):
        return _slowly, ()


def _slowly() -> Callable[[], Callable[[int], tuple[int, int]]]:
    time.sleep(4)
    return functools.partial(_identity, "works")


def test_the_time_that_processes_take_to_start_is_no_items():
    results = list(in_order(spread(_Slow(), range(5), 2, timeout_s=2)))
    assert [item for item, _ in results] == list(range(5))


def test_processes_that_cannot_start_are_one_error_and_not_one_an_item(monkeypatch, tmp_path):
    """As where Python itself is run by an emulator, which the system does not know."""
    resource_tracker.ensure_running()
    foreign = tmp_path / "python"
    foreign.write_bytes(b"\x7fELF of another machine")
    foreign.chmod(0o755)
    monkeypatch.setattr(spawn, "_python_exe", spawn.get_executable())  # put back at the end
    spawn.set_executable(str(foreign))
    with pytest.raises(DelegateError, match=rf"^a process of {foreign} .* 255 .*--jobs 1"):
        done("works")
    assert not active_children()


def test_who_stops_listening_leaves_nobody():
    results = spread(functools.partial(_identity, "hangs"), range(3, 1000), 2)
    with contextlib.closing(results):
        next(results)
        assert len(active_children()) == 2
    assert not active_children()
