"""Ctrl-C at random moments of every long command: one line, exit code 130, nobody left."""

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rk3588_conformance.builder import conv_model
from tests.processes import python
from tests.shared_folder import MODELS

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "digits" / "digits_int8.tflite"
IMAGES = ROOT / "models" / "digits" / "images"

LINE = "rk3588-delegate: error: interrupted"
MOMENTS = int(os.environ.get("RK3588_TEST_INTERRUPTIONS", "2"))
"""The moments at which each command is interrupted; more find more."""
PATIENCE_S = 60

COMMANDS = {
    "compile": "compile {model}",
    "compile_large": "compile {large}",
    "load_large": "compare {large} --random 1",
    "compare": "compare {model} --random 200 --per-op",
    "compare_jobs": "compare {model} --random 200 --jobs 2",
    "classify": "classify {images} --model {model}",
    "evaluate": "evaluate {images} --model {model} --truth {truth}",
    "evaluate_jobs": "evaluate {images} --model {model} --truth {truth} --jobs 2",
    "bench": "bench {model} --runs 2000",
    "trace": "trace {model} -o {out}/t.json",
    "replay": "replay {capture} {capture} {capture} {capture}",
    "conformance": "conformance --sample 300",
    "conformance_jobs": "conformance --sample 300 --jobs 2",
    "doctor": "doctor",
}


NOTES = {
    "bench": "rk3588-delegate: note: measured on the simulator: these times say nothing about an "
    "NPU, the estimates do"
}
"""The line that a command writes to stderr when nobody interrupts it."""
if not MODELS.is_dir():
    NO_FILES = (
        "rk3588-delegate: note: no folder of public models (--models): the tests of files are not "
        "in the suite"
    )
    NOTES |= {"conformance": NO_FILES, "conformance_jobs": NO_FILES}


RUNTIMES_LINE = "INFO: Created TensorFlow Lite XNNPACK delegate for CPU."
"""A line of ai-edge-litert itself for every interpreter; tflite-runtime is silent."""


def ours(text: str) -> list[str]:
    """The lines of ``text`` but those of the runtime."""
    return [line for line in text.splitlines() if line != RUNTIMES_LINE]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("interruption")
    large = folder / "large.tflite"
    large.write_bytes(conv_model(np.random.default_rng(1), 96, 96, 64, 512, 3, 3))
    truth = folder / "truth.csv"
    truth.write_text("".join(f"{p.name},{i}\n" for i, p in enumerate(sorted(IMAGES.iterdir()))))
    dump = folder / "dump"
    command = [sys.executable, "-m", "delegate", "compile", str(MODEL), "--dump", str(dump)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    capture = next(dump.glob("*.npz"))
    return {
        "model": str(MODEL), "large": str(large), "images": str(IMAGES), "truth": str(truth),
        "capture": str(capture), "out": str(folder),
    }  # fmt: skip


@pytest.fixture(autouse=True)
def commands_hear_of_ctrl_c():
    """Let children hear the signal: a shell that runs tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def is_alive(group: int) -> bool:
    """Return whether the group has a process that is no zombie."""
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def interrupted(command: list[str], delay_s: float, *, whole_group: bool) -> tuple[int, str, float]:
    """Exit code, stderr, and seconds from the signal to the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "delegate", *command], cwd=ROOT, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        while threads(process.pid) == 1 and process.poll() is None:
            time.sleep(0.002)  # Python itself is starting
        time.sleep(delay_s)
        sent = time.monotonic()
        if whole_group:  # as a terminal does
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        took = time.monotonic() - sent
        end = time.monotonic() + 10
        while is_alive(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        assert not is_alive(process.pid), "somebody is left"
        return process.returncode, err, took
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_at_random_moments(name: str, places: dict[str, str]) -> None:
    rng = random.Random(f"{name} {MOMENTS}")
    command = [word.format(**places) for word in COMMANDS[name].split()]
    hits = 0
    for moment in range(MOMENTS):
        delay_s = rng.choice([0.0, rng.uniform(0, 0.3), rng.uniform(0, 1.5)])
        if moment == MOMENTS - 1 and not hits:
            delay_s = 0.0  # nothing is done by then
        code, err, took = interrupted(command, delay_s, whole_group=moment % 2 == 0)
        lines = ours(err)
        if lines[:1] == [NOTES.get(name)]:
            lines = lines[1:]
        if (code, lines) == (0, []):  # done before
            continue
        assert (code, lines) == (130, [LINE]), (delay_s, code, err)
        assert took < 30
        hits += 1
    assert hits, "every one was done before the signal came"


def workers_of(pid: int) -> list[int]:
    """Processes started to work for it, from the moment on at which they exist."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


@pytest.mark.parametrize("name", ["compare_jobs", "conformance_jobs"])
def test_processes_of_a_command_do_not_know_ctrl_c(name: str, places: dict[str, str]) -> None:
    """SIGINT to each of them from its first moment on, and none to the command: all goes on."""
    text = COMMANDS[name].replace("--sample 300", "--sample 12 --gtest_filter=AddQuant.Op/*")
    words = text.replace("--random 200", "--random 20").format(**places).split()
    process = subprocess.Popen(
        [sys.executable, "-m", "delegate", *words], cwd=ROOT, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    signalled: collections.Counter[int] = collections.Counter()
    try:
        end = time.monotonic() + 3 * PATIENCE_S  # three Pythons start, and each is interrupted
        while process.poll() is None:
            assert time.monotonic() < end
            for worker in workers_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGINT)
                    signalled[worker] += 1
            time.sleep(0.001)
        assert process.stderr is not None
        said = [line for line in ours(process.stderr.read()) if line != NOTES.get(name)]
        lines = [line for line in said if not line.endswith("%")]  # progress, on a slow machine
        assert (process.returncode, lines) == (0, [])
        # Two workers, what Python starts beside them, and compare's look at the runtime's kernels.
        assert len(signalled) == (4 if name == "compare_jobs" else 3)
        assert min(signalled.values()) > 10
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


TWICE = """
import os, signal, sys, time, warnings
from delegate.host import interruption

def say():
    sys.stderr.write("interrupted\\n")

def signal_first():
    interruption._interrupt_again = again
    os.kill(os.getpid(), signal.SIGINT)
    again()

interruption.install(say)
again, interruption._interrupt_again = interruption._interrupt_again, signal_first

class Item:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

try:
    Item()
    time.sleep(20)
except KeyboardInterrupt:
    warnings.warn("a module could not be imported", RuntimeWarning)
    interruption.end(say)
"""


def test_ctrl_c_while_python_tells_of_an_earlier_one() -> None:
    """A destructor is interrupted, and so is the hook that Python calls then; a module warns."""
    done = python("-c", TWICE, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
