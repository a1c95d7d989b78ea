"""One inference on several cores: the bytes of one core, and no less careful."""

from __future__ import annotations

import pytest

from tests.kernel.board import Board
from tests.kernel.small_models import MODELS
from tests.kernel.test_faults import is_repeated
from tests.kernel.test_models import KERNELS
from tests.shared_folder import MODELS as SHARED_MODELS
from tests.shared_folder import needs_models

DEVICES = ("rocket", "rknpu")


@pytest.mark.parametrize("cores", ["all", "0,2"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_split_programs_give_the_same_bytes(board: Board, kernel: str, cores: str):
    device, add = KERNELS[kernel]
    options = {"split_rows": "always", "cores": cores}
    answer = add(board).work("models", device=device, models=list(MODELS), options=options)
    workers = 3 if cores == "all" else 2
    for name, facts in answer["models"].items():
        assert facts["equal"], name
        assert facts["violations"] == [], name
        assert facts["allocations"][1:3] == [0, 0], name  # the first run may start threads
    # One submit per core and epoch; a single row is not shared.
    assert answer["models"]["conv"]["requests"][1]["SUBMIT"] == workers
    assert answer["models"]["digits"]["requests"][1]["SUBMIT"] > 2 * workers
    assert answer["models"]["fully connected"]["requests"][1]["SUBMIT"] == 1
    assert answer["live"] == [0, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_split_program_runs_on_a_single_core(board: Board, device: str):
    """Compiled for three cores, met by a device that may use one."""
    getattr(board, f"add_{device}")()
    answer = board.work("split", device=device)
    assert answer["as compiled"] == "accepted"


def test_cores_of_the_vendor_driver_are_the_chosen_ones(board: Board):
    board.add_rknpu()
    answer = board.work(
        "threads", device="rknpu", cores="0,2", threads=1, invokes=3, models=["residual"],
        split_rows="always",
    )  # fmt: skip
    assert answer["failures"] == []
    assert set(answer["masks"]) == {"1", "4"}


@pytest.mark.parametrize("device", DEVICES)
def test_threads_with_split_programs(board: Board, device: str):
    board.add_rocket().add_rknpu()
    answer = board.work(
        "threads", device=device, cores="all", threads=4, invokes=8,
        models=["conv", "depthwise", "residual", "digits"], split_rows="always", timeout=600,
    )  # fmt: skip
    assert answer["failures"] == []
    assert answer["violations"] == []


@pytest.mark.parametrize("device", DEVICES)
def test_jobs_that_depend_on_each_other_are_refused(board: Board, device: str):
    """A file may claim that jobs are independent; that is checked, not believed."""
    getattr(board, f"add_{device}")()
    answer = board.work("split", device=device)
    assert answer["one by one"] == "accepted"
    refused = [text for text in answer["dependent"] if text != "accepted"]
    assert refused
    assert len(refused) < len(answer["dependent"])  # those that share an epoch as compiled
    for text in refused:
        assert "touches what another job of its epoch writes" in text
        assert text.endswith("SUBMITS 0")
    assert answer["live"] == [0, 0, 0]
    assert answer["violations"] == []


@pytest.mark.parametrize("device", DEVICES)
def test_every_fault_of_a_split_run_ends_well(board: Board, device: str):
    getattr(board, f"add_{device}")(hang_ms=40)
    results = board.work("faults", device=device, split=True, timeout=600)
    assert len(results) > 300
    releasing = ("GEM_CLOSE", "MEM_DESTROY")
    for result in results:
        place = f"{result['call']}@{result['site']}={result['action']}"
        harmless = result["action"] in ("EINTR", "EAGAIN", "slow:20")
        is_unfinished = result["call"] == "PREP_BO" and result["action"] == "EBUSY"
        right = harmless or is_unfinished or result["call"] in releasing
        right = right or not result["met"]  # at the end of life, with all results in hand
        if is_repeated(result):
            assert result["outcome"] in ("right results", "error"), place
        else:
            assert result["outcome"] == ("right results" if right else "error"), place
        assert result["recovered"], (place, result["text"])
        assert result["live"] == [0, 0, 0], place
        assert result["violations"] == [] or result["call"] in releasing, (
            place, result["violations"],
        )  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_child_of_a_split_run_is_told(board: Board, device: str):
    board.add_rocket().add_rknpu()
    answer = board.work("life", device=device, what="fork", split=True)
    assert "forked" in answer["child"]
    assert answer["code"] == 0
    assert answer["right"]
    assert answer["live"] == [0, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_memory_of_split_runs_stays_flat(board: Board, device: str):
    board.add_rocket().add_rknpu()
    answer = board.work("life", device=device, what="cycles", cycles=200, split=True)
    assert answer["right"]
    assert answer["violations"] == []
    assert answer["live"] == [0, 0, 0]
    assert answer["grown"] < 1 << 20


@needs_models
@pytest.mark.parametrize("device", DEVICES)
def test_split_real_models_give_the_same_bytes(board: Board, device: str):
    getattr(board, f"add_{device}")()
    names = ("resnet8_cifar10_int8", "mobilenet_v1_0.25_128_quant")
    models = [str(SHARED_MODELS / f"{name}.tflite") for name in names]
    options = {"split_rows": "always"}
    answer = board.work("models", device=device, models=models, options=options, invokes=2)
    for name, facts in answer["models"].items():
        assert facts["equal"], name
        assert facts["violations"] == [], name
        assert facts["requests"][1]["SUBMIT"] > 3, name
    assert answer["live"] == [0, 0, 0]
