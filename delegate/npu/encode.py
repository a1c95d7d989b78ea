"""Tasks of integers in, segments of register commands out.

Every segment carries the full register set: nothing is inherited from earlier tasks, so that the
same bytes serve a device that starts each task on its own and one that runs the whole chain.
Refuses what no known program does (EncodingError); never guesses a register value.
"""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.lower.task import ConvTask, PoolTask, TableLoad, Task
from delegate.npu.encode_conv import encode_conv
from delegate.npu.encode_elementwise import encode_elementwise
from delegate.npu.encode_pool import encode_pool
from delegate.npu.encode_table import encode_load
from delegate.npu.regcmd import Segment


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """The segment of one task. ``layer`` names it in errors. Raises EncodingError."""
    if chip.forms.operand_blocks:
        from delegate.npu import encode_rk3576

        return encode_rk3576.encode_task(chip, layer, task)
    if isinstance(task, ConvTask):
        return encode_conv(chip, layer, task)
    if isinstance(task, TableLoad):
        return encode_load(layer, task)
    if isinstance(task, PoolTask):
        return encode_pool(chip, layer, task)
    return encode_elementwise(chip, layer, task)
