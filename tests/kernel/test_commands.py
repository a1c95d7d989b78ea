"""Commands on boards: doctor, bring-up, replay, and which device is chosen."""

import json
import os
import shutil
import zipfile
from typing import Any

import pytest

from rk3588_conformance.self_test_cases import CASES
from tests.kernel.board import CORES, RKNPU_NODE, ROCKET_NODE, ROOT, Board, add_cores, bind
from tests.shared_folder import capture_files

DIGITS = ROOT / "models/digits"
CLASSIFY = (
    "classify", str(DIGITS / "images/digit_7.png"), "--model", str(DIGITS / "digits_int8.tflite"),
)  # fmt: skip


def command(board: Board, *arguments: str, **more: str):
    return board.python("-m", "delegate", *arguments, **more)


def facts_of(board: Board, *arguments: str, code: int | None = None, **more: str) -> dict[str, Any]:
    """A command's JSON; ``code`` is what it ends with, if that is said."""
    done = command(board, *arguments, "--json", **more)
    assert code in (None, done.returncode), done.stdout + done.stderr
    return json.loads(done.stdout)


def test_an_npu_is_used_where_there_is_one(board: Board):
    assert facts_of(board.add_rocket(), *CLASSIFY, code=0)["device"].startswith("rocket")


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_conformance_counts_no_submits_of_the_verifier(board: Board, driver: str):
    """The simulator runs behind the first inference of each program, which is no submit."""
    case = "Conv2D.PerChannel/input_size_3_weight_size_1_input_channels_32_output_channels_32_*"
    done = command(board.add(driver), "conformance", "--device", driver, "--jobs", "1",
                   f"--gtest_filter={case}", RK3588_DELEGATE_VERIFY="auto")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ]" in done.stdout


def test_without_an_npu_one_line_says_that_the_simulator_runs(board: Board):
    done = command(board, *CLASSIFY)
    assert done.returncode == 0
    assert sum("simulator" in line for line in done.stderr.splitlines()) <= 1
    assert "simulator" in done.stdout + done.stderr


@pytest.mark.parametrize("faults", ["open@1=EACCES*9", "VERSION@1=EIO*9", "CREATE_BO@1=ENOMEM*99",
                                    "SUBMIT@1=lost*99"])  # fmt: skip
def test_an_npu_that_fails_is_never_replaced(board: Board, faults: str):
    done = command(board.add_rocket(), *CLASSIFY, faults=faults)
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "/dev/accel/accel0" in done.stderr
    assert done.stdout == ""


def test_another_driver_behind_a_path_is_named(board: Board):
    board.add_rocket()
    (board.root / ROCKET_NODE).write_text("driver=intel_vpu\nversion=1.0.0\n")
    done = command(board, *CLASSIFY, "--device", "/dev/accel/accel0")
    assert done.returncode == 3
    assert "belongs to driver intel_vpu 1.0.0" in done.stderr


@pytest.mark.parametrize(
    ("driver", "asked", "chip", "more", "names_board"),
    [
        ("rocket", "auto", "rk3568", "", False),
        ("rknpu", "driver", "rk3568", "", False),
        ("rocket", "path", "rk3576", "rk3588", False),
        ("rknpu", "auto", "rk3576", "rk3588", False),
        ("rocket", "driver", "rk3588", "", True),
        ("rknpu", "path", "rk3588", "", True),
    ],
)
def test_a_driver_that_does_not_know_its_chip_gets_no_program(
    board: Board, driver: str, asked: str, chip: str, more: str, names_board: bool
):
    """A chip without programs; and RK3576, taken by RK3588's driver for one of its own."""
    board.add(driver).of_chip(chip, "rknn-core" if driver == "rocket" else "rknpu", more)
    if names_board:
        (board.root / "proc/device-tree").mkdir(parents=True)
        (board.root / "proc/device-tree/compatible").write_text("radxa,rock-4d\0rockchip,rk3576\0")
        chip = "rk3576"
    node = {"rocket": ROCKET_NODE, "rknpu": RKNPU_NODE}[driver]
    device = {"auto": "auto", "driver": driver, "path": f"/{node}"}[asked]
    done = command(board, *CLASSIFY, "--device", device)
    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert f"this NPU is {chip}'s" in line
    assert ("28673 tasks" in line) == (driver == "rocket" and chip == "rk3576")
    assert "device=simulator" in line
    facts = facts_of(board, "doctor", "--no-self-test")
    assert f"this NPU is {chip}'s" in facts["verdict"]
    assert "device=simulator" in facts["next_step"]


