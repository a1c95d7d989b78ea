"""Maxima under windows in fp16, by the DPU alone: EW MAX of a map and itself shifted.

A maximum of n neighbours takes ceil(log2 n) tasks per direction: of two, of four and so on, the
last one overlapping. Rows first, where the last task skips the rows that the stride skips. What
lies outside the image must not count: the image is copied into a map with a border, and a last
convolution skips columns.

Windows whose points are further apart do where the input is made of maxima already: a 5 x 5 window
over results of a 5 x 5 window is the maximum of every second one, as two neighbours of these
overlap.

Windows of 2 x 2 pixels side by side take two tasks in fp16: the larger of two rows, then of two
columns. Every second row is the main operand, the one below it EW's. What is left lies without gaps
in a work area, so that pairs of columns are pairs of neighbours: a cube one pixel wide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, DMA_ALIGN_BYTES, Element, align, surfaces_of
from delegate.lower.lowered import EXACT
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.padding import mirror
from delegate.lower.selection import Moving, Selection, map_bytes, surfaces_written
from delegate.lower.task import ElementwiseTask, EwStage, Pair, Ref, Task
from delegate.lower.tiling.element_wise import element_wise_cube, surface_ranges, surfaces_touched
from delegate.lower.tiling.geometry import Axis
from delegate.lower.tiling.pooling import Pooling, doublings

_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Maxima:
    """The largest values under windows. ``gaps``: rows and columns between the points of the window
    that count. ``is_narrow``: no surfaces are written beyond the channels, as others lie there.
    """

    chip: Chip
    pooling: Pooling
    gaps: tuple[int, int] = (1, 1)
    is_narrow: bool = False

    @property
    def row_shifts(self) -> tuple[int, ...]:
        return _shifts(self.pooling.rows, self.gaps[0])

    @property
    def column_shifts(self) -> tuple[int, ...]:
        return _shifts(self.pooling.columns, self.gaps[1])

    def _surfaces(self, channels: int) -> list[range]:
        """Return the surfaces of maps that maxima are taken of, in as many parts as cubes have to
        be: those that readers may fetch, or no more than there are.
        """
        ranges = surface_ranges(self.chip, channels)
        if not self.is_narrow:
            return list(ranges)
        end = surfaces_of(channels)
        return [range(part.start, min(part.stop, end)) for part in ranges if part.start < end]


@dataclass(frozen=True, slots=True)
class HalfMaxPool(Maxima):
    """Maxima in fp16, from rows with gaps between them."""

    @property
    def skips_rows(self) -> bool:
        """Return whether the last maximum of rows is taken where the stride leads only."""
        rows, columns = self.pooling.rows, self.pooling.columns
        notch = (rows.stride - 1) * columns.padded
        return bool(self.row_shifts) and notch <= self.chip.limits.notch

    @property
    def strides_left(self) -> tuple[int, int]:
        """Return the strides that are left for a convolution that skips pixels."""
        rows, columns = self.pooling.rows, self.pooling.columns
        return 1 if self.skips_rows else rows.stride, columns.stride

    @property
    def ends_with_selection(self) -> bool:
        """Return whether a convolution skips pixels, or only copies."""
        shifts = self.row_shifts + self.column_shifts
        return self.strides_left != (1, 1) or not shifts

    def surfaces_written(self, channels: int) -> int:
        """Return the surfaces written of the result, padding of the last group included."""
        if self.ends_with_selection:
            return surfaces_written(self.chip, channels)
        return self._surfaces(channels)[-1].stop

    def surfaces_read(self, channels: int) -> int:
        """Return how many surfaces of the input are read."""
        if self.pooling.is_padded or not (self.row_shifts or self.column_shifts):
            return surfaces_of(channels)
        return self._surfaces(channels)[-1].stop

    def map_bytes(self, channels: int) -> int:
        """The largest map in between, of one image."""
        return map_bytes(self.chip, math.prod(self.pooling.padded), channels)

    def work_bytes(self, channels: int) -> int:
        """Return the bytes of two maps in between."""
        return 2 * self.map_bytes(channels)

    def surface_pixels(self, channels: int) -> int:
        """See ``Footprint``; of a map of ``channels``."""
        return 1

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Yield the tasks of every image. ``work``: room for maps between. Raises LoweringError."""
        rooms = itertools.cycle((work, work.moved(self.map_bytes(source.view.channels))))
        rows, columns = self.pooling.rows.output_size, self.pooling.columns.output_size
        for image in range(source.view.images):
            now = source.image(image)
            result = target.part(image * rows * columns, rows, columns)
            if self.pooling.is_padded:
                bordered = _map(now, next(rooms), self.pooling.padded)
                yield from self._bordered(moving, now, bordered)
                now = bordered
            steps = list(self._steps())
            for number, (shift, line, size) in enumerate(steps, start=1):
                is_last = number == len(steps) and not self.ends_with_selection
                maxima = result if is_last else _map(now, next(rooms), size)
                name = f"image {image} maxima {number} of {len(steps)}"
                yield from self._maxima(name, now, maxima, shift * ATOM_BYTES, line * ATOM_BYTES)
                now = maxima
            if self.ends_with_selection:
                skipping = Selection(strides=self.strides_left)
                yield from moving.select(now.as_bytes, result.as_bytes, skipping)

    def _steps(self) -> Iterator[_Step]:
        rows, columns = self.pooling.padded
        last = len(self.row_shifts) - 1
        for number, shift in enumerate(self.row_shifts):
            is_skipping = number == last and self.skips_rows
            stride = self.pooling.rows.stride if is_skipping else 1
            left = self.pooling.rows.output_size if is_skipping else rows - shift
            yield shift * columns, stride * columns, (left, columns)
            rows = left
        for shift in self.column_shifts:
            yield shift, columns, (rows, columns - shift)
            columns -= shift

    def _bordered(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor
    ) -> Iterator[Task]:
        """Mirror the image into its border, as the least fp16 has two different bytes. Padding is
        at most half of a window, so every window over the border has its values already.
        """
        rows, columns = self.pooling.rows, self.pooling.columns
        sides = (rows.pad, rows.pad_after), (columns.pad, columns.pad_after)
        yield from mirror(moving, source.as_bytes, target.as_bytes, *sides, edge=0)

    def _maxima(
        self, name: str, source: DeviceTensor, target: DeviceTensor, apart: int, line: int
    ) -> Iterator[Task]:
        size = target.view.height, target.view.width
        for surfaces in self._surfaces(target.view.channels):
            yield larger(name, source, apart, line, target, size, surfaces)


