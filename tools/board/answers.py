"""The same questions asked of the real driver and of the tests' stand-in for it.

The questions are those of ``../shared/board/guest/probe.py``. ``docs/driver_answers.md`` has the
table of the last run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.board.image import PROJECT

PROBE = PROJECT / ".." / "shared/board/guest/probe.py"
PAGE = PROJECT / "docs/driver_answers.md"
_MEMORY = "the driver takes the pages first, and the guest has no more"
STRICTER = {"create: create 2147483648": _MEMORY, "create: create 4294963200": _MEMORY}
"""Questions that the stand-in answers differently, and why it may."""


def prepare(share: Path) -> None:
    """The questions, and a program of one task for them, for the guest."""
    if not PROBE.exists():
        return
    import numpy as np

    from delegate.conformance.builder import conv_model

    shutil.copy(PROBE, share / "probe.py")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.tflite"
        model.write_bytes(conv_model(np.random.default_rng(3), 12, 12, 16, 16, 3, 3))
        subprocess.run(
            [sys.executable, "-m", "delegate", "compile", str(model), "--dump", folder],
            check=True, stdout=subprocess.DEVNULL, cwd=PROJECT,
        )  # fmt: skip
        shutil.copy(Path(folder) / "partition_0.npz", share / "probe.npz")


def parse(text: str) -> list[tuple[str, str]]:
    """(group: question, answer) in the order asked."""
    rows, group = [], ""
    for line in text.splitlines():
        if line.startswith("# "):
            group = line[2:]
        elif ": " in line:
            question, _, answer = line.partition(": ")
            rows.append((f"{group}: {question}", answer))
    return rows


def ask_the_standin(share: Path) -> list[tuple[str, str]]:
    from tests.kernel.board import Board, build_standin

    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "root", build_standin() / "libstandin_kernel.so").add_rocket()
        done = board.python(
            str(share / "probe.py"), "/dev/accel/accel0", str(share / "probe.npz"), timeout=300
        )
    return parse(done.stdout)


def differences(real: list[tuple[str, str]], share: Path) -> list[str]:
    """Rows that differ without a reason; writes the page."""
    standin = dict(ask_the_standin(share))
    lines = [
        "# What the drivers answer",
        "",
        "The same questions asked of Linux's own rocket driver on emulated cores (`make board`,",
        "which writes this page) and of the stand-in that the tests use. Where they differ the run",
        "fails.",
        "",
        "| question | real driver | stand-in |",
        "| --- | --- | --- |",
    ]
    found = []
    for question, answer in real:
        other = standin.get(question, "not asked")
        same = "the same" if other == answer else other
        reason = STRICTER.get(question, "")
        lines.append(f"| {question} | {answer} | {same}{': ' + reason if reason else ''} |")
        if other not in (answer, "not asked") and not reason:
            found.append(f"{question}: the driver says {answer!r}, the stand-in {other!r}")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return found
