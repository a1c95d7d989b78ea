"""Boards that compute something else serve nothing wrong, and remember what they must not do."""

import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from delegate.compile.aot.rewrite import compile_ahead_of_time
from delegate.options import Options
from tests.kernel.board import Board
from tests.kernel.evidence_runs import off, programs, records, run, states
from tests.kernel.small_models import MODELS
from tests.kernel.test_commands import facts_of
from tests.worse import everywhere

SMALL = ("conv", "depthwise", "residual", "digits")
DENSE_HANGS = "dense:task:hangs"
DEPTHWISE_HANGS = "depthwise:task:hangs"
NO_ADDITION = everywhere("ew:addition_zeros")
WORSE = (
    *map(everywhere, (
        "task:zeros", "task:hangs", "bs:multiplier_ignored", "bn:multiplier_per_channel_hangs",
        "table:lost", "cbuf:kept_weights_lost", "ew:shift_ignored", "out:ties_even",
        "write:surfaces_in_pairs", "registers:of_the_one_before",
    )),
    "dense:bn:operands_of_next_32",
    "all:cores:disturb",
    "pooling:task:hangs",
)  # fmt: skip
MORE = (
    *map(everywhere, (
        "bs:multiplier_per_channel_zeros", "out:rounding_away_zeros",
        "core:input_sums_per_channel_zeros", "ew:addition_hangs", "bn:multiplier_ignored",
        "ew:operands_low_byte", "core:input_sums_ignored", "cna:rows_packed", "table:spikes",
        "out:ties_up", "ew:conversion_ties_up", "ew:ties_up",
        "registers:of_the_one_before_behind_alone",
    )),
    everywhere("bs:ties_up", "bn:ties_up"),
    "depthwise:bs:multiplier_ignored",
    "dense:bn:clamp_before_shift",
)  # fmt: skip
"""Chips with these deviations of the simulator: one of each stage and kind of task, and more."""


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_a_healthy_board_runs_each_program_once_more(board: Board, kernel: str):
    board.add(kernel)
    first = run(board, "residual", device=kernel, count_invoke=True, verify="auto")["residual"]
    assert first["error"] == ""
    assert first["rules"] == []
    assert first["submits"] == 1
    assert programs(board) == ["verified"]
    assert off(board) == {}
    again = run(board, "residual", device=kernel, count_invoke=True, verify="auto")["residual"]
    assert again["submits"] == 0
    trusting = run(board, "residual", device=kernel, count_invoke=True, verify="off")["residual"]
    assert again["invoke"] == first["invoke"] == trusting["invoke"]
    assert again["sums"] == first["sums"] == trusting["sums"]


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_nothing_is_noticed_in_vain(board: Board, kernel: str):
    board.add(kernel)
    found = run(board, *MODELS, device=kernel, verify="auto")
    assert off(board) == {}
    assert set(programs(board)) == {"verified"}
    for model in MODELS:
        assert found[model]["error"] == ""
        assert found[model]["worst"] == 0, model


def test_a_program_of_the_cache_is_compared_with_its_own_constants(board: Board, tmp_path: Path):
    """Their memory goes back to the system once the device has them, unless they are read again."""
    board.add_rocket()
    given = {"cache_dir": str(tmp_path / "programs"), "verify": "auto", "numerics": "exact"}
    run(board, "split inputs", **given)
    for path in records(board, tmp_path / "programs"):
        path.unlink()
    found = run(board, "split inputs", **given)
    assert found["split inputs"]["worst"] == 0
    assert set(states(board, tmp_path / "programs").values()) == {"verified"}


def test_a_program_that_nobody_used_yet_is_compared_in_its_first_inference(board: Board):
    board.add_rocket()
    load = (
        "import sys\nfrom delegate.host.delegated import DelegatedModel\n"
        "from delegate.options import Options\n"
        "DelegatedModel.load(sys.argv[1], Options.from_mapping({'device': 'rocket'}))\n"
    )
    path = board.root / "model.tflite"
    path.write_bytes(MODELS["residual"]())
    done = board.python("-c", load, str(path), RK3588_DELEGATE_VERIFY="auto")
    assert done.returncode == 0, done.stderr
    assert programs(board) == ["ran"]
    assert run(board, "residual")["residual"]["submits"] == 0
    assert programs(board) == ["verified"]


