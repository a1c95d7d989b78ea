"""Holds what the cases in the guest share: the node, models, runs, children, the kernel's log.

/host is the folder that the host sees, too: ``models``, ``images``, ``compiled``; ``faults``
(tools/board/native/faults.h) makes tasks go wrong. ``BOARD_...`` variables of the host are the
guest's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import delegate
from delegate.host.runtimes import find_runtime

HOST = Path(os.environ.get("BOARD_HOST", "/host"))
DRIVER = os.environ.get("BOARD_DRIVER", "rocket")
CHIP = os.environ.get("BOARD_CHIP") or "rk3588"
NODE = {"rocket": "/dev/accel/accel0", "rknpu": "/dev/dri/renderD128"}[DRIVER]
DEVICE = os.environ.get("BOARD_DEVICE", DRIVER)
"""``simulator`` where the host computes what the guest must give."""
DIGITS = Path(__file__).resolve().parents[2] / "models/digits"
C_HOST = Path("/app/c_host/c_host")
SMALL = (
    "mobilenet_v1_0.25_128_quant", "resnet8_cifar10_int8", "anomaly_autoencoder_int8",
    "visual_wake_words_96_int8", "yolo_lc_256_person_int8",
    "mobilenet_v1_0.25_128_random_int8_per_channel",
)  # fmt: skip
COMPLAINTS = re.compile(
    r"WARNING:|BUG:|BUG at|Oops|not clean during takedown|use-after-free|KASAN|soft lockup|"
    r"Unable to handle|possible recursive locking|Unknown core mask|refcount_t"
)
"""In the kernel's log: what no use of the product may cause."""
DRIVERS_OWN = {"rknpu": re.compile(r"WARNING: kernel/dma/debug\.c:\d+ at check_sync")}
"""The messages that any use of a driver causes. The vendor's MEM_SYNC synchronises memory that the
driver mapped in the IOMMU itself, of which the DMA debugging of the kernel with KASAN knows
nothing.
"""
_TIMED_OUT = re.compile(r"job time(d out|out)")
# Of this machine, by how long it took to come here: deadlines are those of a quiet one.
SLOWNESS = max(1.0, float(Path("/proc/uptime").read_text().split()[0]) / 10)
if "BOARD_HOST" in os.environ:
    SLOWNESS = 4.0
os.environ.setdefault("RK3588_DELEGATE_DENY_OPS", "NONE")  # small models, which the CPU would keep

runtime = find_runtime()


def number(name: str, default: int) -> int:
    """A count that the user may choose."""
    return int(os.environ.get(name) or default)


def models(folder: Path = HOST) -> list[Path]:
    found = [folder / "models" / f"{name}.tflite" for name in SMALL]
    return [path for path in found if path.exists()] or [DIGITS / "digits_int8.tflite"]


def interpreter(path: Path, device: str = DEVICE, **options: str):
    if device == "simulator":
        options["chip"] = CHIP
    plugin = runtime.load_delegate(delegate.library_path(), {"device": device, **options})
    return runtime.interpreter(path.read_bytes(), [plugin])


def feed(item, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for details in item.get_input_details():
        limits = np.iinfo(details["dtype"])
        item.set_tensor(details["index"], rng.integers(
            limits.min, limits.max + 1, details["shape"], dtype=details["dtype"]))  # fmt: skip


def digest(item) -> str:
    total = hashlib.sha256()
    for details in item.get_output_details():
        total.update(item.get_tensor(details["index"]).tobytes())
    return total.hexdigest()[:16]


def invoke(item, seed: int) -> str:
    """The digest of all outputs with random inputs."""
    feed(item, seed)
    item.invoke()
    return digest(item)


def in_child(body: Callable[[], None], timeout_s: float = 300) -> tuple[int, str]:
    """Exit code and output of ``body`` in a forked child, which has all imports already."""
    output = Path(f"/tmp/child-{os.getpid()}-{time.monotonic_ns()}")
    pid = fork(body, output)
    end = time.monotonic() + timeout_s * SLOWNESS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            text = output.read_text()
            output.unlink()
            return os.waitstatus_to_exitcode(status), text
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"no end within {timeout_s} s: {output.read_text()[-500:]}")


def fork(body: Callable[[], None], output: Path) -> int:
    """The process that runs ``body`` and writes to ``output``."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    with open(output, "w") as file:
        os.dup2(file.fileno(), 1)
        try:
            body()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
    os._exit(code)


def command(*arguments: str, timeout_s: float = 300) -> tuple[int, str]:
    def body() -> None:
        from delegate.cli import main

        raise SystemExit(main(list(arguments)))

    return in_child(body, timeout_s)


def document(*arguments: str, timeout_s: float = 300) -> dict:
    code, text = command(*arguments, "--json", timeout_s=timeout_s)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise AssertionError(f"exit {code}: {text[-800:]}") from None


def c_host(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """The host in C, which has no Python."""
    return subprocess.run(
        [str(C_HOST), *arguments], capture_output=True, text=True, check=False,
        timeout=timeout_s * SLOWNESS,
    )  # fmt: skip


def set_fault(text: str) -> None:
    (HOST / "faults").write_text(text + "\n")


def kernel_timeouts() -> int:
    """Return how often a job passed the kernel's own deadline."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return len(_TIMED_OUT.findall(log))


def complaints() -> list[str]:
    """Lines of the kernel's log that no use of the product may cause."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return complaints_in(log, DRIVER)


def complaints_in(log: str, driver: str) -> list[str]:
    """Lines of ``log`` that ``driver`` does not cause by itself, either."""
    own = DRIVERS_OWN.get(driver)
    found = [line for line in log.splitlines() if COMPLAINTS.search(line)]
    return [line for line in found if own is None or not own.search(line)]
