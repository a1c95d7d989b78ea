"""Runs models on a board and reads what the board has shown."""

import json
from pathlib import Path
from typing import Any

from tests.kernel.board import Board


def run(
    board: Board,
    *models: str,
    device: str = "rocket",
    broken: str = "",
    count_invoke: bool = False,
    break_in_use: str = "",
    reference: str = "",
    **options: str,
) -> dict[str, Any]:
    """Return what the worker says of each model, and of the log under "log". ``break_in_use``: what
    is wrong with the chip once the model is loaded. ``reference``: a file with the reference
    kernels' results.
    """
    given = {
        "models": models,
        "options": options,
        "folder": str(board.root / "models"),
        "device": device,
        "count_invoke": count_invoke,
        "break_in_use": break_in_use,
        "reference": reference,
    }
    environment = {"RK3588_SIM_BREAK": broken} if broken else {}
    done = board.python(
        "-m", "tests.kernel.work", "evidence", json.dumps(given), timeout=560, **environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    del found["violations"]  # which the stand-in of a worse board may have
    return {**found, "log": done.stderr}


def records(board: Board, folder: Path | None = None) -> list[Path]:
    """The files of what boards have shown."""
    folder = folder or board.root / "cache/rk3588-delegate"
    return sorted(folder.glob("board-*.json"))


def states(board: Board, folder: Path | None = None) -> dict[str, str]:
    """Return what the one file says, by name of a form or program."""
    (path,) = records(board, folder)
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["shown"]
    return found


def programs(board: Board) -> list[str]:
    """States of the programs alone."""
    return [state for name, state in states(board).items() if name.startswith("program-")]


def off(board: Board, folder: Path | None = None) -> dict[str, str]:
    """Return what is not right, by name."""
    good = ("ran", "verified", "proved")
    shown = states(board, folder)
    return {name: state for name, state in shown.items() if state.split()[0] not in good}
