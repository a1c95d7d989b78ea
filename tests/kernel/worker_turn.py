"""One inference while another process holds the node's lock for a while, and one after it."""

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime
from tests.kernel.board import ROCKET_NODE
from tests.kernel.small_models import MODELS

# A shared lock: what asks for the node alone has to wait for it, what shares it as well would not.
_HOLD = """
import fcntl, sys, time
with open(sys.argv[1]) as node:
    fcntl.flock(node, fcntl.LOCK_SH)
    print(time.monotonic(), flush=True)
    time.sleep(float(sys.argv[2]))
"""


def work(device: str, model: str, held_ms: int, timeout_ms: int) -> dict[str, Any]:
    runtime = find_runtime()
    options = {"device": device, "timeout_ms": str(timeout_ms)}
    plugin = runtime.load_delegate(delegate.library_path(), options)
    interpreter = runtime.interpreter(MODELS[model](), [plugin])
    for details in interpreter.get_input_details():
        zeros = np.zeros(details["shape"], details["dtype"])
        interpreter.set_tensor(details["index"], zeros)
    interpreter.invoke()
    node = os.path.join(os.environ["RK3588_STANDIN_ROOT"], ROCKET_NODE)
    command = [sys.executable, "-c", _HOLD, node, str(held_ms / 1000)]
    alone = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=alone) as holder:
        assert holder.stdout is not None
        since = float(holder.stdout.readline())
        problem = ""
        try:
            interpreter.invoke()
        except RuntimeError as error:
            problem = str(error)
        waited_ms = (time.monotonic() - since) * 1000
        holder.terminate()
    interpreter.invoke()  # a turn that nobody waited for long enough is not lost
    return {"problem": problem, "held_ms": waited_ms}
