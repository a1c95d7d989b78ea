"""One executable's life: cycles of memory, forks, and staying alive to be killed."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import time
from pathlib import Path

import numpy as np

from delegate import _native
from delegate.errors import DeviceError
from delegate.lower.lowered import Layer
from delegate.lower.task import BufferId, Ref
from delegate.npu.program import build_program, serialize
from tests.kernel.small_models import MODELS, programs, random_inputs
from tests.kernel.standin_calls import arguments, calls, live, report, set_faults, take_violations
from tests.npu.sample_programs import chain_partition
from tests.npu.sample_tasks import add_task

WARM_UP = 50


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    given = arguments()
    program = serialize(build_program(chain_partition(), "test"))
    if given["what"] == "share":
        (program,) = programs(MODELS["residual"](), chip="rk3576")
    device = given["device"]
    inputs = random_inputs(_native.Executable(program, device="simulator"), 0)
    (expected,) = _native.Executable(program, device="simulator").run(inputs)

    def run(executable: _native.Executable) -> bool:
        return np.array_equal(executable.run(inputs)[0], expected)

    if given["what"] == "cycles":
        right = True
        warm_up = given.get("warm_up", WARM_UP)
        for cycle in range(warm_up + given["cycles"]):
            if cycle == warm_up:
                gc.collect()
                before = resident_bytes()
            right &= run(_native.Executable(program, device=device))
        gc.collect()
        grown = resident_bytes() - before
        descriptors = len(os.listdir("/proc/self/fd"))
        report({"right": right, "grown": grown, "descriptors": descriptors, "live": live()})
    elif given["what"] == "fork":
        executable = _native.Executable(program, device=device)
        assert run(executable)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                run(executable)
                text = "it ran"
            except DeviceError as error:
                text = str(error)
            os.write(writer, text.encode())
            del executable
            gc.collect()
            problems = take_violations()
            os.write(writer, f"|{problems}".encode())
            sys.exit(0)
        os.close(writer)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer = os.read(reader, 1 << 16).decode()
        right = run(executable)
        del executable
        report({"child": answer, "code": code, "right": right, "live": live()})
    elif given["what"] == "long":
        task = add_task(h=2, w=3, c=16, a=Ref(BufferId.INPUT, 0), b=Ref(BufferId.INPUT, 0))
        lowered = chain_partition()
        pitch = lowered.inputs[0].surface_stride_bytes
        many = dataclasses.replace(
            lowered,
            layers=(
                Layer("0 CONV_2D", "CONV_2D", (0,), lowered.layers[0].tasks),
                Layer("1 ADD", "ADD", (1,), (task,) * given["tasks"] + lowered.layers[1].tasks),
            ),
            sizes_bytes={**lowered.sizes_bytes, BufferId.OUTPUT: pitch},
        )
        program = serialize(build_program(many, "test"))
        executable = _native.Executable(program, device=device, timeout_ms=60_000)
        set_faults()
        right = run(executable)
        report({"right": right, "submits": calls()["SUBMIT"]})
    elif given["what"] == "run":
        report({"right": run(_native.Executable(program, device=device))})
    elif given["what"] == "hang":
        executable = _native.Executable(program, device=device, timeout_ms=60_000)
        set_faults("SUBMIT@1=hang:1")
        print("submitting", flush=True)
        run(executable)
    elif given["what"] == "abandon":
        # A job that outlasts its interpreter: nothing that it uses may be closed meanwhile.
        executable = _native.Executable(program, device=device, timeout_ms=30)
        set_faults(f"SUBMIT@{given['submit']}=hang:0")
        try:
            run(executable)
            text = "it ran"
        except DeviceError as error:
            text = str(error)
        del executable
        kept = live()
        time.sleep(given["hang_ms"] / 1000)
        executable = _native.Executable(program, device=device)
        right = run(executable)
        del executable
        report({"text": text, "kept": kept, "right": right, "live": live()})
    elif given["what"] == "share":
        # Two interpreters of one open file. One gives up a job, the other has its turn behind it.
        other = _native.Executable(program, device=device, cores="0", timeout_ms=60_000)
        executable = _native.Executable(program, device=device, cores="0", timeout_ms=30)
        set_faults("SUBMIT@1=hang:0")
        try:
            run(executable)
            text = "it ran"
        except DeviceError as error:
            text = str(error)
        if not given["stays"]:
            del executable
        start = time.monotonic()
        right = run(other)
        waited_s = time.monotonic() - start
        if given["stays"]:
            right &= run(executable) and run(other)
            del executable
        del other
        report({"text": text, "right": right, "waited_s": waited_s, "live": live()})
    else:  # hold
        executable = _native.Executable(program, device=device)
        print("holding", flush=True)
        time.sleep(60)


if __name__ == "__main__":
    main()
