"""PC of RK3576: RK3588's, but the counter of tasks has 16 bits and its state lies elsewhere."""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.register_model import Access, Certainty, bit, bits, block, reg
from delegate.chip.register_tables import pc

_OWN = block(
    pc.PC.name,
    pc.PC.target,
    pc.PC.meaning,
    reg(
        0x0030,
        "TASK_CON",
        "Number of tasks in one kick and task ping-pong.",
        bit(18, "LAST_LAYER_CLEAR", "reset the state of the last layer"),
        bit(17, "TASK_COUNT_CLEAR", "reset the task counter"),
        bit(16, "TASK_PP_EN", "prefetch the next task"),
        bits(15, 0, "TASK_NUMBER", "tasks until the completion interrupt"),
        access=Access.HOST,
        certainty=Certainty.OBSERVED,
    ),
    reg(
        0x0048,
        "TASK_STATUS",
        "Progress of the running chain.",
        bits(31, 0, "TASK_STATUS", "completed tasks"),
        access=Access.STATUS,
        certainty=Certainty.OBSERVED,
    ),
)

PC = replace(
    pc.PC,
    registers=tuple(
        sorted(
            (
                *(r for r in pc.PC.registers if r.name not in ("TASK_CON", "TASK_STATUS")),
                *_OWN.registers,
            ),
            key=lambda register: register.offset,
        )
    ),
)
