"""The same questions asked of a real driver and of the tests' stand-in for it.

Those for rocket are ``../shared/board/guest/probe.py``'s, those for rknpu ``probe_rknpu.py``'s.
A run writes its table into the machine's folder; ``docs/driver_answers.md`` and
``docs/driver_answers_rknpu.md`` are such tables.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tools.board.image import PROJECT

PROBES = {
    "rocket": PROJECT / ".." / "shared/board/guest/probe.py",
    "rknpu": Path(__file__).with_name("probe_rknpu.py"),
}
PAGES = {
    "rocket": PROJECT / "docs/driver_answers.md", "rknpu": PROJECT / "docs/driver_answers_rknpu.md"
}  # fmt: skip
DRIVERS = {
    "rocket": "Linux's own rocket driver on emulated cores (`make board`)",
    "rknpu": "the vendor's driver (0.9.8) on emulated cores (`make board DRIVER=rknpu`)",
}
NODES = {"rocket": "/dev/accel/accel0", "rknpu": "/dev/dri/renderD128"}
STRICTER = {"create: create 4294963200": "the driver takes the pages first, and memory is short"}
"""Questions that the stand-in answers differently, and why it may."""
_NOT_ASKED = "not asked"
# A probe that sees where it is may leave out what an older stand-in did not survive.
_ASK_ALL = """
import os, runpy, sys
os.environ = {k: v for k, v in os.environ.items() if k != "RK3588_STANDIN_ROOT"}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def prepare(share: Path, driver: str = "rocket") -> None:
    """The questions, and a program of one task for them, for the guest."""
    if not PROBES[driver].exists():
        return
    import numpy as np

    from rk3588_conformance.builder import conv_model

    shutil.copy(PROBES[driver], share / "probe.py")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.tflite"
        model.write_bytes(conv_model(np.random.default_rng(3), 12, 12, 16, 16, 3, 3))
        subprocess.run(
            [sys.executable, "-m", "delegate", "compile", str(model), "--dump", folder],
            check=True, stdout=subprocess.DEVNULL, cwd=PROJECT,
        )  # fmt: skip
        shutil.copy(Path(folder) / "partition_0.npz", share / "probe.npz")


def parse(text: str) -> list[tuple[str, str]]:
    """(group: question, answer) in the order asked; a question that comes again has a number."""
    rows, group = [], ""
    times: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("# "):
            group = line[2:]
        elif ": " in line:
            question, _, answer = line.partition(": ")
            asked = f"{group}: {question}"
            times[asked] += 1
            rows.append((f"{asked} ({times[asked]})" if times[asked] > 1 else asked, answer))
    return rows


def ask_the_standin(share: Path, driver: str) -> list[tuple[str, str]]:
    from tests.builds import build_standin
    from tests.kernel.board import Board

    with tempfile.TemporaryDirectory() as folder:
        board = Board(Path(folder) / "root", build_standin() / "libstandin_kernel.so")
        board = board.add_rocket() if driver == "rocket" else board.add_rknpu()
        probe = (str(share / "probe.py"), NODES[driver], str(share / "probe.npz"))
        done = board.python("-c", _ASK_ALL, *probe, timeout=300)
    return parse(done.stdout)


def differences(real: list[tuple[str, str]], share: Path, driver: str = "rocket") -> list[str]:
    """Rows that differ without a reason; writes the page beside ``share``, and says where the
    project's is another one.
    """
    standin = dict(ask_the_standin(share, driver))
    lines = [
        f"# What the driver {driver} answers",
        "",
        f"The same questions asked of {DRIVERS[driver]}",
        "and of the stand-in that the tests use. Where they differ without a reason the run fails.",
        "It writes this page into the machine's folder.",
        "",
        "| question | real driver | stand-in |",
        "| --- | --- | --- |",
    ]
    found = []
    for question, answer in real:
        other = standin.pop(question, _NOT_ASKED)
        same = "the same" if other == answer else other
        reason = STRICTER.get(question, "")
        lines.append(f"| {question} | {answer} | {same}{': ' + reason if reason else ''} |")
        if other != answer and (other == _NOT_ASKED or not reason):
            found.append(f"{question}: the driver says {answer!r}, the stand-in {other!r}")
    found += [f"{question}: the driver was not asked" for question in standin]
    page, known = share.parent / PAGES[driver].name, PAGES[driver]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if page.read_text(encoding="utf-8") != known.read_text(encoding="utf-8"):
        print(f"           the answers are not those of {known}: see {page}")
    return found
