"""Tasks that rely on earlier tasks' registers: harmless, too large, in a chain cut in two."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from delegate import _native
from delegate.chip.rk3588.registers import REGISTERS
from delegate.insight.program_capture import capture_of_program
from delegate.npu.program import build_program, serialize
from tests.kernel.small_models import random_inputs
from tests.kernel.standin_calls import live
from tests.kernel.worker_fuzz import run_capture
from tests.npu.sample_programs import chain_partition

TAIL_WORDS = 4
CHANNELS = ("DPU.DATA_CUBE_CHANNEL", "DPU.WDMA_SIZE_0", "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL")


def work(device: str) -> dict[str, Any]:
    program = build_program(chain_partition(), "test")
    simulated = _native.Executable(serialize(program), device="simulator")
    inputs = random_inputs(simulated, 0)
    capture = capture_of_program(program, inputs, simulated.run(inputs), "test")
    words = capture.contents["regcmd"].copy().view(np.uint64)
    answer = {"whole": run_capture(capture, device)}

    def first_word(task: int) -> int:
        return program.tasks[task].regcmd_offset // 8

    last = program.tasks[-1]
    start = first_word(len(program.tasks) - 1)
    body = words[start : start + last.regcmd_count - TAIL_WORDS]

    def leave_out(*names: str) -> None:
        """Without them the task uses what the one two before it wrote in the same group."""
        for name in names:
            register = REGISTERS.by_name[name]
            is_register = (body >> np.uint64(48) == register.target) & (
                body & np.uint64(0xFFFF) == register.offset
            )
            assert is_register.any()
            body[is_register] = 0

    def outcome() -> str:
        contents = {**capture.contents, "regcmd": words.view(np.uint8)}
        return run_capture(dataclasses.replace(capture, contents=contents), device)

    complete = body.copy()
    # The first task's 32 channels instead of 16: two surfaces, where OUTPUT has one.
    leave_out(*CHANNELS)
    answer["inherits too much"] = outcome()
    body[:] = complete
    leave_out("DPU.BS_MUL_CFG")
    answer["inherits"] = outcome()
    before = program.tasks[-2]
    tail = first_word(len(program.tasks) - 2) + before.regcmd_count - TAIL_WORDS
    words[tail] = 0
    words[tail + 1] &= np.uint64(0xFFFF_0000_0000_FFFF)
    answer["inherits across kicks"] = outcome()
    return {**answer, "live": live()}