def larger(
    tile: str,
    source: DeviceTensor,
    apart_bytes: int,
    line_bytes: int,
    target: DeviceTensor,
    size: Pair,
    surfaces: range,
) -> ElementwiseTask:
    """``size`` of ``target``: the larger of what lies in ``source``, in rows ``line_bytes`` apart,
    and ``apart_bytes`` behind.
    """
    first, place = (
        tensor.location.moved(surfaces.start * tensor.surface_stride_bytes)
        for tensor in (source, target)
    )
    return ElementwiseTask(
        tile=tile,
        source=first,
        source_surface_stride_bytes=source.surface_stride_bytes,
        source_line_stride_bytes=line_bytes,
        output=element_wise_cube(place, size, surfaces, target, Element.FP16),
        ew=EwStage(
            operand=first.moved(apart_bytes),
            operation=EwOperation.MAX,
            operand_bytes=Element.FP16.bytes,
            surface_stride_bytes=source.surface_stride_bytes,
            line_stride_bytes=line_bytes,
        ),
        element=Element.FP16,
    )


_Step = tuple[int, int, Pair]
"""Pixels of a shift, pixels from row to row, and the rows and columns of the maxima of a map and
itself shifted.
"""


def _shifts(side: Axis, gap: int) -> tuple[int, ...]:
    return tuple(doublings((side.kernel - 1) // gap + 1, gap))


def _map(like: DeviceTensor, place: Ref, size: tuple[int, int]) -> DeviceTensor:
    """A map at ``place``, without gaps."""
    view = View(1, *size, like.view.channels)
    return like.alone(view, place)


def plan_half_pairs(planning: Planning, operation: Operation) -> Plan:
    """Return the plan for maps of even width, without padding; a last row without partner is left
    out.
    """
    chip, source, result = planning.chip, operation.operands[0], operation.result
    touched = surfaces_touched(chip, planning.tensor(source).view.channels)
    pixels = planning.tensor(result).view.height * planning.tensor(source).view.width
    size = align(touched * pixels * ATOM_BYTES, DMA_ALIGN_BYTES)
    reads = ((source, touched),)
    footprint = Footprint(operation.node, reads, result, touched, work_bytes=size)

    def tasks(memory: Memory) -> Iterator[Task]:
        given, target = memory.tensors[source], memory.tensors[result]
        for image in range(given.view.images):
            maps = given.image(image), target.image(image)
            yield from _pairs(chip, f"image {image} ", *maps, memory.work)

    return plan_of(planning, operation, footprint, tasks).within(EXACT)


def _pairs(
    chip: Chip, name: str, source: DeviceTensor, target: DeviceTensor, work: Ref
) -> Iterator[ElementwiseTask]:
    view = replace(target.view, width=source.view.width)
    halved = target.alone(view, work)
    step = _PAIR * source.line_stride_bytes
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
                _PAIR * ATOM_BYTES,
                replace(target, location=target.pixel(first * target.view.width)),
                (rows * target.view.width, 1),
                surfaces,
            )
