"""Maxima under windows by the DPU alone: EW MAX of a map and itself shifted.

A maximum of n neighbours takes ceil(log2 n) tasks per direction: of two, of four and so on, the
last one overlapping. Rows first, where the last task skips the rows that the stride skips. What
lies outside the image has to be the least value: a convolution that only moves pixels copies the
image into a map with such a border, and a last one skips columns.

Windows whose points are further apart do where the input is made of maxima already: a 5 x 5 window
over results of a 5 x 5 window is the maximum of every second one, as two neighbours of these
overlap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.chip.limits import ATOM_BYTES, surfaces_of
from delegate.lower.extrema import UNCHANGED
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, EwOperation
from delegate.lower.padding import Mirror
from delegate.lower.selection import Moving, Selection, bordering, map_bytes, surfaces_written
from delegate.lower.task import BsStage, ElementwiseTask, EwStage, Pair, Ref, Task
from delegate.lower.tiling.element_wise import element_wise_cube, surface_ranges
from delegate.lower.tiling.pooling import PooledAxis, Pooling, doublings

ALL_VALUES = (INT8_MIN, INT8_MAX)


@dataclass(frozen=True, slots=True)
class MaxPool:
    """``gaps``: rows and columns between the points of the window that count. ``clamp``: least and
    largest result. ``is_narrow``: no surfaces are written beyond the channels, as others lie there.
    """

    chip: Chip
    pooling: Pooling
    gaps: tuple[int, int] = (1, 1)
    clamp: tuple[int, int] = ALL_VALUES
    is_narrow: bool = False
    element: Element = Element.INT8

    @property
    def row_shifts(self) -> tuple[int, ...]:
        return _shifts(self.pooling.rows, self.gaps[0])

    @property
    def column_shifts(self) -> tuple[int, ...]:
        return _shifts(self.pooling.columns, self.gaps[1])

    @property
    def skips_rows(self) -> bool:
        """Whether the last maximum of rows is taken where the stride leads only."""
        rows, columns = self.pooling.rows, self.pooling.columns
        notch = (rows.stride - 1) * columns.padded
        return bool(self.row_shifts) and notch <= self.chip.limits.notch

    @property
    def strides_left(self) -> tuple[int, int]:
        """What is left for a convolution that skips pixels."""
        rows, columns = self.pooling.rows, self.pooling.columns
        return 1 if self.skips_rows else rows.stride, columns.stride

    @property
    def ends_with_selection(self) -> bool:
        """Whether a convolution skips pixels, clamps where no border's did, or only copies."""
        shifts = self.row_shifts + self.column_shifts
        is_clamped = self.clamp != ALL_VALUES and not self.pooling.is_padded
        return self.strides_left != (1, 1) or is_clamped or not shifts

    def surfaces_written(self, channels: int) -> int:
        """Of the result, spare lanes included."""
        if self.ends_with_selection:
            return surfaces_written(self.chip, channels)
        return self._surfaces(channels)[-1].stop

    def surfaces_read(self, channels: int) -> int:
        """Of the input."""
        if self.pooling.is_padded or not (self.row_shifts or self.column_shifts):
            return surfaces_of(channels)
        return self._surfaces(channels)[-1].stop

    def _surfaces(self, channels: int) -> list[range]:
        """Of maps that maxima are taken of, in as many parts as cubes have to be: what readers may
        fetch, or no more than there are.
        """
        ranges = surface_ranges(self.chip, channels)
        if not self.is_narrow:
            return list(ranges)
        end = surfaces_of(channels)
        return [range(part.start, min(part.stop, end)) for part in ranges if part.start < end]

    def map_bytes(self, channels: int) -> int:
        """The largest map in between, of one image."""
        return map_bytes(self.chip, math.prod(self.pooling.padded), channels)

    def work_bytes(self, channels: int) -> int:
        """Of memory for maps in between: two."""
        return 2 * self.map_bytes(channels)

    def surface_pixels(self, channels: int) -> int:
        """See ``Footprint``; of a map of ``channels``."""
        return 1

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Of every image. ``work``: room for maps in between. Raises LoweringError."""
        rooms = itertools.cycle((work, work.moved(self.map_bytes(source.view.channels))))
        rows, columns = self.pooling.rows.output, self.pooling.columns.output
        for image in range(source.view.images):
            now = source.image(image)
            result = target.part(image * rows * columns, rows, columns)
            if self.pooling.is_padded:
                bordered = _map(now, next(rooms), self.pooling.padded)
                yield from self._bordered(moving, now, bordered)
                now = bordered
            steps = list(self._steps())
            for number, step in enumerate(steps, start=1):
                is_last = number == len(steps) and not self.ends_with_selection
                maxima = result if is_last else _map(now, next(rooms), step.size)
                name = f"image {image} maxima {number} of {len(steps)}"
                yield from self._maxima(name, now, maxima, step)
                now = maxima
            if self.ends_with_selection:
                clamp = ALL_VALUES if self.pooling.is_padded else self.clamp
                skipping = Selection(strides=self.strides_left, clamp=clamp)
                yield from moving.select(now.as_bytes, result.as_bytes, skipping)

    def _steps(self) -> Iterator[_Step]:
        rows, columns = self.pooling.padded
        last = len(self.row_shifts) - 1
        for number, shift in enumerate(self.row_shifts):
            is_skipping = number == last and self.skips_rows
            stride = self.pooling.rows.stride if is_skipping else 1
            left = self.pooling.rows.output if is_skipping else rows - shift
            yield _Step(shift * columns, stride * columns, (left, columns))
            rows = left
        for shift in self.column_shifts:
            yield _Step(shift, columns, (rows, columns - shift))
            columns -= shift

    def _bordered(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor
    ) -> Iterator[Task]:
        """Clamps here, as the maximum of clamped values is the clamped maximum. A border of fp16,
        whose least value has two different bytes, is the image mirrored: padding is at most half of
        a window, so what stands there lies under each window that reaches it.
        """
        rows, columns = self.pooling.rows, self.pooling.columns
        sides = (rows.before, rows.after), (columns.before, columns.after)
        if self.element is Element.FP16:
            mirror = Mirror(*sides, edge=0)
            yield from mirror.tasks(moving, source.as_bytes, target.as_bytes)
            return
        border = bordering(*sides, outside=INT8_MIN, clamp=self.clamp)
        yield from moving.select(source, target, border)

    def _maxima(
        self, name: str, source: DeviceTensor, target: DeviceTensor, step: _Step
    ) -> Iterator[Task]:
        apart, line = step.shift_pixels * ATOM_BYTES, step.line_pixels * ATOM_BYTES
        size = target.view.height, target.view.width
        for surfaces in self._surfaces(target.view.channels):
            yield larger(name, source, apart, line, target, size, surfaces, self.element)


def larger(
    tile: str,
    source: DeviceTensor,
    apart_bytes: int,
    line_bytes: int,
    target: DeviceTensor,
    size: Pair,
    surfaces: range,
    element: Element,
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
        output=element_wise_cube(place, size, surfaces, target, element),
        ew=EwStage(
            operand=first.moved(apart_bytes),
            operation=EwOperation.MAX,
            operand_bytes=element.bytes,
            surface_stride_bytes=source.surface_stride_bytes,
            line_stride_bytes=line_bytes,
        ),
        bs=BsStage() if element is Element.FP16 else UNCHANGED,
        element=element,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """Maxima of a map's rows, ``line_pixels`` apart, and itself shifted. ``size``: rows and columns
    of the result.
    """

    shift_pixels: int
    line_pixels: int
    size: tuple[int, int]


def _shifts(side: PooledAxis, gap: int) -> tuple[int, ...]:
    return tuple(doublings((side.kernel - 1) // gap + 1, gap))


def _map(like: DeviceTensor, place: Ref, size: tuple[int, int]) -> DeviceTensor:
    """A map at ``place``, without gaps."""
    view = View(1, *size, like.view.channels)
    return like.alone(view, place)
