"""PC of RK3576: RK3588's, but the counter of tasks has 16 bits and its state lies elsewhere."""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.register_model import Certainty, block
from delegate.chip.rk3588.registers import pc

_OWN = block(
    pc.PC.name,
    pc.PC.target,
    pc.PC.meaning,
    """
0x0030 TASK_CON (host): Number of tasks in one kick and task ping-pong.
  18 LAST_LAYER_CLEAR: reset the state of the last layer
  17 TASK_COUNT_CLEAR: reset the task counter
  16 TASK_PP_EN: prefetch the next task
  15:0 TASK_NUMBER: tasks until the completion interrupt
0x0048 TASK_STATUS (status): Progress of the running chain.
  31:0 TASK_STATUS: completed tasks
""",
    Certainty.OBSERVED,
)
_OTHERS = [r for r in pc.PC.registers if r.name not in ("TASK_CON", "TASK_STATUS")]

PC = replace(
    pc.PC, registers=tuple(sorted((*_OTHERS, *_OWN.registers), key=lambda item: item.offset))
)
