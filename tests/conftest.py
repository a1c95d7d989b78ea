"""Settings of all tests, and the mark of those that read the folder beside the repository.

What most tests claim is equality with the reference kernels: they, and the processes that they
start, run with ``numerics=exact``. Tests of the default say so themselves. ``-m shared`` runs the
tests that read ``../shared`` alone.
"""

from __future__ import annotations

import os

import pytest

from tests.shared_readers import is_reader

MARK = "shared"

os.environ.setdefault("RK3588_DELEGATE_NUMERICS", "exact")


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if MARK not in config.option.markexpr:
        return  # finding them takes seconds
    for item in items:
        assert isinstance(item, pytest.Function)
        test = item.cls.__name__ if item.cls else item.originalname
        if is_reader(item.module.__name__, test):
            item.add_marker(MARK)
