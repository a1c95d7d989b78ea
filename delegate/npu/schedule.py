"""When the tasks of several cores may run: epochs with a barrier after each.

In: layers whose tasks name the core that runs them. Out: the tasks in the order of a program, with
their epochs. Tasks of one epoch on different cores touch no byte that one of them writes; what
depends on another core's work, or overwrites what was read, comes at least an epoch later. All
tasks of a layer on a core stay together, because they may keep weights in CBUF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from delegate.chip.limits import ATOM_BYTES
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import BufferId, DpuTask, Ref, TableLoad, Task

_NEVER = -1
_SHARED = (BufferId.SCRATCH, BufferId.INPUT, BufferId.OUTPUT)
"""Buffers that tasks may write; the others nobody has to wait for."""


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """``layer``: index of the layer the task belongs to."""

    layer: int
    task: Task | TableLoad
    epoch: int

    @property
    def job(self) -> tuple[int, int]:
        """Tasks of one job follow each other on one core."""
        return self.epoch, self.task.core


class _Touched:
    """The last epoch in which each core read or wrote each atom of a buffer."""

    def __init__(self, cores: int, size_bytes: int) -> None:
        atoms = -(-size_bytes // ATOM_BYTES)
        self.read: npt.NDArray[np.int32] = np.full((cores, atoms), _NEVER, np.int32)
        self.written: npt.NDArray[np.int32] = np.full((cores, atoms), _NEVER, np.int32)


def schedule(layers: Sequence[Layer], sizes_bytes: Sequence[int]) -> list[ScheduledTask]:
    """The tasks by epoch, core and order. ``sizes_bytes``: of the buffers, by BufferId.

    Without a task on a second core that is one epoch in the order of the layers.
    """
    cores = 1 + max((task.core for layer in layers for task in layer.tasks), default=0)
    if cores == 1:
        return [
            ScheduledTask(index, task, 0)
            for index, layer in enumerate(layers)
            for task in layer.tasks
        ]
    touched = {buffer: _Touched(cores, sizes_bytes[buffer]) for buffer in _SHARED}
    current = [0] * cores
    scheduled = []
    for index, layer in enumerate(layers):
        for core, group in groupby(layer.tasks, lambda task: task.core):
            tasks = tuple(group)
            spans = [span for task in tasks for span in _spans(task)]
            epoch = max(current[core], _earliest(spans, touched, core))
            for buffer, first, end, is_write in spans:
                epochs = touched[buffer].written if is_write else touched[buffer].read
                epochs[core, first:end] = epoch
            current[core] = epoch
            scheduled += [ScheduledTask(index, task, epoch) for task in tasks]
    return sorted(scheduled, key=lambda item: item.job)


def with_table_loads(
    tasks: Iterable[ScheduledTask], atoms: tuple[Ref, Ref], *, are_kept: bool = True
) -> Iterator[ScheduledTask]:
    """``tasks``, and before those that find other tables than theirs a load, which copies ``atoms``
    [0] to [1]. A job finds none: somebody else may have used the core before it; nor does any task
    where tables are not kept.
    """
    job, loaded = None, None
    for item in tasks:
        if item.job != job:
            job, loaded = item.job, None
        task = item.task
        use = task.table if isinstance(task, DpuTask) else None
        if use is not None and (use.functions != loaded or not are_kept):
            loaded = use.functions
            load = TableLoad(f"table load, functions {len(loaded)}", loaded, *atoms, task.core)
            yield ScheduledTask(item.layer, load, item.epoch)
        yield item


_Span = tuple[BufferId, int, int, bool]


def _spans(task: Task) -> Iterator[_Span]:
    """Atoms [first, end) of shared buffers that a task touches."""
    for access in accesses(task):
        if access.start.buffer in _SHARED:
            for first, end in access.spans():
                atoms = first // ATOM_BYTES, -(-end // ATOM_BYTES)
                yield access.start.buffer, *atoms, access.is_write


def _earliest(spans: list[_Span], touched: dict[BufferId, _Touched], core: int) -> int:
    """One epoch after the last in which another core wrote what these spans touch, or any core read
    what they write.
    """
    latest = _NEVER
    for buffer, first, end, is_write in spans:
        seen = touched[buffer]
        others = [other for other in range(len(seen.written)) if other != core]
        latest = max(latest, int(seen.written[others, first:end].max(initial=_NEVER)))
        if is_write:
            # Its own reads, too: a job leaves alone what it reads, so that marks in its output can
            # tell that it ran.
            latest = max(latest, int(seen.read[:, first:end].max(initial=_NEVER)))
    return latest + 1
