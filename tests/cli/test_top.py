"""Load of the NPU from trees as kernels show them, and from trees that no kernel shows."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from delegate.cli import main
from delegate.cli.top import load_text
from delegate.insight.npu_load import CoreLoad, Holder, NpuState, core_loads, npu_state

NODE = "/dev/accel/accel0"
CORES = ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu")


def write(root: Path, name: str, content: str | bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def interrupts(*counts: tuple[int, int]) -> str:
    """As Linux writes it, two processors; the lines of NPU cores among others."""
    lines = ["            CPU0       CPU1", " 11:       1000       2000     GICv3  30 Level  timer"]
    for i, (first, second) in enumerate(counts):
        lines.append(f" {40 + i}: {first:10} {second:10}     GICv3 {142 + i} Level     {CORES[i]}")
    return "\n".join(
        [*lines, "IPI0:      5      6       Rescheduling interrupts", "Err:          0"]
    )


def process(root: Path, pid: int, command: str, *targets: str) -> None:
    write(root, f"proc/{pid}/comm", command + "\n")
    folder = root / "proc" / str(pid) / "fd"
    folder.mkdir(parents=True, exist_ok=True)
    for i, target in enumerate(targets):
        os.symlink(target, folder / str(i))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Mainline's driver with three cores, and two processes."""
    for core in CORES:
        write(tmp_path, f"sys/bus/platform/devices/{core}/power/runtime_active_time", "5000\n")
    write(tmp_path, "proc/interrupts", interrupts((10, 20), (0, 7), (3, 0)))
    process(tmp_path, 41, "frigate", "/dev/null", NODE, NODE)
    process(tmp_path, 7, "bash", "/dev/tty")
    return tmp_path


def state(root: Path, time_s: float = 0.0) -> NpuState:
    return replace(npu_state(root, frozenset({NODE})), time_s=time_s)


def test_rates_are_of_each_core_over_all_processors(board: Path) -> None:
    before = state(board)
    write(board, "proc/interrupts", interrupts((40, 30), (0, 7), (3, 1000)))
    write(board, f"sys/bus/platform/devices/{CORES[0]}/power/runtime_active_time", "6500\n")
    loads = core_loads(before, state(board, 2.0))
    assert [load.name for load in loads] == list(CORES)
    assert [load.interrupts_per_s for load in loads] == [20.0, 0.0, 500.0]
    assert [load.powered_percent for load in loads] == [75.0, 0.0, 0.0]


def test_who_has_the_node_open(board: Path) -> None:
    assert state(board).holders == (Holder(41, "frigate", 2),)
    assert state(board).busy_percent is None


@pytest.mark.parametrize(
    ("text", "busy"),
    [
        ("NPU load:  Core0: 12%, Core1:  0%, Core2: 100%,\n", (12, 0, 100)),
        ("NPU load:  7%\n", (7,)),
        ("NPU load:  Core0: 999%,", (100,)),
        ("NPU load:  Core1: 5%,", None),  # whose is it?
        ("", None),
        ("NPU load:  Core0: -1%", None),
    ],
)
@pytest.mark.parametrize("place", ["sys/kernel/debug/rknpu/load", "proc/rknpu/load"])
def test_load_of_the_vendors_driver(tmp_path: Path, place: str, text: str, busy: object) -> None:
    write(tmp_path, place, text)
    assert state(tmp_path).busy_percent == busy


@pytest.mark.parametrize(
    "content",
    ["", "\n", "a", " 40:", " 40: fdab0000.npu", "CPU0\n 40: x y fdab0000.npu", b"\xff" * 99,
     " 40: " + "9" * 40 + " fdab0000.npu", " 40: 1 2 fdab0000.npu;rm"],
)  # fmt: skip
def test_whatever_stands_there_is_no_error(board: Path, content: str | bytes) -> None:
    before = state(board)
    write(board, "proc/interrupts", content)
    for core in CORES:
        write(board, f"sys/bus/platform/devices/{core}/power/runtime_active_time", content)
    for load in core_loads(before, state(board, 1.0)):
        assert load.interrupts_per_s is None
        assert load.powered_percent is None


def test_counters_that_start_again_give_no_rate(board: Path) -> None:
    """After a driver was loaded again."""
    before = state(board)
    write(board, "proc/interrupts", interrupts((1, 0), (0, 7), (3, 0)))
    loads = core_loads(before, state(board, 1.0))
    assert [load.interrupts_per_s for load in loads] == [None, 0.0, 0.0]


def test_text_says_what_the_driver_does_not_tell_and_escapes_names() -> None:
    holders = (Holder(3, "\x1b[2J\nroot", 1),)
    text = load_text(
        ["rknpu"], (CoreLoad("fdab0000.npu", 12.3, None),), NpuState(0, (), None, holders, 4)
    )
    assert "\x1b" not in text
    assert "?[2J?root" in text
    assert "needs root" in text
    assert "4 processes of other users" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_command_without_an_npu(capsys: pytest.CaptureFixture[str]) -> None:
    if Path(NODE).exists():
        pytest.skip("this machine has an NPU")
    assert main(["top", "--count", "1", "--seconds", "1"]) == 0
    assert "no NPU here" in capsys.readouterr().out
    assert main(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cores"] == []
