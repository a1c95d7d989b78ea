"""Count what the tasks of a compiled program move and compute, task by task and layer by layer.

In: a serialised Program. Out: :class:`LayerCounters` in order of execution. The simulator counts
them from the program's registers, so they check the compiler's own estimates; nothing is computed,
and what device the program is for does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from delegate.insight.simulated_run import TaskCounters, count
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program, ProgramLayer, ProgramTask

SUMMED = (
    "macs",
    "feature_bytes",
    "weight_bytes",
    "operand_bytes",
    "mrdma_bytes",
    "brdma_bytes",
    "nrdma_bytes",
    "erdma_bytes",
    "written_bytes",
    "npu_cycles",
    "ddr_cycles",
    "cycles",
)
"""The counters that add up over tasks."""


@dataclass(frozen=True, slots=True)
class LayerCounters:
    """A layer's tasks and what each of them did."""

    layer: ProgramLayer
    tasks: tuple[ProgramTask, ...]
    counters: tuple[TaskCounters, ...]

    def total(self) -> dict[str, Any]:
        """Sums over the tasks; of ``cbuf_fill`` the largest."""
        return sum_counters(self.counters)


def sum_counters(counters: Iterable[TaskCounters]) -> dict[str, Any]:
    """Sums for JSON; of ``cbuf_fill`` the largest."""
    items = list(counters)
    sums: dict[str, Any] = {name: sum(getattr(item, name) for item in items) for name in SUMMED}
    sums["cbuf_fill"] = round(max((item.cbuf_fill for item in items), default=0.0), 4)
    return sums


def count_program(content: bytes) -> tuple[LayerCounters, ...]:
    """Counts a serialised Program. Raises ProgramError, SimulatorFault."""
    program = parse(content)
    tasks = tasks_in_order(program)
    counted = count(program)
    return tuple(
        LayerCounters(
            program.layers[layer],
            tuple(task for task in tasks if task.layer == layer),
            tuple(c for task, c in zip(tasks, counted, strict=True) if task.layer == layer),
        )
        for layer in dict.fromkeys(task.layer for task in tasks)
    )


def tasks_in_order(program: Program) -> list[ProgramTask]:
    """Job after job, as the simulator runs them."""
    jobs = dict.fromkeys(task.job for task in program.tasks)
    return [task for job in jobs for task in program.tasks if task.job == job]