@pytest.mark.parametrize(
    "way", [*WORSE, *(pytest.param(way, marks=pytest.mark.exhaustive) for way in MORE)]
)
def test_a_worse_board_serves_nothing_wrong(board: Board, way: str):
    check_way(board, way, SMALL)


def check_way(board: Board, way: str, models: tuple[str, ...]) -> dict[str, Any]:
    """Every model runs and is right; what stays on the CPU has a reason."""
    board.add_rocket(hang_ms=20)
    found = run(board, *models, broken=way, timeout_ms="3000", numerics="exact")
    for model in models:
        facts = found[model]
        assert facts["error"] == "", (way, model)
        assert facts["worst"] <= 1, (way, model)  # CPU kernels and NPU: within one step
        left = facts["total"] - facts["delegated"]
        assert (left == 0) == (facts["reasons"] == []), model
    for name in off(board):
        assert f"{name} is switched off on this board" in found["log"]
    return found


def test_what_one_form_gets_wrong_leaves_the_others_on_the_board(board: Board):
    board.add_rocket()
    found = run(board, "residual", broken=NO_ADDITION)["residual"]
    assert 0 < found["delegated"] < found["total"]
    assert found["rules"] == ["board_is_right"]
    (name,) = off(board)
    assert re.fullmatch(r"\w+-[0-9a-f]{8}", name)
    assert off(board)[name].startswith("failed: ")
    again = run(board, "residual", broken=NO_ADDITION)["residual"]
    assert again["submits"] == 0
    assert again["delegated"] == found["delegated"]


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_a_wrong_first_inference_is_replaced_and_compiled_around(board: Board, kernel: str):
    board.add(kernel)
    found = run(board, "residual", device=kernel, break_in_use=NO_ADDITION, count_invoke=True)
    facts = found["residual"]
    assert facts["error"] == ""
    assert facts["worst"] == 0
    assert facts["delegated"] == facts["total"]
    assert facts["invoke"].get("SUBMIT", 0) == 0  # the simulator goes on
    assert found["log"].count("its first inference here was not the simulator's") == 1
    (state,) = programs(board)
    assert state.startswith("wrong: ")
    later = run(board, "residual", device=kernel, broken=NO_ADDITION)["residual"]
    assert 0 < later["delegated"] < later["total"]
    assert later["worst"] <= 1


def test_what_is_wrong_with_some_inputs_alone_keeps_the_program_off_the_board(board: Board):
    """Nothing is found by running its tasks: the board is right again."""
    board.add_rocket()
    run(board, "residual", break_in_use=NO_ADDITION)
    later = run(board, "residual")["residual"]
    assert later["delegated"] == 0
    assert later["rules"] == ["board_is_right"]
    (state,) = programs(board)
    assert state.startswith("failed: wrong: ")


def test_a_form_that_hangs_costs_one_timeout_in_each_of_two_processes(board: Board):
    hang_s = 4
    board.add_rocket(hang_ms=hang_s * 1000)
    seconds = []
    for expected in ("suspected", "hung", "hung"):
        found = run(board, "depthwise", "add", broken=DEPTHWISE_HANGS)
        assert found["depthwise"]["error"] == found["add"]["error"] == ""
        assert found["depthwise"]["worst"] <= 1
        (state,) = off(board).values()
        assert state.startswith(f"{expected}: ")
        seconds.append(found["depthwise"]["seconds"])
    for once in seconds[:2]:
        assert hang_s * 0.9 < once - seconds[2] < hang_s * 1.9


def test_a_timeout_by_chance_is_forgiven(board: Board):
    board.add_rocket(hang_ms=20)
    first = run(board, "depthwise", broken=DEPTHWISE_HANGS, timeout_ms="3000")["depthwise"]
    assert first["delegated"] == 0
    (state,) = off(board).values()
    assert state.startswith("suspected: ")
    later = run(board, "depthwise")["depthwise"]
    assert later["delegated"] == later["total"]
    assert off(board) == {}


