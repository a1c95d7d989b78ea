"""How PRELU with several slopes becomes tasks: see ``delegate.lower.numerics.slopes``."""

from __future__ import annotations

from collections.abc import Iterable

from delegate.lower.memory.footprint import Footprint
from delegate.lower.numerics.slopes import SlopesPipelines
from delegate.lower.operands import Operand, constant_operand
from delegate.lower.operation import Memory, Operation, Planning
from delegate.lower.pairs import pair_tasks
from delegate.lower.selection import Moving
from delegate.lower.task import Task
from delegate.ops.shared.task_plans import TaskPlan, map_between


def plan_slopes(
    planning: Planning, operation: Operation, slopes: int, pipelines: SlopesPipelines
) -> TaskPlan:
    """``operation`` has the input as its only operand, ``slopes`` is the constant."""
    chip, (source,), result = planning.chip, operation.operands, operation.result
    given = planning.tensor(result)
    room = map_between(chip, given, given.location)
    footprint = Footprint(
        operation.node,
        ((source, room.surfaces),),
        result,
        room.surfaces,
        work_bytes=room.size_bytes,
    )

    def tasks(memory: Memory, _: Moving) -> Iterable[Task]:
        main, target = memory.tensors[source], memory.tensors[result]
        constant = planning.graph.tensor(slopes)
        operand = constant_operand(chip, constant, target.view, memory.constants)
        between = map_between(chip, target, memory.work.place)
        products = Operand(between, per_channel=False, is_shared=between.view.images == 1)
        yield from pair_tasks(chip, (main, operand), between, pipelines.below)
        yield from pair_tasks(chip, (main, products), target, pipelines.above)

    return TaskPlan(planning, operation, footprint, tasks)
