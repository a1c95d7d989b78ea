"""The guest's own cases, run here in seconds: they expect what the product says."""

import json
import os
from pathlib import Path

import pytest

from tests.builds import build_standin
from tests.kernel.board import RKNPU_NODE, Board
from tests.shared_folder import MODELS, SHARED, needs_models
from tools.board.__main__ import PICTURES
from tools.board.cases import BOOT_CLOCK_HZ, DETECTOR
from tools.board.expected import ask_this_machine, unlike
from tools.board.guest import CASES

LOAD = ("cycles", "hangs", "terminated", "aborted", "exited", "killed")
"""Cases that only repeat what others do."""
WITH_ONE_DRIVER = ("bring_up", "compare", "conformance")
"""Cases whose answers are the same with either driver."""
NOT_HERE = ("hidden", "c_program", "compiled_conformance", "answers")
"""Cases that say nothing without files that ``make board`` builds for the guest."""
CLOCK = "sys/kernel/debug/clk/scmi_clk_npu/clk_rate"


def share(folder: Path, cases: list[str], files: dict[str, Path]) -> Path:
    """/host of the guest, with these files."""
    for kind in ("models", "images"):
        (folder / kind).mkdir(parents=True)
    for place, path in files.items():
        (folder / place / path.name).symlink_to(path)
    (folder / "plan.json").write_text(json.dumps(cases))
    return folder


def run_cases(board: Board, tmp_path: Path, cases: list[str], **files: Path) -> dict[str, object]:
    """Return what each case says, once all have passed and say what this machine does."""
    clock = board.root / CLOCK
    clock.parent.mkdir(parents=True)
    clock.write_text(f"{BOOT_CLOCK_HZ}\n")
    log = tmp_path / "bin/dmesg"
    log.parent.mkdir()
    log.write_text("#!/bin/sh\n")  # this machine's log is of no interest
    log.chmod(0o755)
    host = share(tmp_path / "host", cases, files)
    driver = "rknpu" if (board.root / RKNPU_NODE).exists() else "rocket"
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
    return given


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.delenv("RK3588_DELEGATE_NUMERICS", raising=False)  # the guest has the default
    return Board(tmp_path / "root", build_standin() / "libstandin_kernel.so")


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_every_case_passes_on_the_standin(root: Board, tmp_path: Path, driver: str):
    getattr(root, f"add_{driver}")()
    left_out = (*LOAD, "detect", *(WITH_ONE_DRIVER if driver == "rknpu" else ()))
    given = run_cases(root, tmp_path, [name for name in CASES if name not in left_out])
    assert {name for name, detail in given.items() if detail is None} == set(NOT_HERE)


@needs_models
def test_the_case_of_a_detector_passes_on_the_standin(root: Board, tmp_path: Path):
    files = {
        "models": MODELS / f"{DETECTOR}.tflite", "images": SHARED / f"images/coco/{PICTURES[0]}.jpg"
    }  # fmt: skip
    given = run_cases(root.add_rocket(), tmp_path, ["detect"], **files)
    assert given["detect"] is not None