def test_a_first_inference_that_hangs_twice_in_a_row_keeps_the_program_off(board: Board):
    board.add_rocket(hang_ms=20)
    given = {"break_in_use": DEPTHWISE_HANGS, "timeout_ms": "3000"}
    for state in ("suspected", "hung"):
        facts = run(board, "depthwise", **given)["depthwise"]
        assert facts["error"] == ""
        assert facts["worst"] == 0
        assert programs(board)[0].startswith(f"{state}: ")
    assert run(board, "depthwise")["depthwise"]["delegated"] == 0


def test_a_first_inference_that_hangs_once_is_forgiven(board: Board):
    board.add_rocket(hang_ms=20)
    run(board, "depthwise", break_in_use=DEPTHWISE_HANGS, timeout_ms="3000")
    later = run(board, "depthwise")["depthwise"]
    assert later["delegated"] == later["total"]
    assert programs(board) == ["verified"]


def test_a_program_that_two_processes_did_not_survive_is_not_tried_again(board: Board):
    """As after a board that froze: the mark is on the disk before the program runs."""
    board.add_rocket(hang_ms=20_000)
    path = board.root / "model.tflite"
    path.write_bytes(MODELS["conv"]())
    worker = (
        "import os, sys, threading\nfrom delegate.host.delegated import DelegatedModel\n"
        "from delegate.options import Options\n"
        "from tests.kernel.standin_calls import calls\n"
        "def end():\n"
        "    while not calls().get('SUBMIT'): pass\n"
        "    os._exit(9)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "DelegatedModel.load(sys.argv[1], Options.from_mapping({'device': 'rocket'}))\n"
    )
    for state in ("started", "started again"):
        died = board.python(
            "-c", worker, str(path), RK3588_SIM_BREAK=DENSE_HANGS,
            RK3588_DELEGATE_VERIFY="auto",
        )  # fmt: skip
        assert died.returncode == 9, died.stderr
        assert programs(board) == [state]
    found = run(board, str(path))
    assert found[str(path)]["delegated"] == found[str(path)]["submits"] == 0
    assert "nobody lived to see its end" in found["log"]
    done = board.python("-m", "delegate", "doctor", "--device", "rocket", "--forget", "--json")
    assert json.loads(done.stdout)["record"]["off"] == {}
    assert run(board, str(path))[str(path)]["delegated"] == 1


def test_what_was_shown_is_kept_in_the_cache_folder_that_is_chosen(board: Board, tmp_path: Path):
    board.add_rocket()
    folder = tmp_path / "chosen"
    assert run(board, "conv", cache_dir=str(folder))["conv"]["submits"] > 0
    assert len(records(board, folder)) == 1
    assert records(board) == []
    assert run(board, "conv", cache_dir=str(folder))["conv"]["submits"] == 0


@pytest.mark.parametrize("what", ["changed", "cut", "others_may_write", "link", "folder"])
def test_results_that_others_could_have_written_are_not_used(board: Board, what: str):
    board.add_rocket()
    run(board, "conv")
    (path,) = records(board)
    text = path.read_text(encoding="utf-8")
    if what == "changed":
        path.write_text(text.replace('"verified"', '"failed: no"'))
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
    assert "what boards show is not kept" in found["log"]


def test_another_board_or_driver_is_tried_anew(board: Board):
    board.add_rocket()
    run(board, "conv")
    node = board.root / "dev/accel/accel0"
    node.write_text("driver=rocket\nversion=1.0.0\n")
    assert run(board, "conv")["conv"]["submits"] == 1
    assert len(records(board)) == 2


def test_without_a_folder_every_process_tries_and_says_so(board: Board):
    board.add_rocket()
    closed = board.root / "closed"
    closed.write_text("no folder")
    found = run(board, "conv", cache_dir=str(closed / "below"))
    assert found["conv"]["submits"] > 0
    assert found["conv"]["error"] == ""
    assert "every process tries every program again" in found["log"]


