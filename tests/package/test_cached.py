"""Properties that are computed once, and processes that fork meanwhile."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import delegate
from delegate.model.cached import cached_property
from tests.processes import python

FORK = """
import os, sys, threading
from delegate.model.cached import cached_property

inside, go = threading.Event(), threading.Event()

class Slow:
    def __init__(self, waits):
        self.waits = waits

    @cached_property
    def value(self):
        if self.waits:
            inside.set()
            go.wait()
        return 5

thread = threading.Thread(target=lambda: Slow(True).value)
thread.start()
inside.wait()
child = os.fork()
if not child:
    os._exit(Slow(False).value)
status = os.waitpid(child, 0)[1]
go.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_value_is_computed_once_per_object() -> None:
    calls = []

    class Counted:
        @cached_property
        def value(self) -> int:
            calls.append(self)
            return len(calls)

    first, second = Counted(), Counted()
    assert (first.value, first.value, second.value) == (1, 1, 2)
    assert isinstance(Counted.value, cached_property)


def test_threads_agree_on_a_value() -> None:
    class Named:
        @cached_property
        def value(self) -> str:
            return "value"

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda one: one.value, [Named()] * 8)) == ["value"] * 8


def test_a_child_of_a_fork_computes_while_its_parent_does() -> None:
    """``functools.cached_property`` of Python 3.10 and 3.11 never returns there."""
    assert python("-c", FORK, timeout=60).returncode == 5


def test_no_module_takes_the_property_with_a_lock() -> None:
    root = Path(delegate.__file__).parent
    taken = [
        path
        for path in root.rglob("*.py")
        if "from functools import cached_property" in (path.read_text(encoding="utf-8"))
    ]
    assert taken == []
    assert os.path.exists(root / "model" / "cached.py")