def test_doctor_names_another_chip_without_a_driver(board: Board):
    add_cores(board.root, ("27700000.npu",), bound=0, kind="rk3576-rknn-core")
    facts = facts_of(board, "doctor", "--no-self-test")
    assert any("NPU of this machine is rk3576's" in f["text"] for f in facts["findings"])
    assert "modprobe" not in facts["next_step"]


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
@pytest.mark.parametrize(("own", "other"), [("rk3588", "rk3576"), ("rk3576", "rk3588")])
def test_programs_for_another_chip_are_refused_before_a_submit(
    board: Board, driver: str, own: str, other: str
):
    """Compiled by option or ahead of time; the simulator runs both, and the board its own."""
    board.add(driver, own)
    chip = ("-O", f"chip={other}")
    assert command(board, *CLASSIFY, *chip, "--device", "simulator").returncode == 0
    done = command(board, *CLASSIFY, *chip, "--device", driver)
    assert done.returncode != 0
    assert f"option chip is {other}, but the NPU of" in done.stderr
    assert f"is {own}'s; leave the option out" in done.stderr
    ahead = board.root / "digits.tflite"
    run = ("classify", CLASSIFY[1], "--model", str(ahead), "--device")
    for options, is_refused in ((chip, True), ((), False)):
        compiled = command(board, "compile", CLASSIFY[3], "-o", str(ahead), *options)
        assert compiled.returncode == 0, compiled.stderr
        assert command(board, *run, "simulator").returncode == 0
        done = command(board, *run, driver)
        assert bool(done.returncode) == is_refused, done.stderr
        assert (f"compiled for chip {other}" in done.stderr) == is_refused


def test_an_unknown_vendor_version_is_refused(board: Board):
    done = command(board.add_rknpu(version="0.7.2"), *CLASSIFY)
    assert "0.7.2 is not supported; supported are 0.8.0 to 0.9.x" in done.stderr


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_doctor_finds_a_healthy_board(board: Board, driver: str, tmp_path):
    report = tmp_path / "report.zip"
    options = ("--report", str(report), "-O", "timeout_ms=9000")
    facts = facts_of(board.add(driver), "doctor", *options, code=0)
    assert facts["verdict"] == "the NPU works"
    assert facts["nodes"][0]["driver"] == driver
    assert facts["self_test"]["passed"]
    assert facts["self_test"]["cases"] == len(CASES)
    assert {row["here"] for row in facts["self_test"]["forms"]} == {"agreed"}
    assert facts["options"]["timeout_ms"] == ["9000", "option"]
    with zipfile.ZipFile(report) as archive:
        assert json.loads(archive.read("doctor.json"))["verdict"] == facts["verdict"]


