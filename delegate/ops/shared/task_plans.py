"""How operations become tasks that read feature maps and write the result, with what they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Memory, Operation, Planning, image_by_image, layer_of
from delegate.lower.selection import Moving
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched

Move = Callable[[Moving, DeviceTensor, DeviceTensor, Ref], Iterable[Task]]
"""The tasks from a tensor to another; last, where their own memory begins."""


@dataclass(frozen=True, slots=True, eq=False)
class TaskPlan:
    """``tasks``: of the operation, once its tensors have places."""

    planning: Planning
    operation: Operation
    footprint: Footprint
    tasks: Callable[[Memory, Moving], Iterable[Task]]

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        moving = Moving(self.planning.chip, self.operation.node, memory.constants)
        return layer_of(self.planning, self.operation, self.tasks(memory, moving))


def map_between(chip: Chip, like: DeviceTensor, place: Ref) -> DeviceTensor:
    """A map like ``like`` at ``place``, of as many surfaces as tasks of the DPU touch."""
    touched = surfaces_touched(chip, like.view.channels)
    return replace(like.alone(like.view, place), surfaces=touched)


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
    as_bytes: bool = True,
) -> TaskPlan:
    """``move``: of the operand to the result, or of every image of both if ``by_image``, as the
    tensors of bytes that they are unless ``as_bytes`` is False. It touches so much, see
    ``Footprint``.
    """
    footprint = Footprint(
        operation.node,
        ((operation.operands[0], reads),),
        operation.result,
        writes,
        work_bytes=work_bytes,
        surface_pixels=surface_pixels,
    )

    def tasks(memory: Memory, moving: Moving) -> Iterable[Task]:
        place = memory.work.place

        def moved(source: DeviceTensor, target: DeviceTensor) -> Iterable[Task]:
            if as_bytes:
                source, target = source.as_bytes, target.as_bytes
            return move(moving, source, target, place)

        if by_image:
            return image_by_image(operation, memory, moved)
        return moved(*(memory.tensors[t] for t in (operation.operands[0], operation.result)))

    return TaskPlan(planning, operation, footprint, tasks)
