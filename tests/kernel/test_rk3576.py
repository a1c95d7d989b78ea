"""The second chip on both drivers: programs for either core, one chip's programs only, evidence."""

import pytest

from delegate.chip.rk3576 import RK3576
from tests.kernel.board import Board
from tests.kernel.evidence_runs import off, programs, run
from tests.kernel.small_models import MODELS
from tests.kernel.test_commands import CLASSIFY, command, facts_of
from tests.worse import everywhere

DRIVERS = ("rocket", "rknpu")
MEETING = ("conv", "residual", "digits")


@pytest.mark.parametrize("driver", DRIVERS)
def test_models_are_compiled_for_the_board_and_give_the_simulators_bytes(board: Board, driver: str):
    """Nobody names the chip. The worker's second device is the simulator of the same one."""
    answer = board.add(driver, "rk3576").work(
        "models", device=driver, models=list(MODELS), simulator={"chip": "rk3576"}
    )
    for name, facts in answer["models"].items():
        assert facts["equal"], name
    assert sum(bool(facts["requests"][1]) for facts in answer["models"].values()) > len(MODELS) / 2


@pytest.mark.parametrize(("cores", "masks"), [("auto", {1, 2}), ("1", {2}), ("0", {1})])
def test_each_core_of_rknpu_is_handed_its_own_banks(board: Board, cores: str, masks: set[int]):
    """The stand-in objects to another core's banks, and to two jobs in the same ones."""
    board.add("rknpu", "rk3576", meet=len(masks))
    answer = board.work(
        "threads", device="rknpu", cores=cores, threads=4, invokes=6, models=MEETING, chip="rk3576"
    )
    assert answer["failures"] == []
    assert {int(mask) for mask in answer["masks"]} == masks


@pytest.mark.parametrize("cores", ["auto", "all", "0"])
def test_rocket_runs_one_job_at_a_time(board: Board, cores: str):
    """All jobs use the first core's banks, wherever the kernel lets them run."""
    board.add("rocket", "rk3576")
    answer = board.work(
        "threads", device="rocket", cores=cores, threads=4, invokes=6, models=MEETING, chip="rk3576"
    )
    assert answer["failures"] == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_for_the_second_cores_banks_is_refused(board: Board, driver: str):
    answer = board.add(driver, "rk3576").work("banks", device=driver)
    assert "takes the second core's banks" in answer["problem"]


def test_a_process_waits_for_the_turn_of_another(board: Board):
    board.add("rocket", "rk3576")
    answer = board.work("turn", device="rocket", model="residual", held_ms=300, timeout_ms=30000)
    assert answer["problem"] == ""
    assert answer["held_ms"] >= 300
    answer = board.work("turn", device="rocket", model="residual", held_ms=30000, timeout_ms=200)
    assert "one job runs at a time" in answer["problem"]


@pytest.mark.parametrize("stays", [False, True])
def test_a_turn_comes_back_with_the_job_that_its_interpreter_gave_up(board: Board, stays: bool):
    """The interpreter is deleted or stays; the file lives on, because another one shares it."""
    board.add("rocket", "rk3576", hang_ms=4000)
    answer = board.work("life", device="rocket", what="share", stays=stays)
    assert "no result after 30 ms" in answer["text"]
    assert answer["right"]
    assert 1 < answer["waited_s"] < 30


@pytest.mark.parametrize("driver", DRIVERS)
def test_dumps_replay_on_the_chip_that_they_are_for(board: Board, driver: str):
    files = {chip: board.root / chip / "partition_0.npz" for chip in ("rk3588", "rk3576")}
    for chip, path in files.items():
        done = command(board, "compile", CLASSIFY[3], "--chip", chip, "--dump", str(path.parent))
        assert done.returncode == 0, done.stderr
    words = ("replay", *map(str, files.values()), "--device", driver)
    other, own = facts_of(board.add(driver, "rk3576"), *words)["captures"]
    assert own["passed"], own["error"]
    assert "commands for chip rk3588" in other["error"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_is_tried_on_one_core_and_on_both_at_the_same_time(board: Board, driver: str):
    """Nobody has run both on a board. What was right is not tried again."""
    board.add(driver, "rk3576")
    first = run(board, "residual", device=driver, chip="rk3576")["residual"]
    assert first["error"] == ""
    assert programs(board) == ["verified"]
    assert off(board) == {}
    assert first["submits"] == 1 + RK3576.cores
    assert run(board, "residual", device=driver)["residual"]["submits"] == 0


@pytest.mark.parametrize("broken", ["zeros", "hangs"])
def test_a_form_that_the_board_gets_wrong_is_switched_off(board: Board, broken: str):
    board.add("rknpu", "rk3576", hang_ms=20)
    way = everywhere(f"ew:addition_{broken}")
    found = run(board, "residual", device="rknpu", broken=way, timeout_ms="2000")
    ((name, state),) = off(board).items()
    assert state.startswith("suspected" if broken == "hangs" else "failed")
    assert f"{name} is switched off on this board" in found["log"]
    assert found["residual"]["error"] == ""


def test_cores_that_spoil_each_other_are_found_and_one_is_enough(board: Board):
    board.add("rknpu", "rk3576", cores_clash=1)
    found = run(board, "conv", device="rknpu")
    assert "one core alone computes it: option cores=0" in found["log"]
    assert found["conv"]["delegated"] == 0
    alone = run(board, "conv", device="rknpu", cores="0")
    assert alone["conv"]["delegated"] == alone["conv"]["total"]
    assert alone["conv"]["error"] == ""


@pytest.mark.parametrize("driver", DRIVERS)
def test_bring_up_and_doctor_know_the_chip(board: Board, driver: str):
    document = facts_of(board.add(driver, "rk3576"), "bring-up", "--device", driver, code=0)
    assert document["chip"] == "rk3576"
    assert {row["here"] for row in document["forms"]} == {"agreed"}
    facts = facts_of(board, "doctor", "--device", driver)
    assert facts["self_test"]["passed"], facts["self_test"]
    assert facts["cores"]["chip"] == "rk3576"
