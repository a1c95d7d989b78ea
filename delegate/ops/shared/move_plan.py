"""How operators that bring bytes elsewhere become tasks: from one operand to the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Memory, Operation, Planning, image_by_image, layer_of
from delegate.lower.selection import Moving
from delegate.lower.task import Ref, Task

Move = Callable[[Moving, DeviceTensor, DeviceTensor, Ref], Iterable[Task]]
"""The tasks from a tensor to another, both as bytes; last, where their own memory begins."""


@dataclass(frozen=True, slots=True, eq=False)
class MovePlan:
    """``move``: of the operand to the result, or of every image of both if ``by_image``."""

    planning: Planning
    operation: Operation
    move: Move
    footprint: Footprint
    by_image: bool

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        operation, place = self.operation, memory.work.place
        moving = Moving(self.planning.chip, operation.node, memory.constants)

        def tasks(source: DeviceTensor, target: DeviceTensor) -> Iterable[Task]:
            return self.move(moving, source.as_bytes, target.as_bytes, place)

        if self.by_image:
            return layer_of(self.planning, operation, image_by_image(operation, memory, tasks))
        ends = (memory.tensors[t] for t in (operation.operands[0], operation.result))
        return layer_of(self.planning, operation, tasks(*ends))


def move_plan(
    planning: Planning,
    operation: Operation,
    move: Move,
    *,
    reads: int,
    writes: int,
    work_bytes: int = 0,
    surface_pixels: int = 1,
    by_image: bool = False,
) -> MovePlan:
    """The plan of tasks that touch so much, see ``Footprint``."""
    footprint = Footprint(
        operation.node,
        ((operation.operands[0], reads),),
        operation.result,
        writes,
        work_bytes=work_bytes,
        surface_pixels=surface_pixels,
    )
    return MovePlan(planning, operation, move, footprint, by_image)
