"""Load of the NPU from trees as kernels show them, and from trees that no kernel shows."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from delegate.cli import main
from delegate.cli.top import load_text, programs_text
from delegate.insight.npu_load import CoreLoad, Holder, NpuState, core_loads, npu_state
from delegate.insight.published_stats import (
    Program,
    ProgramLoad,
    Published,
    program_loads,
    published,
)

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


def published_text(pid: int, runs: int, device_s: float, output: str = "out") -> str:
    labels = f'pid="{pid}",device="rocket",program="main nodes 0..9",output="{output}"'
    name = "rk3588_delegate_"
    return "\n".join(
        [
            f"# HELP {name}runs_total Runs.",
            f"{name}runs_total{{{labels}}} {runs}",
            f"{name}run_errors_total{{{labels}}} 1",
            f'{name}phase_seconds_total{{{labels},phase="input_conversion"}} {device_s / 10:.9f}',
            f'{name}phase_seconds_total{{{labels},phase="device"}} {device_s:.9f}',
            f'{name}phase_seconds_total{{{labels},phase="output_conversion"}} 0.000000000',
            "",
        ]
    )


def look(folder: Path, time_s: float, **texts: tuple[str, float]) -> Published:
    for name, (text, changed) in texts.items():
        path = folder / f"{name[1:]}.prom"
        path.write_text(text)
        os.utime(path, (changed, changed))
    return published(folder, time_s)


def test_shares_of_partitions_are_of_the_time_between_publications(tmp_path: Path) -> None:
    """Process 7 runs all the time, 8 begins after a rest, 9 rests."""
    before = look(
        tmp_path, 1000.5, _7=(published_text(7, 10, 1.0), 1000.0),
        _8=(published_text(8, 50, 2.0, 'a\\"b'), 500.0), _9=(published_text(9, 1, 1.0), 999.0),
    )  # fmt: skip
    after = look(
        tmp_path, 1002.5, _7=(published_text(7, 30, 2.0), 1002.0),
        _8=(published_text(8, 54, 2.5, 'a\\"b'), 1001.5),
    )  # fmt: skip
    loads = program_loads(before, after)
    assert [(load.program.pid, load.program.output) for load in loads] == [(7, "out"), (8, 'a"b')]
    assert [load.runs_per_s for load in loads] == [10.0, 2.0]
    assert [load.device_percent for load in loads] == pytest.approx([50.0, 25.0])
    assert [load.conversion_percent for load in loads] == pytest.approx([5.0, 2.5])
    text = programs_text(tmp_path, loads)
    assert "main nodes 0..9" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_process_that_began_again_has_no_share(tmp_path: Path) -> None:
    before = look(tmp_path, 1000.0, _7=(published_text(7, 10, 1.0), 1000.0))
    after = look(tmp_path, 1002.0, _7=(published_text(7, 11, 0.5), 1002.0))
    assert program_loads(before, after) == ()
    assert program_loads(after, after) == ()


def test_whatever_stands_in_the_folder_is_passed_over(tmp_path: Path) -> None:
    good = published_text(1, 1, 1.0)
    (tmp_path / "target").write_text(good)
    os.symlink(tmp_path / "target", tmp_path / "2.prom")
    os.mkfifo(tmp_path / "3.prom")
    (tmp_path / "4.prom").mkdir()
    (tmp_path / "5.prom").write_bytes(b"\xff\x00" * 1000)
    for name in ("x.prom", "06.prom", "7.new", "-8.prom", "9.prom.prom", "99999999999.prom"):
        (tmp_path / name).write_text(good)
    with open(tmp_path / "10.prom", "wb") as file:
        file.truncate(1 << 40)  # no such file is read
    changed = ("-1", "1e400", "NaN", "9" * 40, "1.", "\u0661")
    lines = [line for line in good.splitlines() if line.startswith("rk3588")]
    (tmp_path / "11.prom").write_text(
        "\n".join(line.rpartition(" ")[0] + " " + value for line in lines for value in changed)
    )
    (tmp_path / "12.prom").write_text(good.replace("out", '\\"' * 20000) + "x" * 1000)
    found = published(tmp_path, 0.0)
    assert {program.pid for program in found.counters} <= {12}


def test_names_of_other_processes_are_shown_harmless() -> None:
    program = Program(7, "\x1b[2J", "a\nb", "\x07")
    text = programs_text(Path("/x"), (ProgramLoad(program, 1.0, 0.0, 1.0, 1.0),))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert len(text.splitlines()) == 2


def test_command_shows_partitions_of_processes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = iter(range(100))

    def sleep(_: float) -> None:
        (tmp_path / "7.prom").write_text(published_text(7, next(runs), 1.0))

    sleep(0)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setenv("RK3588_DELEGATE_STATS_DIR", str(tmp_path))
    assert main(["top", "--json"]) == 0
    (program,) = json.loads(capsys.readouterr().out)["programs"]
    assert (program["pid"], program["program"]) == (7, "main nodes 0..9")
    assert main(["top", "--count", "1", "--stats-dir", str(tmp_path / "none")]) == 0
    assert "no partition ran" in capsys.readouterr().out
    assert main(["top", "--count", "1", "--stats-dir", str(tmp_path / "7.prom")]) == 2
    assert "option stats_dir" in capsys.readouterr().err


def test_command_without_an_npu(capsys: pytest.CaptureFixture[str]) -> None:
    if Path(NODE).exists():
        pytest.skip("this machine has an NPU")
    assert main(["top", "--count", "1", "--seconds", "1"]) == 0
    assert "no NPU here" in capsys.readouterr().out
    assert main(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cores"] == []
