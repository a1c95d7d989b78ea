"""Marks the tests that read the folder beside the repository: ``-m shared`` runs them alone."""

from __future__ import annotations

import pytest

from tests.shared_readers import is_reader

MARK = "shared"


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if MARK not in config.option.markexpr:
        return  # finding them takes seconds
    for item in items:
        assert isinstance(item, pytest.Function)
        test = item.cls.__name__ if item.cls else item.originalname
        if is_reader(item.module.__name__, test):
            item.add_marker(MARK)
