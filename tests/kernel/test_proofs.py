"""Proof at first use: boards that lack something compute nothing wrong, and remember."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from delegate.chip.rk3588 import RK3588
from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.options import Options
from tests.kernel.board import Board
from tests.kernel.small_models import MODELS
from tests.worse import everywhere

SMALL = ("conv", "depthwise", "residual", "digits")
FEATURES = {feature.name: feature for feature in RK3588.features}
# Chips that proofs of single features notice.
WAYS = (
    ("task:zeros",),
    ("task:hangs",),
    ("bs:multiplier_per_channel_zeros",),
    ("out:rounding_away_zeros",),
    ("core:input_sums_per_channel_zeros",),
    ("bn:multiplier_per_channel_hangs",),
    ("ew:addition_hangs",),
    ("table:lost",),
    ("cbuf:kept_weights_lost",),
    ("bn:multiplier_ignored",),
    ("ew:operands_low_byte",),
    ("ew:shift_ignored",),
    ("out:ties_even",),
    ("core:input_sums_ignored",),
    ("cna:rows_packed",),
    ("write:surfaces_in_pairs",),
    ("table:spikes",),
    ("out:ties_up",),
    ("bs:ties_up", "bn:ties_up"),
    ("ew:conversion_ties_up",),
    ("ew:ties_up",),
    ("registers:of_the_one_before",),
    ("registers:of_the_one_before_behind_alone",),
)
WORSE = (*(everywhere(*ways) for ways in WAYS), "all:cores:disturb", "pooling:task:hangs")


def run(
    board: Board,
    *models: str,
    device: str = "rocket",
    broken: str = "",
    count_invoke: bool = False,
    reference: str = "",
    **options: str,
) -> dict[str, Any]:
    """What the worker says of each model, and of the log under "log". ``reference``: a file with
    the reference kernels' results.
    """
    given = {
        "device": device,
        "models": models,
        "options": {"prove": "auto", **options},
        "folder": str(board.root / "models"),
        "count_invoke": count_invoke,
        "reference": reference,
    }
    environment = {"RK3588_SIM_BREAK": broken} if broken else {}
    done = board.python(
        "-m", "tests.kernel.worker_proofs", json.dumps(given), timeout=560, **environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "log": done.stderr}


def records(board: Board, folder: Path | None = None) -> list[Path]:
    folder = folder or board.root / "cache/rk3588-delegate"
    return sorted(folder.glob("features-*.json"))


def states(board: Board, folder: Path | None = None) -> dict[str, str]:
    (path,) = records(board, folder)
    features: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["features"]
    return features


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_a_healthy_board_proves_once_and_an_invoke_costs_nothing_more(board: Board, kernel: str):
    getattr(board, f"add_{kernel}")()
    first = run(board, "residual", device=kernel, count_invoke=True)["residual"]
    assert first["error"] == ""
    assert first["rules"] == []
    used = states(board)
    assert set(used.values()) == {"proved"}
    # The first core twice, then all of them twice.
    cores = RK3588.cores
    assert first["submits"] == len(used) * (2 + 2 * cores)
    again = run(board, "residual", device=kernel, count_invoke=True)["residual"]
    assert again["submits"] == 0
    trusting = run(board, "residual", device=kernel, count_invoke=True, prove="off")["residual"]
    assert again["invoke"] == first["invoke"] == trusting["invoke"]
    assert again["sums"] == first["sums"] == trusting["sums"]


@pytest.mark.parametrize("way", WORSE)
def test_a_board_that_lacks_something_computes_nothing_wrong(board: Board, way: str):
    check_way(board, way, SMALL)


def check_way(board: Board, way: str, models: tuple[str, ...]) -> dict[str, Any]:
    """Every model runs and is right in every partition; what stays on the CPU has a reason."""
    board.add_rocket(hang_ms=20)
    found = run(board, *models, broken=way, timeout_ms="3000")
    for model in models:
        facts = found[model]
        assert facts["error"] == "", (way, model)
        left = facts["total"] - facts["delegated"]
        assert (left == 0) == (facts["reasons"] == []), model
    if any(state != "proved" for state in states(board).values()):
        assert "is switched off on this board" in found["log"]
    return found


def test_a_feature_that_hangs_costs_one_timeout_once(board: Board):
    hang_s = 4
    board.add_rocket(hang_ms=hang_s * 1000)
    way = everywhere("ew:limit_hangs")
    first = run(board, "digits", "residual", broken=way)
    assert states(board)["ew_upper_limit"].startswith("hung: ")
    assert "feature ew_upper_limit is switched off" in first["log"]
    assert first["digits"]["error"] == first["residual"]["error"] == ""
    again = run(board, "digits", "residual", broken=way)
    assert again["digits"]["submits"] == again["residual"]["submits"] == 0
    assert again["digits"]["sums"] == first["digits"]["sums"]
    assert "feature ew_upper_limit is switched off" in again["log"]
    seconds = [sum(found[name]["seconds"] for name in SMALL[2:]) for found in (first, again)]
    assert hang_s * 0.9 < seconds[0] - seconds[1] < hang_s * 1.9


def test_a_proof_that_nobody_saw_the_end_of_is_not_tried_again(board: Board):
    """As after a board that froze: the mark is on the disk before the proof starts."""
    board.add_rocket(hang_ms=20_000)
    worker = (
        "import delegate._native as n, os, threading\n"
        "threading.Timer(1.0, os._exit, (9,)).start()\n"
        "n.prove_features('rocket', timeout_ms=60000, which='all')\n"
    )
    died = board.python("-c", worker, RK3588_SIM_BREAK="dense:task:hangs")
    assert died.returncode == 9
    assert states(board) == {"convolution": "started"}
    found = run(board, "conv")
    assert found["conv"]["delegated"] == found["conv"]["submits"] == 0
    assert "nobody lived to see its proof end" in found["log"]
    records(board)[0].unlink()
    assert run(board, "conv")["conv"]["delegated"] == 1


def test_results_are_kept_in_the_cache_folder_that_is_chosen(board: Board, tmp_path: Path):
    board.add_rocket()
    folder = tmp_path / "chosen"
    assert run(board, "conv", cache_dir=str(folder))["conv"]["submits"] > 0
    assert len(list(folder.glob("features-*.json"))) == 1
    assert records(board) == []
    assert run(board, "conv", cache_dir=str(folder))["conv"]["submits"] == 0


@pytest.mark.parametrize("what", ["changed", "cut", "others_may_write", "link", "folder"])
def test_results_that_others_could_have_written_are_not_used(board: Board, what: str):
    board.add_rocket()
    run(board, "conv")
    (path,) = records(board)
    text = path.read_text(encoding="utf-8")
    if what == "changed":
        path.write_text(text.replace('"ties_away": "proved"', '"ties_away": "failed"'))
    elif what == "cut":
        path.write_text(text[:-20])
    elif what == "others_may_write":
        path.chmod(0o666)
    elif what == "link":
        path.rename(path.with_suffix(".moved"))
        path.symlink_to(path.with_suffix(".moved"))
    else:
        path.parent.chmod(0o777)
    found = run(board, "conv")
    assert found["conv"]["submits"] > 0
    assert found["conv"]["rules"] == []
    assert "results of proofs" in found["log"]


def test_another_kernel_driver_is_proved_anew(board: Board):
    board.add_rocket()
    run(board, "conv")
    node = board.root / "dev/accel/accel0"
    node.write_text("driver=rocket\nversion=1.0.0\n")
    assert run(board, "conv")["conv"]["submits"] > 0
    assert len(records(board)) == 2


def test_without_a_folder_every_process_proves_and_says_so(board: Board):
    board.add_rocket()
    closed = board.root / "closed"
    closed.write_text("no folder")
    found = run(board, "conv", cache_dir=str(closed / "below"))
    assert found["conv"]["submits"] > 0
    assert found["conv"]["error"] == ""
    assert "every process proves the features again" in found["log"]


def test_a_compiled_model_that_needs_what_is_missing_is_refused(board: Board):
    board.add_rocket()
    path = board.root / "compiled.tflite"
    model = compile_ahead_of_time(MODELS["residual"](), Options())
    path.write_bytes(model.content)
    fine = run(board, str(path))[str(path)]
    assert fine["error"] == ""
    assert set(states(board).values()) == {"proved"}
    os.remove(records(board)[0])
    broken = run(board, str(path), broken=everywhere("ew:addition_zeros"))[str(path)]
    assert "needs the feature operand_conversion" in broken["error"]  # its proof adds
    assert "failed" in broken["error"]


def test_nothing_is_proved_where_there_is_no_npu(board: Board):
    run(board, "conv", device="simulator")
    assert records(board) == []
    run(board, "conv", device="null", verify="off")
    assert records(board) == []
    found = run(board, "conv", device="simulator", prove="always")
    assert found["conv"]["rules"] == []
    assert set(states(board).values()) == {"proved"}


def table_of(board: Board, *arguments: str, broken: str = "") -> dict[str, str]:
    """The proofs of all features, from a command's JSON."""
    done = board.python("-m", "delegate", *arguments, "-O", "prove=auto", RK3588_SIM_BREAK=broken)
    document = json.loads(done.stdout)
    rows = document["features"] if "features" in document else document["self_test"]["features"]
    assert [row["name"] for row in rows] == list(FEATURES)
    assert all(row["rank"] and row["source"] for row in rows)
    return {row["name"]: row["proof"] for row in rows}


