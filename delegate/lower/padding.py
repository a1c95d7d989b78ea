"""Images with a border, by convolutions that compute nothing.

A border of one value is what CNA gives around an image, a few rows and columns at a time; further
channels are kernels without weights, with the value for a bias. A mirrored border is copied column
by column, then row by row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import (
    Moving,
    bordering,
    map_bytes,
    surface_pixels,
    surfaces_written,
)
from delegate.lower.task import Ref, Task

Side = tuple[int, int]
"""Elements before and behind."""


@dataclass(frozen=True, slots=True)
class Border:
    """A border of ``value`` on all ``sides``: rows, columns, channels. ``channels``: of the image,
    without spare ones.
    """

    chip: Chip
    sides: tuple[Side, Side, Side]
    value: int
    channels: int

    def surfaces_written(self, channels: int) -> int:
        """Return how many surfaces are written of a result of ``channels``."""
        if any(self.sides[2]):
            return self.chip.groups.surfaces_written(channels, is_depthwise=False)
        return surfaces_written(self.chip, channels)

    @property
    def surface_pixels(self) -> int:
        """Return of what the pixels of a surface of the result are a multiple."""
        return 1 if any(self.sides[2]) else surface_pixels(self.chip, self.channels)

    def work_bytes(self, image: View, channels: int) -> int:
        """Return the bytes of maps in between."""
        is_one = len(list(self._steps())) + any(self.sides[2]) == 1
        return 0 if is_one else 2 * map_bytes(self.chip, image.pixels, channels)

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Yield the tasks of one image. ``work``: room for two maps. Raises LoweringError."""
        channels = source.view.channels
        room = map_bytes(self.chip, target.view.pixels, channels)
        rooms = itertools.cycle((work, work.moved(room)))
        steps = list(self._steps())
        unit = surface_pixels(self.chip, channels)
        now = source
        for number, (rows, columns) in enumerate(steps, start=1):
            result = target
            if number < len(steps) or any(self.sides[2]):
                height, width = now.view.height + sum(rows), now.view.width + sum(columns)
                like = replace(target, view=View(1, height, width, channels))
                result = like.via_scratch(next(rooms), target.surfaces, unit)
            border = bordering(rows, columns, self.value)
            yield from moving.select(now, result, border)
            now = result
        if any(self.sides[2]):
            before = self.sides[2][0]
            weights = np.zeros((target.view.channels, 1, 1, channels), np.int8)
            count = np.arange(self.channels)
            weights[before + count, 0, 0, count] = 1
            summands = np.where(weights.any(axis=(1, 2, 3)), 0, self.value).astype(np.int64)
            yield from moving.move(now, target, weights, summands=summands)

    def _steps(self) -> Iterator[tuple[Side, Side]]:
        """Rows and columns, as many at a time as the fields hold."""
        rows, columns, channels = self.sides
        while any((*rows, *columns)):
            step = self._part(rows), self._part(columns)
            yield step
            rows, columns = (
                (side[0] - part[0], side[1] - part[1])
                for side, part in zip((rows, columns), step, strict=True)
            )
        if not any((*self.sides[0], *self.sides[1], *channels)):
            yield (0, 0), (0, 0)

    def _part(self, side: Side) -> Side:
        before = min(side[0], self.chip.limits.pad)
        return before, min(side[1], self.chip.limits.pad - before)


def mirror(
    moving: Moving,
    source: DeviceTensor,
    target: DeviceTensor,
    rows: Side,
    columns: Side,
    *,
    edge: int,
) -> Iterator[Task]:
    """Yield the tasks of one image with a border of mirrored ``rows`` and ``columns``. ``edge``: 1,
    the outermost pixel is not repeated, or 0. Raises LoweringError.
    """
    (top, _), (left, _) = rows, columns
    height, width = source.view.height, source.view.width
    whole = target.view.width

    def copied(given: DeviceTensor, begin: int, size: tuple[int, int], end: int) -> Iterator[Task]:
        view = View(1, *size, source.view.channels)
        there = given.window(view, pixel=begin, row_pixels=given.view.width)
        here = target.window(view, pixel=end, row_pixels=whole)
        yield from moving.select(there, here)

    yield from copied(source, 0, (height, width), top * whole + left)
    for place, other in _mirrored(columns, width, edge):
        yield from copied(source, other, (height, 1), top * whole + left + place)
    for place, other in _mirrored(rows, height, edge):
        yield from copied(target, (top + other) * whole, (1, whole), (top + place) * whole)


def _mirrored(side: Side, size: int, edge: int) -> Iterator[tuple[int, int]]:
    """Places beyond the image, and those whose values they have."""
    for number in range(side[0]):
        yield -1 - number, number + edge
    for number in range(side[1]):
        yield size + number, size - 1 - number - edge
