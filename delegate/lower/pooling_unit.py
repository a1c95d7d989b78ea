"""Maxima under windows by the PPU, as the vendor's recorded programs have them.

One task takes a whole map, or columns of it where the line buffer holds no more: then windows of
neighbouring tasks overlap in what they read. Padding takes no part in a maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.max_pool import Maxima
from delegate.lower.max_pool_sums import ALL_VALUES
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.selection import Moving
from delegate.lower.task import BufferId, OutputCube, PoolTask, Ref, Task
from delegate.lower.tiling.element_wise import element_wise_cube
from delegate.lower.tiling.pooling import PooledAxis, Pooling, pooled_columns

_MOST_PADDING = 7
"""The most that the fields of rows and columns of padding hold."""


@dataclass(frozen=True, slots=True)
class UnitMaxPool(Maxima):
    """Maxima by the PPU, one task for a map of few columns."""

    element: Element = Element.INT8

    def surfaces_read(self, channels: int) -> int:
        """Return how many surfaces of the input are read."""
        return self._surfaces(channels)[-1].stop

    def surfaces_written(self, channels: int) -> int:
        """Return how many surfaces of the result are written."""
        return self._surfaces(channels)[-1].stop

    def work_bytes(self, channels: int) -> int:
        """Return 0: there are no maps in between."""
        return 0

    def surface_pixels(self, channels: int) -> int:
        """Return the unit of pixels between surfaces: any number will do."""
        return 1

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Return the tasks of every image."""
        rows, columns = self.pooling.rows.output, self.pooling.columns.output
        for image in range(source.view.images):
            result = target.part(image * rows * columns, rows, columns)
            for surfaces in self._surfaces(source.view.channels):
                for part in self._parts():
                    name = f"image {image} columns from {part.first}"
                    yield self._task(name, source.image(image), result, surfaces, part)

    def _parts(self) -> Iterator[_Part]:
        columns = self.pooling.columns
        most = pooled_columns(self.pooling.rows.kernel, self.pooling.rows.stride)
        tasks = -(-columns.output // most)
        most = -(-columns.output // tasks)  # of equal width, but for the last
        for first in range(0, columns.output, most):
            yield _part(columns, first, min(most, columns.output - first))

    def _task(
        self,
        name: str,
        source: DeviceTensor,
        target: DeviceTensor,
        surfaces: range,
        columns: _Part,
    ) -> PoolTask:
        rows = _part(self.pooling.rows, 0, self.pooling.rows.output)
        place, size = _at(target, surfaces.start, columns.first), (rows.count, columns.count)
        cube = element_wise_cube(place, size, surfaces, target, self.element)
        return PoolTask(
            tile=name,
            source=_at(source, surfaces.start, columns.start),
            height=rows.read,
            width=columns.read,
            source_line_stride_bytes=source.view.width * ATOM_BYTES,
            source_surface_stride_bytes=source.surface_stride_bytes,
            output=replace(cube, line_stride_bytes=target.view.width * ATOM_BYTES),
            kernel=(self.pooling.rows.kernel, self.pooling.columns.kernel),
            strides=(self.pooling.rows.stride, self.pooling.columns.stride),
            pad_before=(rows.before, columns.before),
            pad_after=(rows.after, columns.after),
            element=self.element,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows, or columns, of a result: ``count`` from ``first`` on. They read ``read`` of the image
    from ``start`` on, and padding ``before`` and ``after`` these.
    """

    first: int
    count: int
    start: int
    read: int
    before: int
    after: int


def _part(axis: PooledAxis, first: int, count: int) -> _Part:
    begin = first * axis.stride - axis.before
    end = begin + (count - 1) * axis.stride + axis.kernel
    start, stop = max(begin, 0), min(end, axis.size)
    return _Part(first, count, start, stop - start, start - begin, end - stop)


def _at(tensor: DeviceTensor, surface: int, column: int) -> Ref:
    return tensor.location.moved(surface * tensor.surface_stride_bytes + column * ATOM_BYTES)


def takes(chip: Chip, pooling: Pooling, clamp: tuple[int, int], element: Element) -> bool:
    """Return whether the PPU may take such maxima: the driver waits for it, the padding's fields
    hold what is asked, and somebody has run such tasks.
    """
    if Primitive.POOLING in chip.lacks or clamp != ALL_VALUES:
        return False
    axes = pooling.rows, pooling.columns
    if any(max(axis.before, axis.after) > _MOST_PADDING for axis in axes):
        return False
    most = pooled_columns(pooling.rows.kernel, pooling.rows.stride)
    sample = _sample(pooling, element, gap=int(pooling.columns.output > most))
    return chip.evidence is None or bool(chip.evidence.knows_task(sample))


def _sample(pooling: Pooling, element: Element, gap: int) -> PoolTask:
    """Return the smallest task of this form: two rows of one pixel, ``gap`` pixels apart."""
    kernel = pooling.rows.kernel, pooling.columns.kernel
    strides = pooling.rows.stride, pooling.columns.stride
    height, width = kernel[0] + strides[0], kernel[1]
    place, rows, pitch = Ref(BufferId.SCRATCH, 0), 2, (1 + gap) * ATOM_BYTES
    lanes = element.lanes
    cube = OutputCube(place, rows, 1, lanes, lanes, rows * pitch, 1, pitch, element.bytes)
    line = width * ATOM_BYTES
    return PoolTask(
        tile="",
        source=place,
        height=height,
        width=width,
        source_line_stride_bytes=line,
        source_surface_stride_bytes=height * line,
        output=cube,
        kernel=kernel,
        strides=strides,
        pad_before=(0, 0),
        pad_after=(0, 0),
        element=element,
    )
