"""Runs models on a board and reads what the board has shown."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kernel.board import ROOT, Board


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
    given = _arguments(
        board,
        models,
        options,
        device=device,
        count_invoke=count_invoke,
        break_in_use=break_in_use,
        reference=reference,
    )
    environment = {"RK3588_SIM_BREAK": broken} if broken else {}
    done = board.python(
        "-m", "tests.kernel.worker_evidence", json.dumps(given), timeout=560, **environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "log": done.stderr}


def _arguments(
    board: Board, models: Sequence[str], options: Mapping[str, str], **more: object
) -> dict[str, Any]:
    folder = str(board.root / "models")
    return {"models": models, "options": options, "folder": folder, **more}


class Forks:
    """A process that makes runs in children of its own, which need not import anything. Runs of
    several threads go to several processes.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def run(
        self, board: Board, model: str, device: str, broken: str, reference: str, **options: str
    ) -> dict[str, Any]:
        """Return what the worker says of ``model``. Raises RuntimeError if it crashed."""
        process = self._process(board)
        assert process.stdin is not None
        assert process.stdout is not None
        line = {
            "environment": {**board.own_environment, "RK3588_SIM_BREAK": broken},
            "arguments": _arguments(board, [model], options, device=device, reference=reference),
        }
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline() or '{"crashed": "the parent"}')
        if "crashed" in found:
            raise RuntimeError(f"{model} on {broken}: {found}")
        of_model: dict[str, Any] = found[model]
        return of_model

    def _process(self, board: Board) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] | None = getattr(self._of_thread, "process", None)
        if process is None:
            process = self._of_thread.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kernel.worker_forks"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
                env=board.environment,
            )
        return process


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
    good = ("ran", "verified")
    return {name: state for name, state in states(board, folder).items() if state not in good}
