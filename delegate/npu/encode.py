"""Tasks of integers in, segments of register commands out.

Every segment carries the full register set: nothing is inherited from earlier tasks, so that the
same bytes serve a device that starts each task on its own and one that runs the whole chain.
Refuses what the chip lacks or no known program does (EncodingError); never guesses a register
value.

The tasks of a program in their order, with the loads of tables that they need.

All tasks are one job: they follow each other on one core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.chip.chips import part_of
from delegate.errors import EncodingError
from delegate.lower.legalize import used_by
from delegate.lower.task import DpuTask, Ref, TableLoad, Task
from delegate.npu.regcmd import Segment


def encode_task(chip: Chip, layer: str, task: Task | TableLoad) -> Segment:
    """Return the segment of one task. ``layer`` names it in errors. Raises EncodingError."""
    for primitive in () if isinstance(task, TableLoad) else used_by(task):
        if primitive in chip.lacks:
            tile = f", tile {task.tile}" if task.tile else ""
            problem = f"chip {chip.name} has no known {primitive.value}"
            raise EncodingError(f"layer {layer}{tile}: {problem}")
    found: Segment = part_of("delegate.npu", chip.target, "encoder").encode_task(chip, layer, task)
    return found


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """A task of a program. ``layer``: index of the layer it belongs to."""

    layer: int
    task: Task | TableLoad


def with_table_loads(
    tasks: Iterable[ScheduledTask], atoms: tuple[Ref, Ref], *, are_kept: bool = True
) -> Iterator[ScheduledTask]:
    """Yield ``tasks``, and before those that find other tables than theirs a load, which copies
    ``atoms`` [0] to [1]. The first finds none: somebody else may have used the core before it; nor
    does any task where tables are not kept.
    """
    loaded = None
    for item in tasks:
        task = item.task
        use = task.table if isinstance(task, DpuTask) else None
        if use is not None and (use.functions != loaded or not are_kept):
            loaded = use.functions
            load = TableLoad(f"table load, functions {len(loaded)}", loaded, *atoms)
            yield ScheduledTask(item.layer, load)
        yield item
