"""Models on both kernel drivers: the same bytes as on the simulator, and no request too many."""

import pytest

from delegate.compile.compiler import compile_model
from delegate.options import Options
from tests.kernel.board import Board
from tests.kernel.small_models import MODELS
from tests.shared_folder import model_files, needs_models

# How the kernel runs a program: a kick per task, one per chain, the vendor's task table.
KERNELS = {
    "stock": ("rocket", lambda board: board.add_rocket()),
    "batched": ("rocket", lambda board: board.add_rocket(version="1.1.0", batch_switch=1)),
    "chain": ("rknpu", lambda board: board.add_rknpu()),
}
# What one invoke of one partition asks of the kernel, once the first one is over.
REQUESTS = {
    "rocket": {"FINI_BO": 2, "SUBMIT": 1, "PREP_BO": 1},
    "rknpu": {"MEM_SYNC": 5, "SUBMIT": 1},  # input, result, and three of the mark's cache line
}
# Models with more jobs than one in a partition: all that the last task of "parts" writes an earlier
# one writes as well, so that no mark in it could tell a job that was cut short.
JOBS = {"parts": 2}
# What a further job asks: besides its own requests the mark is put and looked at in between.
FURTHER_JOB = {
    "rocket": {"FINI_BO": 1, "SUBMIT": 1, "PREP_BO": 1},
    "rknpu": {"MEM_SYNC": 3, "SUBMIT": 1},
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_small_models_give_the_same_bytes_with_no_request_too_many(board: Board, kernel: str):
    device, add = KERNELS[kernel]
    exact = {"numerics": "exact"}
    answer = add(board).work("models", device=device, models=list(MODELS), options=exact)
    for name, facts in answer["models"].items():
        assert facts["equal"], name
        partitions = len(compile_model(MODELS[name](), Options(numerics="exact")).partitions)
        expected = {
            call: count * partitions + FURTHER_JOB[device][call] * (JOBS.get(name, 1) - 1)
            for call, count in REQUESTS[device].items()
        }
        assert facts["requests"][1:3] == [expected] * 2, name
        # No memory: neither of the device (no CREATE_BO, no MEM_CREATE above) nor of the process.
        assert facts["allocations"][1:3] == [0, 0], name
        assert facts["requests"][3:] == [{}] * 3, name  # the simulator asks nobody


@pytest.mark.parametrize("kernel", KERNELS)
def test_functions_and_sums_in_the_tasks_of_convolutions_give_the_same_bytes(
    board: Board, kernel: str
):
    device, add = KERNELS[kernel]
    fast = {"numerics": "auto"}
    joined = {}
    for name, model in MODELS.items():
        partitions = compile_model(model(), Options.from_mapping(fast, {})).partitions
        layers = [layer for partition in partitions for layer in partition.layers]
        if any(layer.difference is not None for layer in layers):
            joined[name] = len(partitions)
    assert "functions" in joined
    answer = add(board).work("models", device=device, models=list(joined), options=fast)
    for name, facts in answer["models"].items():
        assert facts["equal"], name
        expected = {call: count * joined[name] for call, count in REQUESTS[device].items()}
        assert facts["requests"][1:3] == [expected] * 2, name


@needs_models
@pytest.mark.parametrize(
    ("kernel", "numerics"), [("stock", "auto"), ("batched", "exact"), ("chain", "auto")]
)
def test_real_models_give_the_same_bytes(board: Board, kernel: str, numerics: str):
    check_real_models(board, kernel, numerics, 700_000)


@needs_models
@pytest.mark.exhaustive
@pytest.mark.parametrize("numerics", ["exact", "auto"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_all_real_models_give_the_same_bytes(board: Board, kernel: str, numerics: str):
    check_real_models(board, kernel, numerics, 1 << 30)


def check_real_models(board: Board, kernel: str, numerics: str, most_bytes: int):
    device, add = KERNELS[kernel]
    models = [str(path) for path in model_files(".") if path.stat().st_size <= most_bytes]
    assert models
    given = {"numerics": numerics}
    answer = add(board).work(
        "models", device=device, models=models, options=given, invokes=1, timeout=1200
    )
    for name, facts in answer["models"].items():
        assert facts["equal"], name


def test_every_version_of_the_vendor_driver(board: Board):
    board.add_rknpu()
    node = board.root / "dev/dri/renderD128"
    for version in ("0.8.0", "0.8.8", "0.9.2", "0.9.6", "0.9.8"):
        node.write_text(f"driver=rknpu\nversion={version}\n")
        facts = board.work("models", device="rknpu", models=["residual"])["models"]["residual"]
        assert facts["equal"], version


@pytest.mark.parametrize(
    ("version", "switch"), [("0.0.0", 1), ("1.0.0", 1), ("1.1.0", 0), ("1.1.0", None)]
)
def test_one_kick_per_task_unless_the_driver_offers_more(board: Board, version, switch):
    """A driver that ignores the flag would leave a chain after its first task."""
    board.add_rocket(version=version, batch_switch=switch)
    facts = board.work("models", device="rocket", models=["residual"])["models"]["residual"]
    assert facts["equal"]