def test_doctors_report_has_the_proofs_of_all_features(board: Board, tmp_path: Path):
    board.add_rocket(hang_ms=20)
    report = tmp_path / "report.zip"
    arguments = ("doctor", "--device", "rocket", "--json", "--report", str(report))
    assert set(table_of(board, *arguments).values()) == {"proved"}
    with zipfile.ZipFile(report) as archive:
        facts = json.loads(archive.read("doctor.json"))
    assert {row["proof"] for row in facts["self_test"]["features"]} == {"proved"}
    assert any(
        f"{len(FEATURES)} of {len(FEATURES)} features proved" in item["text"]
        for item in facts["findings"]
    )


@pytest.mark.parametrize(
    ("broken", "way", "said"),
    [("ew_upper_limit", "ew:limit_zeros", "failed"), ("bn_relu", "bn:clamp_hangs", "hung")],
)
def test_bring_up_has_the_proofs_of_all_features(board: Board, broken: str, way: str, said: str):
    board.add_rocket(hang_ms=20)
    arguments = ("bring-up", "--device", "rocket", "--json", "-O", "timeout_ms=3000")
    proofs = table_of(board, *arguments, broken=everywhere(way))
    assert proofs[broken].startswith(f"{said}: ")
    others = {p for name, p in proofs.items() if name != broken and f"rests on {broken}" not in p}
    assert others == {"proved"}
    # Nothing is tried again, not even what hung: the board is whole meanwhile.
    assert table_of(board, *arguments)[broken] == proofs[broken]


def test_a_table_of_proofs_does_not_run_them_where_the_board_is_trusted(board: Board):
    board.add_rocket()
    done = board.python("-m", "delegate", "doctor", "--device", "rocket", "--json")
    rows = json.loads(done.stdout)["self_test"]["features"]
    assert {row["proof"] for row in rows} == {"not tried"}


def test_bring_up_without_a_board_says_so(board: Board):
    done = board.python("-m", "delegate", "bring-up", "--device", "rocket", "-O", "prove=auto")
    assert done.returncode == 1
    assert "no node of this driver" in done.stdout
    assert done.stderr == ""
