"""Threads, cores, memory, processes: many users of one NPU, and users that die."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.kernel.board import ROOT, Board
from tests.kernel.small_models import MODELS

DEVICES = ("rocket", "rknpu")
THREADS = 8
# 500 each before a release: KERNEL_TEST_INVOKES=500 pytest tests/kernel/test_life.py -k threads
INVOKES = int(os.environ.get("KERNEL_TEST_INVOKES", "6"))
CYCLES = int(os.environ.get("KERNEL_TEST_CYCLES", "300"))
MAX_GROWTH_BYTES = CYCLES << 10


def both(board: Board, **more: object) -> Board:
    return board.add_rocket(**more).add_rknpu(**more)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cores", ["auto", "all", "1,2"])
def test_threads_with_their_own_interpreters_get_the_results_of_one(board, device, cores):
    models = [name for name in MODELS if name != "tiled conv"]
    # Any core that is free, three jobs at a time; of a list each interpreter has one.
    meet = 3 if cores == "auto" else 1
    answer = both(board, meet=meet).work(
        "threads", device=device, cores=cores, threads=THREADS, invokes=INVOKES, models=models,
        timeout=3600,
    )  # fmt: skip
    assert answer["failures"] == []
    if device == "rocket":
        # One file per interpreter, or as many as cores were asked for.
        limit = {"auto": THREADS * len(models), "all": 3, "1,2": 2}[cores]
        assert answer["files"] == limit
    else:
        # Never the driver's choice.
        masks = {"1", "2", "4"} if cores != "1,2" else {"2", "4"}
        assert set(answer["masks"]) == masks


@pytest.mark.parametrize("device", DEVICES)
def test_memory_stays_flat(board, device):
    answer = both(board).work("life", device=device, what="cycles", cycles=CYCLES)
    assert answer["right"]
    assert answer["grown"] < MAX_GROWTH_BYTES
    assert answer["descriptors"] < 20


@pytest.mark.parametrize("release_ms", [0, 60, 300])
def test_files_are_closed_when_the_driver_has_let_go(board, release_ms):
    """However late its work item comes."""
    board.add_rocket(release_ms=release_ms)
    answer = board.work("life", device="rocket", what="cycles", cycles=3, warm_up=1)
    assert answer["right"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_child_is_told_and_does_not_disturb_its_parent(board, device):
    answer = both(board).work("life", device=device, what="fork")
    text, _, problems = answer["child"].partition("|")
    assert "forked" in text
    assert "spawn" in text
    assert problems == "[]"
    assert answer["code"] == 0
    assert answer["right"]


@pytest.mark.parametrize(
    ("device", "version", "submits"), [("rknpu", "0.9.8", 2), ("rocket", "1.1.0", 1)]
)
def test_chains_longer_than_the_task_counter(board, device, version, submits):
    """rknpu: two kicks. Rocket: one kick per task, since a chain may have 4,095."""
    if device == "rocket":
        board.add_rocket(version=version, batch_switch=1)
    else:
        board.add_rknpu(version=version)
    answer = board.work("life", device=device, what="long", tasks=4200)
    assert answer == {"right": True, "submits": submits}


SPAWN = """
import multiprocessing as mp
from delegate import _native
def child(queue, device):
    queue.put(_native.open_device_name(device))
if __name__ == "__main__":
    import sys
    context = mp.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=child, args=(queue, sys.argv[1]))
    worker.start()
    print(queue.get(timeout=60))
    worker.join()
"""


@pytest.mark.parametrize("device", DEVICES)
def test_a_spawned_child_opens_its_own(board, device, tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    done = both(board).python(str(script), device)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(device)


@contextlib.contextmanager
def alive(board: Board, device: str, what: str) -> Iterator[None]:
    """A process that uses the device, killed at the end."""
    arguments = json.dumps({"device": device, "what": what})
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kernel.work", "life", arguments],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env=board.environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().strip() in ("submitting", "holding")
        try:
            yield
        finally:
            process.kill()


def running(board: Board, device: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Another process, which may not be let in."""
    given = json.dumps({"device": device, "what": "run"})
    return board.python("-m", "tests.kernel.work", "life", given, **more)


@pytest.mark.parametrize("device", DEVICES)
def test_a_process_killed_in_mid_submit_leaves_nothing_behind(board, device):
    both(board, hang_ms=30_000)
    before = {path for path in board.root.rglob("*") if path.is_file()}
    with alive(board, device, "hang"):
        pass
    assert board.work("life", device=device, what="run") == {"right": True}
    assert {path for path in board.root.rglob("*") if path.is_file()} == before


def test_a_file_outlives_a_job_that_hangs(board):
    """Also of a worker that is late while another one has failed. Closed once the job has ended."""
    hang_ms = 6000  # longer than an error and the end of an interpreter wait
    answer = board.add_rocket(hang_ms=hang_ms).work(
        "life", device="rocket", what="abandon", submit=1, hang_ms=hang_ms
    )
    assert "no result after 30 ms" in answer["text"]
    files, buffers, mappings = answer["kept"]
    assert files >= 1
    assert buffers > 0
    assert mappings == 0
    assert answer["right"]


def test_a_wait_that_is_told_busy_goes_on(board):
    """EBUSY: the deadline had passed when the driver looked. Any other time it is not done yet."""
    done = running(board.add_rocket(), "rocket", faults="PREP_BO@1=EBUSY*3")
    assert json.loads(done.stdout) == {"right": True, "violations": []}


def test_two_processes_never_drive_the_vendor_kernel_at_once(board):
    both(board)
    with alive(board, "rknpu", "hold"):
        assert "another process uses the NPU" in running(board, "rknpu").stderr
        # The mainline kernel takes any number.
        assert board.work("life", device="rocket", what="run") == {"right": True}
    assert board.work("life", device="rknpu", what="run") == {"right": True}


def test_two_processes_without_sysfs_share_the_lock_of_the_node(board):
    """As in some containers: the device's folder, which both of its nodes share, is not there."""
    board.add_rknpu()
    shutil.rmtree(board.root / "sys")
    with alive(board, "rknpu", "hold"):
        assert "another process uses the NPU" in running(board, "rknpu").stderr
