"""Processes that end while a daemon thread is in the library."""

import pytest

from tests.processes import python

SCRIPT = """
import sys, threading, time
from pathlib import Path
import delegate
from delegate import _native
from delegate.npu.program import build_program, serialize
from tests.kernel.small_models import random_inputs
from tests.npu.sample_programs import chain_partition
from delegate.host.runtimes import find_runtime
runtime = find_runtime()
content = Path("models/digits/digits_int8.tflite").read_bytes()
def load():
    plugin = runtime.load_delegate(delegate.library_path(), {"device": "simulator"})
    return runtime.interpreter(content, [plugin])
load()
executable = _native.Executable(
    serialize(build_program(chain_partition(), "test")), device="simulator"
)
inputs = random_inputs(executable, 0)
def forever():
    while True:
        WHAT
threading.Thread(target=forever, daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("what", ["load()", "executable.run(inputs)"])
@pytest.mark.parametrize("delay_s", [0.3, 0.47])
def test_python_ends_while_a_daemon_thread_is_busy(what: str, delay_s: float):
    """Python ends such a thread where it next wants the lock, and nothing may come of that."""
    done = python("-c", SCRIPT.replace("WHAT", what), delay_s)
    assert done.returncode == 0, done.stderr[-2000:]
