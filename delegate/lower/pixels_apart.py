"""A convolution of pixels that lie apart, on a chip that only convolves maps as they are: the map
with the zero point between its pixels is made first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.placement import WorkArea
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Memory, Operation, Plan
from delegate.lower.rows_as_surfaces import Repeat
from delegate.lower.selection import Moving


@dataclass(frozen=True, slots=True, eq=False)
class PixelsApart:
    """``convolved`` reads ``repeat``'s result instead of the operation's first operand."""

    operation: Operation
    source: DeviceTensor
    repeat: Repeat
    convolved: Plan

    @property
    def footprint(self) -> Footprint:
        footprint = self.convolved.footprint
        reads = ((self.source.index, self.repeat.surfaces_read),)
        work_bytes = self.repeat.staged_bytes(self.source) + footprint.work_bytes
        return replace(footprint, reads=reads, work_bytes=work_bytes)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        work, source = memory.work, memory.tensors[self.source.index]
        moving = Moving(self.repeat.chip, self.operation.node, memory.constants)
        apart = self.repeat.staged(source, work.place)
        room = self.repeat.staged_bytes(source)
        tensors = {**memory.tensors, source.index: apart}
        rest = WorkArea(work.start + room, work.size_bytes - room)
        layer = self.convolved.lower(replace(memory, tensors=tensors, work=rest))
        tasks = [
            task
            for image in range(source.view.images)
            for task in self.repeat.tasks(moving, source.image(image), apart.image(image))
        ]
        rows, columns = self.repeat.factors
        choice = f"pixels {rows} x {columns} apart first, {layer.choice}"
        return replace(layer, tasks=(*tasks, *layer.tasks), choice=choice)
