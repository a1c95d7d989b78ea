"""Estimates of what a task costs: cycles of the MAC array and bytes over the memory bus.

Estimates, not measurements. The cycle rule agrees with the vendor compiler's own table on every
int8 convolution that was compared; the bus rate is the one that table implies. Kicks,
synchronisation and layout conversion on the host are not included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES
from delegate.lower.cost import ceil_div, ddr_cycles, dense_cycles, depthwise_cycles
from delegate.lower.task import ConvTask, PoolTask, TableLoad, Task
from delegate.npu.encode_table import LOAD_WORDS

WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Estimate:
    """``cycles`` counts max(npu, ddr) per task: both overlap within a task, tasks do not."""

    npu_cycles: int
    ddr_cycles: int
    cycles: int
    bytes: int

    @property
    def limit(self) -> str:
        """Return what the work waits for: "npu" or "ddr"."""
        return "npu" if self.npu_cycles >= self.ddr_cycles else "ddr"


def estimate_task(chip: Chip, task: Task | TableLoad) -> Estimate:
    """The estimate of one task."""
    moved = _bytes_moved(task)
    npu = _npu_cycles(chip, task) if isinstance(task, ConvTask) else 0
    ddr = ddr_cycles(chip, moved)
    return Estimate(npu, ddr, max(npu, ddr), moved)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum over tasks that run one after the other."""
    items = list(estimates)
    return Estimate(
        sum(item.npu_cycles for item in items),
        sum(item.ddr_cycles for item in items),
        sum(item.cycles for item in items),
        sum(item.bytes for item in items),
    )


def _npu_cycles(chip: Chip, task: ConvTask) -> int:
    pixels = task.output.height * task.output.width
    taps = task.weights.kh * task.weights.kw
    if task.is_depthwise:
        return depthwise_cycles(chip, pixels, task.output.channels_real, taps, task.element.bytes)
    inputs = task.feature.channels_real
    return dense_cycles(chip, pixels, task.output.channels_real, inputs, taps, task.element.bytes)


def _cube_bytes(task: Task) -> int:
    """Return the bytes of the output: whole surfaces, without those that only complete a
    convolution's group.
    """
    output = task.output
    surfaces = output.surfaces
    if isinstance(task, ConvTask):
        surfaces = ceil_div(output.channels_real * output.element_bytes, ATOM_BYTES)
    return output.height * output.width * surfaces * ATOM_BYTES


def _bytes_moved(task: Task | TableLoad) -> int:
    if isinstance(task, TableLoad):  # the only task whose commands are more than its data
        return LOAD_WORDS * WORD_BYTES + 2 * ATOM_BYTES
    moved = _cube_bytes(task)
    if isinstance(task, PoolTask):
        return moved + task.height * task.width * task.output.surfaces * ATOM_BYTES
    if isinstance(task, ConvTask):
        feature = task.feature
        moved += feature.height * feature.width * feature.channels * task.element.bytes
        if not task.cbuf.weight_reuse:
            moved += task.weights.total_bytes
    else:
        moved += _cube_bytes(task)
    if task.ew is not None and task.ew.operand is not None and not task.ew.per_channel:
        moved += _cube_bytes(task)
    return moved
