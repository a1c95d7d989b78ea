"""Tests how much memory and how many threads a process with the delegate takes."""

import sys
from pathlib import Path

import pytest

from delegate.insight.process_memory import ALLOWANCE_BYTES, measure
from delegate.options import Options
from tests.processes import python
from tests.shared_folder import MODELS, needs_models

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models" / "digits" / "digits_int8.tflite"
SIMULATOR = Options.from_mapping({"numerics": "exact", "device": "simulator"}, {})

# Prints how many threads the process gains when the model runs.
THREADS = """
import os, sys
import delegate
from delegate.host.runtimes import find_runtime
runtime = find_runtime()
plugin = runtime.load_delegate(delegate.library_path(), {"device": "simulator"})
interpreter = runtime.interpreter(sys.argv[1], [plugin], threads=int(sys.argv[2]))
before = len(os.listdir("/proc/self/task"))
interpreter.invoke()
print(len(os.listdir("/proc/self/task")) - before)
"""


@needs_models
def test_a_process_stays_below_the_model_and_64_megabytes() -> None:
    if "tflite_runtime" not in sys.modules and not _has_tflite_runtime():
        pytest.skip("the limit is of tflite-runtime; others take more for themselves")
    path = MODELS / "mobilenet_v1_1.0_224_quant.tflite"
    measure(path, SIMULATOR, 1)  # the first process may have modules to compile
    use = measure(path, SIMULATOR, 1)
    assert use.peak_bytes <= path.stat().st_size + ALLOWANCE_BYTES


@needs_models
def test_what_compiling_took_is_given_back() -> None:
    """At the end a process has the device's memory (6 MB here) and the compiler's code (10 MB under
    Python 3.11, OpenSSL's for its hashes included) besides the CPU's: no arrays of compiling.
    """
    path = MODELS / "mobilenet_v1_1.0_224_quant.tflite"
    measure(path, SIMULATOR, 1)  # the first process may have to compile the modules' source
    ours, cpu = measure(path, SIMULATOR, 1), measure(path, None, 1)
    assert ours.end_bytes - cpu.end_bytes < 18_000_000


def test_what_measures_memory_loads_no_compiler() -> None:
    """The CPU's measurement would have it, too."""
    loaded = "import sys, delegate.insight.process_memory; print(*sys.modules)"
    modules = python("-c", loaded, check=True).stdout.split()
    packages = {name.split(".")[1] for name in modules if name.startswith("delegate.")}
    assert packages.isdisjoint({"compile", "lower", "npu", "ops", "partition"})


@pytest.mark.parametrize(("threads", "more"), [(1, 0), (3, 2)])
def test_the_simulator_takes_the_threads_of_the_interpreter(threads: int, more: int) -> None:
    outcome = python("-c", THREADS, DIGITS, threads, check=True)
    assert int(outcome.stdout.splitlines()[-1]) == more


def _has_tflite_runtime() -> bool:
    from delegate.host.runtimes import find_runtime

    return find_runtime().name == "tflite_runtime"
