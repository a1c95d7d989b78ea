"""Estimates of what a task costs: cycles of the MAC array and bytes over the memory bus.

Estimates, not measurements. The cycle rule agrees with the vendor compiler's own table on every
int8 convolution that was compared; the bus rate is the one that table implies. Kicks,
synchronisation and layout conversion on the host are not included.

How long programs take on a board, from the best to the worst that sources say.

Takes what the tasks need (cycles, bytes), the driver that runs them and the clock of the NPU; gives
microseconds. Estimates: nothing here was measured on silicon by this project. At best memory gives
its documented peak and a task of the DPU alone waits for memory only; at worst cores get from
memory what others measured at least, and the DPU alone takes as long as behind the MAC array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delegate.chip.chip import Chip, Driver, Span
from delegate.chip.element import ATOM_BYTES
from delegate.lower.lowered import Layer
from delegate.lower.task import ConvTask, ElementwiseTask, PoolTask, TableLoad, Task
from delegate.lower.tiling.geometry import ceil_div, ddr_cycles, dense_cycles, depthwise_cycles
from delegate.npu.program_types import WORD_BYTES, Estimate
from delegate.npu.rk3588.encoder import LOAD_WORDS, TABLE_WORDS


def estimate_task(chip: Chip, task: Task | TableLoad) -> Estimate:
    """Return the estimate of one task."""
    moved, npu = _bytes_moved(task), 0
    if isinstance(task, ConvTask):
        pixels, outputs = task.output.height * task.output.width, task.output.channels_real
        taps, size = task.weights.kh * task.weights.kw, task.element.bytes
        if task.is_depthwise:
            npu = depthwise_cycles(chip, pixels, outputs, taps, size)
        else:
            npu = dense_cycles(chip, pixels, outputs, task.feature.channels_real, taps, size)
    ddr = ddr_cycles(chip, moved)
    return Estimate(npu, ddr, max(npu, ddr), moved)


def _bytes_moved(task: Task | TableLoad) -> int:
    if isinstance(task, TableLoad):  # the only task whose commands are more than its data
        return LOAD_WORDS * WORD_BYTES + 2 * ATOM_BYTES
    output, surfaces = task.output, task.output.surfaces
    if isinstance(task, ConvTask):  # without those that only complete a group
        surfaces = ceil_div(output.channels_real * output.element_bytes, ATOM_BYTES)
    moved = cube_bytes = output.height * output.width * surfaces * ATOM_BYTES
    if isinstance(task, PoolTask):
        return moved + task.height * task.width * surfaces * ATOM_BYTES
    if isinstance(task, ConvTask):
        feature = task.feature
        moved += feature.height * feature.width * feature.channels * task.element.bytes
        if not task.weight_reuse:
            moved += task.weights.total_bytes
    else:
        moved += cube_bytes
    if task.table is not None and task.table.is_loaded_here:
        moved += TABLE_WORDS * WORD_BYTES
    if task.ew is not None and task.ew.operand is not None and not task.ew.per_channel:
        moved += cube_bytes
    return moved


_DECIBYTES = 10


@dataclass(frozen=True, slots=True)
class TaskWork:
    """The work of a task: cycles of the MAC array, of the DPU where that works alone, and bytes."""

    npu_cycles: int
    dpu_cycles: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a program. ``command_bytes``: of all tasks, fetched before each of them."""

    tasks: tuple[TaskWork, ...]
    command_bytes: int


@dataclass(frozen=True, slots=True)
class Duration:
    """Microseconds: ``work`` of the tasks, ``launches`` of them, ``submits`` of their programs."""

    work: Span
    launches: Span
    submits: Span

    @property
    def total(self) -> Span:
        return self.work + self.launches + self.submits


def work_of(chip: Chip, layers: Sequence[Layer], count: int, command_bytes: int) -> Work:
    """Return what a program of ``count`` tasks, made of ``layers``, needs. Loads of tables belong
    to no layer: their tables are commands, and each copies one atom.
    """
    tasks = work_of_tasks(chip, [task for layer in layers for task in layer.tasks]).tasks
    loads = [TaskWork(0, 0, 2 * chip.atom_bytes)] * (count - len(tasks))
    return Work((*tasks, *loads), command_bytes)


def work_of_tasks(chip: Chip, tasks: Iterable[Task]) -> Work:
    """Return what ``tasks`` need, but for their commands."""
    found = []
    for task in tasks:
        estimate, output, dpu = estimate_task(chip, task), task.output, 0
        if isinstance(task, ElementwiseTask):  # of the PPU nobody has published a rate: bytes alone
            # The vendor's table gives a convolution of one step a floor, 8 elements per cycle of
            # int8 and of fp16: what the DPU behind it takes, by inference.
            pixels, size = output.height * output.width, output.element_bytes
            dpu = dense_cycles(chip, pixels, output.channels_real, 1, 1, size)
        found.append(TaskWork(estimate.npu_cycles, dpu, estimate.bytes))
    return Work(tuple(found), 0)


def duration(chip: Chip, works: Sequence[Work], driver: Driver, cores: int = 1) -> Duration:
    """Return how long ``works``, a submit each, take on one of ``cores`` that work at once."""
    tasks = sum(len(work.tasks) for work in works)
    memory = chip.rates.memory_bytes_per_us[cores - 1].times(1 / cores)
    best = _work_us(chip, works, driver.clock_hz.most, memory.most, alone=False)
    worst = _work_us(chip, works, driver.clock_hz.least, memory.least, alone=True)
    submits = driver.submit_us.times(len(works))
    return Duration(Span(best, worst), driver.kick_us.times(tasks), submits)


def on_any(
    chip: Chip, works: Sequence[Work], drivers: Sequence[Driver], cores: int = 1
) -> Duration:
    """Return how long ``works`` take on any of ``drivers``, part by part."""
    times = [duration(chip, works, driver, cores) for driver in drivers]
    return Duration(
        hull(time.work for time in times),
        hull(time.launches for time in times),
        hull(time.submits for time in times),
    )


def _work_us(
    chip: Chip, works: Sequence[Work], clock_hz: float, memory: float, *, alone: bool
) -> float:
    """Return microseconds of all tasks in turn; a core's port is as fast as its clock."""
    cycles_per_us = clock_hz / 1e6
    port = chip.rates.bus_decibytes_per_cycle / _DECIBYTES * cycles_per_us
    rate = min(port, memory)
    total = 0.0
    for work in works:
        total += work.command_bytes / rate
        for task in work.tasks:
            cycles = max(task.npu_cycles, task.dpu_cycles if alone else 0)
            total += max(cycles / cycles_per_us, task.bytes / rate)
    return total


def hull(spans: Iterable[Span]) -> Span:
    """Return from the least to the most of ``spans``."""
    items = list(spans)
    return Span(min(item.least for item in items), max(item.most for item in items))
