"""The same numbers with any number of workers, here or on a cluster, and when one is killed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MODEL
from tests.shared_folder import MODELS, SHARED, needs_models

ROOT = Path(__file__).resolve().parents[2]
PHOTOGRAPHS = SHARED / "images"
PATIENCE_S = 120.0

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask distributed is not installed"
)

pytestmark = needs_models

# A classifier over 40 photographs and a detector over 12, for every way to run them.
CASES = {
    "classify": (PHOTOGRAPHS / "imagenet", MODELS / "mobilenet_v1_0.25_128_quant.tflite", 40),
    "detect": (PHOTOGRAPHS / "coco", MODELS / "yolox_nano_320_int8_per_channel.tflite", 12),
}


def command(case: str, *more: object) -> list[str]:
    folder, model, limit = CASES[case]
    arguments = ["evaluate", folder, "--model", model, "--limit", limit, "--json", *more]
    return [sys.executable, "-m", "delegate", *(str(a) for a in arguments)]


def evaluated(case: str, *more: object, during: Callable[[int], None] | None = None) -> Any:
    process = subprocess.Popen(
        command(case, *more), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if during is not None:
        during(process.pid)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return json.loads(out)


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def spawned_workers(pid: int) -> list[int]:
    def is_worker(child: int) -> bool:
        try:
            return b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            return False

    return [child for child in children(pid) if is_worker(child)]


@pytest.fixture(scope="module")
def alone() -> Callable[[str], Any]:
    """Return what one process finds, computed once per case."""
    known: dict[str, Any] = {}

    def expected(case: str) -> Any:
        if case not in known:
            known[case] = evaluated(case)
        return known[case]

    return expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("jobs", [2, 4])
def test_processes_change_nothing(case: str, jobs: int, alone: Callable[[str], Any]) -> None:
    assert evaluated(case, "--jobs", jobs) == alone(case)


def test_a_killed_process_loses_nothing(tmp_path: Path, alone: Callable[[str], Any]) -> None:
    state = tmp_path / "state.jsonl"
    killed: list[int] = []

    def kill_one(pid: int) -> None:
        wait_until(lambda: lines_in(state) >= 3 and bool(spawned_workers(pid)))
        victim = spawned_workers(pid)[0]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    result = evaluated("classify", "--jobs", 2, "--state", state, during=kill_one)
    assert killed
    assert result == alone("classify")


def test_an_interrupted_evaluation_goes_on(tmp_path: Path, alone: Callable[[str], Any]) -> None:
    state = tmp_path / "state.jsonl"
    process = subprocess.Popen(
        command("classify", "--state", state), cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: lines_in(state) >= 5 or process.poll() is not None)
    process.kill()
    process.wait()
    done = lines_in(state)
    assert evaluated("classify", "--state", state) == alone("classify")
    assert 5 <= done <= lines_in(state) == 1 + CASES["classify"][2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.evaluation.cluster"], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=PATIENCE_S)
    assert process.stdout is not None
    process.stdout.close()


@needs_dask
def test_a_cluster_with_a_killed_worker_changes_nothing(
    tmp_path: Path, cluster: subprocess.Popen[str], alone: Callable[[str], Any]
) -> None:
    assert cluster.stdout is not None
    address = cluster.stdout.readline().strip()
    assert address.startswith("tcp://")
    assert evaluated("detect", "--scheduler", address) == alone("detect")
    state = tmp_path / "state.jsonl"

    def kill_one(pid: int) -> None:
        wait_until(lambda: lines_in(state) >= 2)
        assert cluster.stdin is not None
        cluster.stdin.write("kill\n")
        cluster.stdin.flush()

    result = evaluated("classify", "--scheduler", address, "--state", state, during=kill_one)
    assert int(cluster.stdout.readline()) > 1
    assert result == alone("classify")


@needs_dask
def test_no_scheduler_is_one_line() -> None:
    folder, _, _ = CASES["classify"]
    outcome = subprocess.run(
        [sys.executable, "-m", "delegate", "evaluate", str(folder), "--model", str(MODEL),
         "--limit", "1", "--scheduler", "nonsense"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert outcome.returncode == 1
    assert "Dask" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
