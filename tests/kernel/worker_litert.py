"""A program that LiteRT's dispatch library runs on a driver, beside the simulator."""

from typing import Any

import numpy as np

from delegate._native import Executable
from tests.hosts.litert_standin import OK, POINTER, Dispatch, Runtime, compiled_digits


def work(device: str, chip: str) -> dict[str, Any]:
    program, *_ = compiled_digits(chip)
    dispatch = Dispatch(Runtime(opaque=f"device={device}".encode()))
    assert dispatch.initialize() == OK
    status, handle = dispatch.create_device()
    assert status == OK
    assert handle
    status, invocation = dispatch.create_invocation(handle, program, 1, 1)
    is_equal = None
    if invocation:
        simulated = Executable(program, "simulator")
        (_, _, shape, kind) = simulated.inputs[0]
        picture = np.random.default_rng(5).integers(-128, 127, shape).astype(kind)
        (expected,) = simulated.run([picture])
        for side, array in (("input", picture), ("output", 0 * expected)):
            buffer = dispatch.register(handle, array)
            assert dispatch.attach(side, invocation, 0, buffer) == OK
        assert dispatch.status("invoke", POINTER(invocation)) == OK
        is_equal = dispatch.runtime.buffers[1].tobytes() == expected.tobytes()
        dispatch.status("invocation_destroy", POINTER(invocation))
    dispatch.status("device_destroy", POINTER(handle))
    return {"status": status, "equal": is_equal}
