"""A host without Python on the stand-in kernel: programs are compared natively, once."""

import json
import time
from pathlib import Path

import pytest

from tests.aot.models import rich_model
from tests.builds import build_standin
from tests.hosts.conftest import compiled, run_in_python
from tests.kernel.board import Board

NO_DENSE = "dense:task:zeros"
DENSE_HANGS = "dense:task:hangs"


@pytest.fixture(scope="module")
def model() -> bytes:
    return compiled(rich_model())


@pytest.fixture(scope="module")
def expected() -> tuple[bytes, bytes]:
    """Input and outputs."""
    return run_in_python(rich_model())


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "root", build_standin() / "libstandin_kernel.so")


def environment(board: Board, broken: str = "") -> dict[str, str]:
    names = ("LD_PRELOAD", "RK3588_STANDIN_ROOT", "XDG_CACHE_HOME")
    found = {name: board.environment[name] for name in names}
    return {**found, "RK3588_SIM_BREAK": broken} if broken else found


def record(board: Board) -> Path:
    (path,) = (board.root / "cache/rk3588-delegate").glob("board-*.json")
    return path


def states(board: Board) -> dict[str, str]:
    found: dict[str, str] = json.loads(record(board).read_text(encoding="utf-8"))["shown"]
    return found


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_a_host_compares_its_programs_once(host, board, model, expected, kernel: str):
    board.add(kernel)
    content, outputs = expected
    first = host(model, content, device=kernel, environment=environment(board))
    assert first.code == 0, first.err
    assert first.output == outputs
    assert not first.report["libpython"]
    assert set(states(board).values()) == {"verified"}
    before = record(board).stat()
    again = host(model, content, device=kernel, environment=environment(board))
    assert again.output == outputs
    # Whoever learns something replaces the file.
    assert (record(board).stat().st_ino, record(board).stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )


def test_a_model_that_a_board_gets_wrong_is_refused_with_the_reason(host, board, model, expected):
    board.add_rocket()
    ran = host(model, expected[0], device="rocket", environment=environment(board, NO_DENSE))
    assert ran.code != 0
    assert ran.output == b""
    (line,) = [line for line in ran.err.splitlines() if "must not run on this board" in line]
    assert "failed: " in line
    assert "use the original model" in line
    assert any(state.startswith("failed: ") for state in states(board).values())


def test_a_form_that_hangs_costs_two_processes_a_timeout_and_no_third(host, board, model, expected):
    board.add_rocket(hang_ms=2000)
    took = []
    for state in ("suspected", "hung", "hung"):
        start = time.monotonic()
        given = environment(board, DENSE_HANGS)
        ran = host(model, expected[0], device="rocket", environment=given)
        took.append(time.monotonic() - start)
        assert ran.code != 0
        assert f" {state}: " in ran.err
    assert took[0] - took[2] > 1.0
    assert took[1] - took[2] > 1.0


def test_a_trusted_board_is_not_asked(host, board, model, expected):
    board.add_rocket()
    ran = host(model, expected[0], device="rocket", environment=environment(board), verify="off")
    assert ran.output == expected[1]
    assert not (board.root / "cache/rk3588-delegate").exists()
