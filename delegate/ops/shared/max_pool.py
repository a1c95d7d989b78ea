"""How maxima under windows become tasks."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.lower.lowered import Layer
from delegate.lower.max_pool import MaxPool
from delegate.lower.memory.footprint import Footprint
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.selection import Moving


def kind_of(chip: Chip) -> type[MaxPool]:
    """How ``chip`` takes maxima under windows."""
    if chip.knows("ew_maximum"):
        return MaxPool
    from delegate.lower.max_pool_sums import SummedMaxPool  # on demand: one chip's

    return SummedMaxPool


@dataclass(frozen=True, slots=True, eq=False)
class MaxPoolPlan:
    """Reads and writes whole surfaces."""

    planning: Planning
    operation: Operation
    pool: MaxPool

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        channels = self._channels
        written = self.pool.surfaces_written(channels)
        reads = ((operation.operands[0], self.pool.surfaces_read(channels)),)
        return Footprint(
            operation.node,
            reads,
            operation.result,
            written,
            work_bytes=self.pool.work_bytes(channels),
            surface_pixels=self.pool.surface_pixels(channels),
        )

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        operation, pool = self.operation, self.pool
        tasks = pool.tasks(
            Moving(self.planning.chip, operation.node, memory.constants),
            memory.tensors[operation.operands[0]],
            memory.tensors[operation.result],
            memory.work.place,
        )
        return layer_of(self.planning, operation, tasks)

    @property
    def _channels(self) -> int:
        return self.planning.tensor(self.operation.result).view.channels
