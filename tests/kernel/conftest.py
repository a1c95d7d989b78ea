"""The stand-in kernel, built once, and boards that have it."""

from pathlib import Path

import pytest

from tests.builds import build_standin
from tests.kernel.board import Board


@pytest.fixture(scope="session")
def standin_library() -> Path:
    return build_standin() / "libstandin_kernel.so"


@pytest.fixture
def board(standin_library: Path, tmp_path: Path) -> Board:
    return Board(tmp_path / "root", standin_library)