def test_a_compiled_model_that_a_board_gets_wrong_is_refused(board: Board):
    board.add_rocket()
    path = board.root / "compiled.tflite"
    model = compile_ahead_of_time(MODELS["residual"](), Options())
    path.write_bytes(model.content)
    fine = run(board, str(path))[str(path)]
    assert fine["error"] == ""
    assert programs(board) == ["verified"]
    os.remove(records(board)[0])
    broken = run(board, str(path), broken=NO_ADDITION)[str(path)]
    assert "must not run on this board: " in broken["error"]
    assert "failed: " in broken["error"]
    assert "use the original model" in broken["error"]


def test_nothing_is_compared_where_there_is_no_npu(board: Board):
    run(board, "conv", device="simulator")
    assert records(board) == []
    run(board, "conv", device="null", verify="auto")
    assert records(board) == []


def command(board: Board, *arguments: str, broken: str = "") -> dict[str, Any]:
    return facts_of(board, *arguments, "-O", "verify=auto", RK3588_SIM_BREAK=broken)


def test_doctor_says_what_a_board_has_shown(board: Board, tmp_path: Path):
    board.add_rocket(hang_ms=20)
    run(board, "residual", broken=NO_ADDITION)
    report = tmp_path / "report.zip"
    arguments = ("doctor", "--device", "rocket", "--no-self-test")
    facts = command(board, *arguments, "--report", str(report))
    record = facts["record"]
    assert record["path"] == str(records(board)[0])
    assert record["off"] == off(board)
    assert record["verified"] == programs(board).count("verified") > 0
    with zipfile.ZipFile(report) as archive:
        assert json.loads(archive.read("doctor.json"))["record"] == record
    texts = [item["text"] for item in facts["findings"]]
    assert any(record["path"] in text and next(iter(record["off"])) in text for text in texts)
    assert command(board, *arguments, "--forget")["record"]["off"] == {}
    assert states(board) == {}


def test_bring_up_keeps_what_a_board_has_shown(board: Board):
    board.add_rocket(hang_ms=20)
    arguments = ("bring-up", "--device", "rocket", "-O", "timeout_ms=3000")
    found = command(board, *arguments, broken=NO_ADDITION)
    assert found["record"]["off"] == off(board) != {}
    failed = {step["name"]: step["error"] for step in found["steps"] if not step["passed"]}
    assert all("failed: " in error for error in failed.values())
    # Nothing is tried again: the board is whole meanwhile.
    again = command(board, *arguments)
    assert {step["name"] for step in again["steps"] if not step["passed"]} == failed.keys()


@pytest.mark.parametrize("kernel", ["rocket", "rknpu"])
def test_what_bring_up_proves_is_used_from_then_on(board: Board, kernel: str):
    board.add(kernel)

    def product(**more: str) -> dict[str, Any]:
        return run(board, "product", device=kernel, verify="auto", **more)["product"]

    before = product()
    assert command(board, "bring-up", "--device", kernel)["record"]["proved"]
    after = product()
    assert before["rules"] == after["rules"] == []
    assert (after["error"], after["submits"]) == ("", 1)
    assert before["submits"] == 2
    assert after["worst"] == 0
    assert product(numerics="exact")["rules"] == []
    report = command(board, "compile", str(board.root / "models/product.tflite"), "--evidence",
                     "--device", kernel)  # fmt: skip
    assert {form["ran"] for form in report["forms"]} >= {"this board"}
    # Another kernel proves nothing of this one.
    command(board, "doctor", "--device", kernel, "--forget")
    assert product()["submits"] == 2


def test_a_proof_ends_where_the_form_fails(board: Board):
    board.add_rocket()
    command(board, "bring-up", "--device", "rocket")
    broken = run(board, "product", verify="auto", broken="dense:task:zeros")["product"]
    assert broken["rules"] == ["board_is_right"]
    assert set(off(board).values()) < set(states(board).values())


def test_bring_up_without_a_board_says_so(board: Board):
    done = board.python("-m", "delegate", "bring-up", "--device", "rocket", "-O", "verify=auto")
    assert done.returncode == 1
    assert "no node of this driver" in done.stdout
    assert done.stderr == ""
