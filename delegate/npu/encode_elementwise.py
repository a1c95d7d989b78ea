"""One element-wise task to one segment of 69 registers: the DPU alone, fed from memory."""

from __future__ import annotations

from delegate.chip.chip import Chip
from delegate.lower.task import ElementwiseTask
from delegate.npu.dpu_problems import size_problems
from delegate.npu.encode_dpu import write_dpu, write_pointers
from delegate.npu.encode_rdma import write_rdma
from delegate.npu.regcmd import RegCmdWriter, Segment

ENABLE_MASK = 0x18
"""Blocks that start: DPU and DPU_RDMA."""

INT_MASK = 0x300
"""Interrupts that mean completion: DPU, either register group."""


def encode_elementwise(chip: Chip, layer: str, task: ElementwiseTask) -> Segment:
    """The segment of ``task``. Raises EncodingError."""
    writer = RegCmdWriter(layer, task.tile)
    writer.refuse(size_problems(chip.limits, task))
    write_elementwise(writer, task)
    return writer.finish(ENABLE_MASK, INT_MASK)


def write_elementwise(writer: RegCmdWriter, task: ElementwiseTask) -> None:
    """All registers of ``task``."""
    channels, lanes = task.output.channels, task.element.lanes  # written at a time
    if channels % lanes or task.output.surfaces_per_group != 1:
        problem = f"= {channels} is not whole groups of {lanes}"
        raise writer.fail("DPU.DATA_CUBE_CHANNEL.CHANNEL", problem)
    write_pointers(writer, is_cleared=task.table is not None)
    write_dpu(writer, task)
    write_rdma(writer, task)
