"""MAX_POOL_2D of 2 x 2 pixels in fp16: the larger of two rows, then of two columns, each a task of
the DPU that reads one tensor in two places.

Rows first: every second row is the main operand, the one below it EW's. What is left lies without
gaps in a work area, so that pairs of columns are pairs of neighbours: a cube one pixel wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.chip.element import ATOM_BYTES
from delegate.chip.limits import DMA_ALIGN_BYTES, align
from delegate.lower.half_bound import EXACT
from delegate.lower.lowered import Layer
from delegate.lower.max_pool import larger
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.task import ElementwiseTask, Ref
from delegate.lower.tiling.element_wise import surface_ranges, surfaces_touched

_STEP = 2


@dataclass(frozen=True, slots=True, eq=False)
class HalfMaxPoolPlan:
    """A plan for maps of even width, without padding; a last row without partner is left out."""

    planning: Planning
    operation: Operation

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        source, target = self._views
        touched = surfaces_touched(self.planning.chip, source.channels)
        reads = ((operation.operands[0], touched),)
        size = align(touched * target.height * source.width * ATOM_BYTES, DMA_ALIGN_BYTES)
        return Footprint(operation.node, reads, operation.result, touched, work_bytes=size)

    @property
    def _views(self) -> tuple[View, View]:
        operation, planning = self.operation, self.planning
        return (
            planning.tensor(operation.operands[0]).view,
            planning.tensor(operation.result).view,
        )

    def lower(self, memory: Memory) -> Layer:
        operation = self.operation
        source, target = (memory.tensors[t] for t in (operation.operands[0], operation.result))
        tasks: list[ElementwiseTask] = []
        for image in range(source.view.images):
            one, result = source.image(image), target.image(image)
            tasks += self._image(f"image {image} ", one, result, memory.work.place)
        return layer_of(self.planning, operation, tasks).within(EXACT)

    def _image(
        self, name: str, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[ElementwiseTask]:
        chip = self.planning.chip
        view = replace(target.view, width=source.view.width)
        halved = target.alone(view, work)
        step = _STEP * source.line_stride_bytes
        size = (view.height, view.width)
        for surfaces in surface_ranges(chip, view.channels):
            apart = source.line_stride_bytes
            yield larger(f"{name}rows", source, apart, step, halved, size, surfaces)
        most = max(1, chip.limits.cube_size // target.view.width)  # rows of the result to a task
        for surfaces in surface_ranges(chip, view.channels):
            for first in range(0, target.view.height, most):
                rows = min(most, target.view.height - first)
                yield larger(
                    f"{name}columns of {rows} rows from {first}",
                    replace(halved, location=halved.pixel(first * view.width)),
                    ATOM_BYTES,
                    _STEP * ATOM_BYTES,
                    replace(target, location=target.pixel(first * target.view.width)),
                    (rows * target.view.width, 1),
                    surfaces,
                )
