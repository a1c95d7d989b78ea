"""Settings of all tests, and the mark of those that read the folder beside the repository.

What most tests claim is equality with the reference kernels: they, and the processes that they
start, run with ``numerics=exact`` and compile each time, without a cache. Their models are small,
which the CPU runs as fast: all goes to the NPU nevertheless. Tests of the defaults say so
themselves (fixture ``weighs``). ``-m shared`` runs the tests that read ``../shared`` alone.
"""

import os
import sys
from pathlib import Path

import pytest

from delegate.options import Options
from tests.shared_readers import is_reader

MARK = "shared"
BYTECODE = Path(__file__).resolve().parents[1] / "build" / "bytecode"
"""Compiled modules, outside the sources. Without them every collection rewrites 4,000 assertions
and each of a thousand child processes compiles what it imports.
"""

os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]
sys.dont_write_bytecode = False
os.environ.setdefault("RK3588_DELEGATE_CACHE_DIR", "off")
os.environ.setdefault("RK3588_DELEGATE_DENY_OPS", "NONE")
_LEAVES_SLOW = Options.leaves_slow
Options.leaves_slow = False  # of options that come from no environment


@pytest.fixture
def weighs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave to the CPU what it runs as fast, as by default."""
    monkeypatch.delenv("RK3588_DELEGATE_DENY_OPS")
    monkeypatch.setattr(Options, "leaves_slow", _LEAVES_SLOW)


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if MARK not in config.option.markexpr:
        return  # finding them takes seconds
    for item in items:
        assert isinstance(item, pytest.Function)
        test = item.cls.__name__ if item.cls else item.originalname
        if is_reader(item.module.__name__, test):
            item.add_marker(MARK)
