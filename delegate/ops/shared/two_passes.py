"""RESIZE_BILINEAR by large whole factors in two passes: first columns, then rows. A result meets
four pixels, with two weights in each pass, instead of all taps of a stencil.

Columns: a pixel is an image of one column, and the pixel behind it the next row. A kernel of two
rows and as many columns as the factor, with as much padding beside the pixel, gives all results
between the two, side by side. The image has its outermost pixels repeated, so that none is between
the ends of two rows; what lies there is left out later.

Rows: each of the rows between two is a convolution of its own, whose results lie apart.

The first pass is rounded to int8: half a step at most, so that results are within one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import surfaces_of
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import Side, mirror
from delegate.lower.selection import (
    Move,
    Moving,
    Selection,
    is_depthwise,
    kernels,
    map_bytes,
    surface_pixels,
    surfaces_written,
)
from delegate.lower.task import Ref, Task
from delegate.ops.shared.blends import divided
from delegate.ops.shared.interpolation import Resizing, Shares, Weighing
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.pooling import require_rows_together


@dataclass(frozen=True, slots=True)
class Ramp(Weighing):
    """The results between a row and the next, of the image with ``border`` rows repeated: the row's
    own ``weights``, of ``whole``, from number ``first`` on.
    """

    whole: int
    border: Side
    first: int

    def rows(self, size: int, output: int) -> Shares:
        """Return how much of every row of the image is in each of the result."""
        found = np.zeros((output, size))
        for row in range(output):
            place, number = divmod(row + self.first, len(self.weights))
            for at, weight in enumerate(self.pair(number), place):
                if at < size + sum(self.border):
                    found[row, min(max(at - self.border[0], 0), size - 1)] += weight
        return found / self.whole

    def pair(self, number: int) -> tuple[int, ...]:
        """Return the weights of a row and the next, if that has one."""
        weight = self.weights[number]
        return (weight, self.whole - weight) if weight < self.whole else (weight,)


def ramps_of(side: Resizing) -> tuple[Ramp, ...]:
    """Return the ramps by which ``side`` may be made."""
    ups, _ = side.factors()
    return (Ramp((1,), 1, (0, 0), 0), *(ramp for factor in ups for ramp in _ramps(factor)))


def _ramps(factor: int) -> tuple[Ramp, Ramp, Ramp]:
    """Return the ramps of rows that become ``factor`` rows: with corners aligned, from the corner,
    from the centre.
    """
    falling = tuple(range(factor, 0, -1))
    middle, whole = falling, factor
    if factor % 2 == 0:  # no row of the result lies on one of the image
        middle, whole = tuple(range(2 * factor - 1, 0, -2)), 2 * factor
    return (
        Ramp(falling, factor, (0, 0), 0),
        Ramp(falling, factor, (0, 1), 0),
        Ramp(middle, whole, (1, 1), (factor + 1) // 2),
    )


def most_factor(chip: Chip) -> int:
    """Return the most columns that a pixel becomes: one, and as much padding as there may be."""
    return chip.limits.pad + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Passes:
    """Both passes of an image. ``offset``: of the type, see ``divided``."""

    moving: Moving
    rows: Ramp
    columns: Ramp
    offset: int

    def blended(self, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        """Yield the first pass: all results between any two pixels that follow each other."""
        pixels, channels = source.view.pixels, source.view.channels
        factor = len(self.columns.weights)
        taps = np.zeros((2, factor), np.int64)
        for number in range(factor):
            pair = self.columns.pair(number)
            taps[: len(pair), factor - 1 - number] = pair
        there = source.window(View(1, pixels, 1, channels), row_pixels=1)
        here = target.window(View(1, pixels, factor, channels), row_pixels=factor)
        padding = 0, factor - 1
        yield from self._convolved(there, here, taps, self.columns.whole, padding)

    def results(self, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        """Yield the second pass, of the wanted columns."""
        factor, first = len(self.rows.weights), self.rows.first
        height, width, channels = target.view.height, target.view.width, target.view.channels
        for number in range(factor):
            begin = max(-(-(first - number) // factor), 0)
            row = factor * begin + number - first
            count = -(-(height - row) // factor)
            if count < 1:
                continue
            taps = np.array(self.rows.pair(number))[:, np.newaxis]
            there = source.window(
                View(1, count + len(taps) - 1, width, channels),
                pixel=begin * source.view.width + self.columns.first,
                row_pixels=source.view.width,
            )
            view = View(1, count, width, channels)
            here = target.window(view, pixel=row * width, row_pixels=factor * width)
            yield from self._convolved(there, here, taps, self.rows.whole)

    def _convolved(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        taps: npt.NDArray[np.int64],
        whole: int,
        padding: tuple[int, int] = (0, 0),
    ) -> Iterator[Task]:
        chip, channels = self.moving.chip, source.view.channels
        depthwise = is_depthwise(chip, channels)
        summand, out = self._divided(whole)
        yield from self.moving.move(
            *(source, target, kernels(taps, channels, depthwise=depthwise)),
            Selection(padding=padding),
            is_depthwise=depthwise,
            summands=np.full(channels, summand, np.int64),
            out=out,
        )

    def _divided(self, whole: int) -> tuple[int, OutConvert]:
        return divided(self.moving.chip, self.offset, whole)


def plan_passes(planning: Planning, operation: Operation, rows: Ramp, columns: Ramp) -> Plan:
    """Plan both passes image by image. Raises LoweringError."""
    chip, view = planning.chip, planning.tensor(operation.operands[0]).view
    offset = planning.graph.tensor(operation.result).dtype.element.offset
    height, width = view.height + sum(rows.border), view.width + sum(columns.border)
    room = map_bytes(chip, height * width, view.channels)
    pixels = height * width * len(columns.weights)

    def image(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        passes = _Passes(moving, rows, columns, offset)
        wide = source
        if any((*rows.border, *columns.border)):
            wide = source.alone(replace(source.view, height=height, width=width), work)
            yield from mirror(moving, source, wide, rows.border, columns.border, edge=0)
        require_rows_together(operation.node, wide)
        between = replace(wide.view, width=width * len(columns.weights))
        blended = source.alone(between, work.moved(room))
        yield from passes.blended(wide, blended)
        yield from passes.results(blended, target)

    move = Move(
        image,
        surfaces_of(view.channels),
        surfaces_written(chip, view.channels),
        room + map_bytes(chip, pixels, view.channels),
        surface_pixels(chip, view.channels),
    )
    return move_plan(planning, operation, move, by_image=True)