@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        ("VERSION@1=EIO*99", "hardware error"),
        ("SUBMIT@3=hang:0", "nothing was written"),
        ("SUBMIT@5=garbage", "differ from the simulator"),
    ],
)
def test_doctor_names_what_is_wrong(board: Board, faults: str, verdict: str):
    facts = facts_of(board.add_rocket(hang_ms=50), "doctor", faults=faults, code=1)
    assert verdict in facts["verdict"]
    assert facts["next_step"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_doctor_knows_the_group(board: Board):
    (board.add_rocket().root / ROCKET_NODE).chmod(0)
    facts = facts_of(board, "doctor")
    assert "no permission" in facts["verdict"]
    assert "usermod -aG" in facts["next_step"]


def test_doctor_without_an_npu_says_that_the_simulator_runs(board: Board):
    assert "embedded simulator" in facts_of(board, "doctor", code=0)["verdict"]


def test_doctor_sees_a_driver_without_a_node(board: Board):
    (board.add_rocket().root / ROCKET_NODE).unlink()
    facts = facts_of(board, "doctor", "--no-self-test")
    assert "does not exist" in facts["verdict"]
    assert "--device" in facts["next_step"]


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_bench_reads_the_clock_and_warns_of_a_slow_one(board: Board, driver: str):
    board.add(driver)
    clock = board.root / "sys/kernel/debug/clk/scmi_clk_npu/clk_rate"
    clock.parent.mkdir(parents=True)
    clock.write_text("200000000\n")
    runs = ("bench", CLASSIFY[3], "--runs", "2", "--warmup", "0", "--no-cpu", "--json")
    done = command(board, *runs)
    assert done.returncode == 0, done.stderr
    ours = json.loads(done.stdout)["delegate"]
    assert ours["npu_clock_mhz"] == [200, 200]
    found = ours["inference_estimate"]
    assert found["driver"] == driver
    assert found["by_driver"][driver]["clock_mhz"] == [200, 200]
    assert found["range_us"] == found["by_clock_mhz"]["200"]
    assert "the NPU ran at 200 MHz" in done.stderr


def test_bring_up_goes_from_safe_to_risky_and_stops_at_the_first_that_hangs(board, tmp_path):
    board.add_rocket(hang_ms=50)
    output = tmp_path / "results.json"
    done = command(board, "bring-up", "--device", "rocket", "-o", str(output), "--json")
    assert done.returncode == 0, done.stderr
    healthy = json.loads(output.read_text())
    assert [step["passed"] for step in healthy["steps"]] == [True] * len(CASES)
    assert not [f["form"] for f in healthy["forms"] if f["here"] == "suspect"]
    assert healthy["system"]["nodes"][0]["driver"] == "rocket"

    hangs = {"faults": "SUBMIT@4=hang:0"}
    stopped = facts_of(board, "bring-up", "--device", "rocket", code=1, **hangs)
    assert [step["passed"] for step in stopped["steps"]] == [True, False]
    assert stopped["not_tried"] == len(CASES) - 2
    here = {row["form"].rpartition("-")[0]: row["here"] for row in stopped["forms"]}
    assert here == {"conv": "agreed", "fly": "suspect"}
    assert "did not finish" in stopped["verdict"]


def test_captures_are_ordered_by_what_they_ask_for():
    import numpy as np

    from delegate.insight.capture import Capture, CaptureBuffer, CaptureJob, CaptureTask
    from rk3588_conformance.bring_up import must_stop, risk

    def capture(*tasks_of_jobs: int, words: int = 5) -> Capture:
        jobs = tuple(
            CaptureJob(tuple(CaptureTask(0, words) for _ in range(n))) for n in tasks_of_jobs
        )
        buffer = CaptureBuffer("b", 0, 4096)
        return Capture("c", (buffer,), jobs, contents={"b": np.zeros(0, np.uint8)})

    ordered = [capture(1), capture(1, words=9), capture(2), capture(1, 1)]
    backwards = ordered[::-1]
    backwards.sort(key=risk)
    assert backwards == ordered
    assert must_stop("rocket: no result after 5 ms")
    assert not must_stop("3 bytes differ")
    assert not must_stop(None)


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_recorded_programs_replay_on_both_drivers(board: Board, driver: str):
    captures = [str(path) for path in capture_files()]
    results = facts_of(board.add(driver), "replay", *captures, "--device", driver)["captures"]
    assert [r["error"] for r in results if not r["passed"]] == []
    assert len(results) == len(captures) > 0


def test_replay_sees_a_job_that_the_kernel_dropped(board: Board, tmp_path):
    dump = tmp_path / "dump"
    assert command(board, "compile", CLASSIFY[3], "--dump", str(dump)).returncode == 0
    words = ("replay", str(dump / "partition_0.npz"), "--device", "rocket")
    (result,) = facts_of(board.add_rocket(), *words, faults="SUBMIT@1=lost")["captures"]
    assert not result["passed"]
    assert "nothing was written" in result["error"]


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_bench_tells_submit_from_wait(board: Board, driver: str):
    """Rocket: two requests. The vendor's driver says how long the hardware took."""
    words = ("bench", CLASSIFY[3], "--runs", "3", "--warmup", "1", "--no-cpu")
    found = facts_of(board.add(driver), *words, "-O", f"device={driver}", code=0)
    rows = found["delegate"]["partitions"]
    assert rows
    for row in rows:
        times = row["measured"]
        assert times["submit_ms"] > 0
        assert times["wait_ms"] > 0
        total = times["submit_ms"] + times["wait_ms"]
        assert total == pytest.approx(times["device_ms"])


def test_trace_shows_submit_and_wait(board: Board, tmp_path):
    output = tmp_path / "trace.json"
    words = ("trace", CLASSIFY[3], "-o", str(output), "-O", "device=rocket")
    done = command(board.add_rocket(), *words)
    assert done.returncode == 0, done.stderr
    names = [event["name"] for event in json.loads(output.read_text())["traceEvents"]]
    assert "submit" in names
    assert "wait" in names


def test_every_way_of_asking_uses_one_search(board: Board):
    """The second of two NPUs is the one that answers; all agree."""
    board.add_rocket()
    (board.root / ROCKET_NODE).write_text("driver=intel_vpu\nversion=1.0.0\n")
    board.add_second_rocket()
    for device in ("auto", "rocket"):
        found = facts_of(board, *CLASSIFY, "--device", device)
        assert found["device"] == "rocket /dev/accel/accel1"
    done = board.python("-c", "import delegate; print([d.name for d in delegate.devices()])")
    assert done.stdout.strip() == "['/dev/accel/accel1', 'simulator', 'null']"
    facts = facts_of(board, "doctor")
    assert facts["verdict"] == "the NPU works"
    assert [(n["path"], n["state"]) for n in facts["nodes"]] == [
        ("/dev/accel/accel0", "foreign"), ("/dev/accel/accel1", "usable"),
    ]  # fmt: skip


@pytest.mark.parametrize("driver", ["rocket", "rknpu"])
def test_a_container_may_have_nodes_without_sysfs(board: Board, driver: str):
    board.add(driver)
    shutil.rmtree(board.root / "sys")
    assert facts_of(board, *CLASSIFY)["device"].startswith(driver)
    assert facts_of(board, "doctor")["verdict"] == "the NPU works"


def test_doctor_says_why_there_is_no_node(board: Board):
    def verdict() -> tuple[str, str]:
        facts = facts_of(board, "doctor", "--no-self-test", "--device", "rocket", code=3)
        return facts["verdict"], facts["next_step"]

    add_cores(board.root, bound=0)
    text, remedy = verdict()
    assert "3 NPU cores are there, but module rocket is not loaded" in text
    assert "modprobe rocket" in remedy
    (board.root / "sys/module/rocket").mkdir(parents=True)
    text, remedy = verdict()
    assert "has none of the 3 NPU cores" in text
    assert "devices_deferred" in remedy
    for name in CORES:
        bind(board.root, name, "rocket")
    text, remedy = verdict()
    assert "there is no node of it in /dev/accel" in text
    assert "started before the driver was loaded" in remedy
    assert "--device /dev/accel;" in remedy  # accel0 may be another device's


@pytest.mark.parametrize("shown", ["class", "cores"])
def test_who_simulates_beside_a_bound_driver_is_told_why(board: Board, shown: str):
    """A container without the node: accel0 is another device, the NPU's is accel1."""
    if shown == "class":
        board.add_rocket()
        (board.root / ROCKET_NODE).write_text("driver=intel_vpu\nversion=1.0.0\n")
        board.add_second_rocket()
        (board.root / "dev/accel/accel1").unlink()
        wanted = "start it again with --device /dev/accel/accel1"
    else:
        add_cores(board.root, bound=3)
        wanted = "start it again with --device /dev/accel;"
    done = board.python("-c", _LOADED)
    assert done.returncode == 0, done.stderr
    assert "no NPU in use: programs run on the embedded simulator; " in done.stderr
    assert wanted in done.stderr
    facts = facts_of(board, "doctor", "--no-self-test")
    assert wanted.removesuffix(";") in facts["next_step"]


_LOADED = f"""
from tflite_runtime.interpreter import Interpreter, load_delegate
import delegate
made = load_delegate(delegate.library_path())
Interpreter({str(DIGITS / "digits_int8.tflite")!r}, experimental_delegates=[made])
"""
