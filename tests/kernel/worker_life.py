"""One executable's life: cycles of memory, forks, and staying alive to be killed."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from delegate import _native
from delegate.errors import DeviceError
from delegate.lower.lowered import Layer
from delegate.lower.task import BufferId, Ref
from delegate.npu.program import build_program, serialize
from tests.kernel.small_models import MODELS, programs, random_inputs
from tests.kernel.standin_calls import calls, live, set_faults, take_violations
from tests.npu.sample_programs import chain_partition
from tests.npu.sample_tasks import add_task

WARM_UP = 50


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Life:
    """A program on a device, and what it must give."""

    def __init__(self, device: str, program: bytes | None = None) -> None:
        self.device = device
        self.program = program or serialize(build_program(chain_partition(), "test"))
        simulator = _native.Executable(self.program, device="simulator")
        self.inputs = [random_inputs(simulator, seed) for seed in range(2)]
        self.expected = [simulator.run(inputs) for inputs in self.inputs]

    def load(self, device: str = "", **more: Any) -> _native.Executable:
        return _native.Executable(self.program, device=device or self.device, **more)

    def is_right(self, executable: _native.Executable, seed: int = 0) -> bool:
        return all(map(np.array_equal, executable.run(self.inputs[seed]), self.expected[seed]))

    def run(self, executable: _native.Executable) -> str:
        """Return what came of an inference: right, wrong, or the error's words."""
        try:
            return "right" if self.is_right(executable) else "wrong"
        except DeviceError as error:
            return str(error)


def cycles(own: Life, cycles: int, warm_up: int = WARM_UP) -> dict[str, Any]:
    right = True
    for cycle in range(warm_up + cycles):
        if cycle == warm_up:
            gc.collect()
            before = resident_bytes()
        right &= own.is_right(own.load())
    gc.collect()
    grown = resident_bytes() - before
    descriptors = len(os.listdir("/proc/self/fd"))
    return {"right": right, "grown": grown, "descriptors": descriptors, "live": live()}


def fork(own: Life) -> dict[str, Any]:
    executable = own.load()
    assert own.is_right(executable)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, own.run(executable).encode())
        del executable
        gc.collect()
        os.write(writer, f"|{take_violations()}".encode())
        sys.exit(0)
    os.close(writer)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    answer = os.read(reader, 1 << 16).decode()
    right = own.is_right(executable)
    del executable
    return {"child": answer, "code": code, "right": right, "live": live()}


def long(own: Life, tasks: int) -> dict[str, Any]:
    task = add_task(h=2, w=3, c=16, a=Ref(BufferId.INPUT, 0), b=Ref(BufferId.INPUT, 0))
    lowered = chain_partition()
    pitch = lowered.inputs[0].surface_stride_bytes
    many = dataclasses.replace(
        lowered,
        layers=(
            Layer("0 CONV_2D", "CONV_2D", (0,), lowered.layers[0].tasks),
            Layer("1 ADD", "ADD", (1,), (task,) * tasks + lowered.layers[1].tasks),
        ),
        sizes_bytes={**lowered.sizes_bytes, BufferId.OUTPUT: pitch},
    )
    own.program = serialize(build_program(many, "test"))
    executable = own.load(timeout_ms=60_000)
    set_faults()
    return {"right": own.is_right(executable), "submits": calls()["SUBMIT"]}


def hang(own: Life) -> None:
    executable = own.load(timeout_ms=60_000)
    set_faults("SUBMIT@1=hang:1")
    print("submitting", flush=True)
    own.is_right(executable)


def hold(own: Life) -> None:
    executable = own.load()
    print("holding", flush=True)
    time.sleep(60)
    del executable


def abandon(own: Life, submit: int, hang_ms: int) -> dict[str, Any]:
    """A job that outlasts its interpreter: nothing that it uses may be closed meanwhile."""
    executable = own.load(timeout_ms=30)
    set_faults(f"SUBMIT@{submit}=hang:0")
    text = own.run(executable)
    del executable
    kept = live()
    time.sleep(hang_ms / 1000)
    right = own.is_right(own.load())
    return {"text": text, "kept": kept, "right": right, "live": live()}


def share(own: Life, stays: bool) -> dict[str, Any]:
    """Two interpreters of one open file. One gives up a job, the other has its turn behind it."""
    other = own.load(cores="0", timeout_ms=60_000)
    executable = own.load(cores="0", timeout_ms=30)
    set_faults("SUBMIT@1=hang:0")
    text = own.run(executable)
    if not stays:
        del executable
    start = time.monotonic()
    right = own.is_right(other)
    waited_s = time.monotonic() - start
    if stays:
        right &= own.is_right(executable) and own.is_right(other)
        del executable
    del other
    return {"text": text, "right": right, "waited_s": waited_s, "live": live()}


def work(device: str, what: str, **given: Any) -> dict[str, Any] | None:
    if what == "run":
        own = Life(device)
        return {"right": own.is_right(own.load())}
    if what == "share":
        (program,) = programs(MODELS["residual"](), chip="rk3576")
        return share(Life(device, program), **given)
    ways = {"cycles": cycles, "fork": fork, "long": long, "hang": hang, "hold": hold,
            "abandon": abandon}  # fmt: skip
    return ways[what](Life(device), **given)
