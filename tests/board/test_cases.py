"""The guest's own cases, run here in seconds: what they expect of the product's JSON and messages
is what the product says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.kernel.board import Board, build_standin
from tests.shared_folder import MODELS, SHARED
from tools.board.__main__ import PICTURES
from tools.board.cases import BOOT_CLOCK_HZ, DETECTOR
from tools.board.expected import ask_this_machine, unlike
from tools.board.guest import CASES

LOAD = ("cycles", "hangs", "terminated", "aborted", "exited", "killed")
"""Cases that only repeat what others do."""
NOT_HERE = ("hidden", "c_program", "compiled_conformance", "answers")
"""Cases that say nothing without files that ``make board`` builds for the guest."""
CLOCK = "sys/kernel/debug/clk/scmi_clk_npu/clk_rate"


def share(folder: Path, cases: list[str]) -> Path:
    """/host of the guest, with a model and a picture where there are some."""
    (folder / "models").mkdir(parents=True)
    (folder / "images").mkdir()
    detector, picture = MODELS / f"{DETECTOR}.tflite", SHARED / f"images/coco/{PICTURES[0]}.jpg"
    if detector.exists() and picture.exists():
        (folder / "models" / detector.name).symlink_to(detector)
        (folder / "images" / picture.name).symlink_to(picture)
    (folder / "plan.json").write_text(json.dumps(cases))
    return folder


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_every_case_passes_on_the_standin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
):
    monkeypatch.delenv("RK3588_DELEGATE_NUMERICS", raising=False)  # the guest has the default
    board = Board(tmp_path / "root", build_standin() / "libstandin_kernel.so")
    getattr(board, f"add_{driver}")()
    clock = board.root / CLOCK
    clock.parent.mkdir(parents=True)
    clock.write_text(f"{BOOT_CLOCK_HZ}\n")
    log = tmp_path / "bin/dmesg"
    log.parent.mkdir()
    log.write_text("#!/bin/sh\n")  # this machine's log is of no interest
    log.chmod(0o755)
    cases = [name for name in CASES if name not in LOAD]
    host = share(tmp_path / "host", cases)
    done = board.python(
        "-m", "tests.board.guest_on_standin", BOARD_HOST=str(host), BOARD_DRIVER=driver,
        BOARD_CONFORMANCE="1", PATH=f"{log.parent}:{os.environ['PATH']}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in (host / "results.jsonl").read_text().splitlines()]
    assert [row["case"] for row in rows] == cases
    assert [(row["case"], row["detail"]) for row in rows if not row["passed"]] == []
    given = {row["case"]: row["detail"] for row in rows}
    assert unlike(given, ask_this_machine(host, cases)) == []
    empty = {name for name, detail in given.items() if detail is None}
    has_detector = any((host / "models").iterdir())
    assert empty == {*NOT_HERE, *(() if has_detector else ("detect",))}
