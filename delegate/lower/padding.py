"""Images with a border, by convolutions that compute nothing.

A border of one value is what CNA gives around an image, a few rows and columns at a time; further
channels are kernels without weights, with the value for a bias. A mirrored border is copied column
by column, then row by row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.element import surfaces_of
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import (
    Move,
    Moving,
    bordering,
    is_depthwise,
    map_bytes,
    surface_pixels,
)
from delegate.lower.task import Ref, Task

Side = tuple[int, int]
"""Elements before and behind."""


def border(
    chip: Chip, sides: tuple[Side, Side, Side], value: int, image: View, result: View
) -> Move:
    """Return the move of an image into a border of ``value`` on all ``sides``: rows, columns,
    channels. ``image`` has no spare channels.
    """
    steps = list(_steps(chip, *sides[:2]))
    more_channels = any(sides[2])
    if not steps and not more_channels:
        steps = [((0, 0), (0, 0))]
    room = map_bytes(chip, result.pixels, image.channels)

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        channels = source.view.channels
        rooms = itertools.cycle((work, work.moved(room)))
        unit = surface_pixels(chip, channels)
        now = source
        for number, (rows, columns) in enumerate(steps, start=1):
            made = target
            if number < len(steps) or more_channels:
                height, width = now.view.height + sum(rows), now.view.width + sum(columns)
                like = replace(target, view=View(1, height, width, channels))
                made = like.via_scratch(next(rooms), target.surfaces, unit)
            yield from moving.select(now, made, bordering(rows, columns, value))
            now = made
        if more_channels:
            weights = np.zeros((target.view.channels, 1, 1, channels), np.int8)
            count = np.arange(image.channels)
            weights[sides[2][0] + count, 0, 0, count] = 1
            summands = np.where(weights.any(axis=(1, 2, 3)), 0, value).astype(np.int64)
            yield from moving.move(now, target, weights, summands=summands)

    is_dense = more_channels or not is_depthwise(chip, result.channels)
    return Move(
        tasks,
        reads=surfaces_of(image.channels),
        writes=chip.groups.surfaces_written(result.channels, is_depthwise=not is_dense),
        work_bytes=0 if len(steps) + more_channels == 1 else 2 * room,
        surface_pixels=1 if more_channels else surface_pixels(chip, image.channels),
    )


def _steps(chip: Chip, rows: Side, columns: Side) -> Iterator[tuple[Side, Side]]:
    """Rows and columns, as many at a time as the fields hold."""
    most = chip.limits.pad
    while any((*rows, *columns)):
        step = _part(rows, most), _part(columns, most)
        yield step
        rows, columns = (
            (side[0] - part[0], side[1] - part[1])
            for side, part in zip((rows, columns), step, strict=True)
        )


def _part(side: Side, most: int) -> Side:
    before = min(side[0], most)
    return before, min(side[1], most - before)


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
