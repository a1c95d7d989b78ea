"""Maxima under windows in fp16, by the DPU alone: EW MAX of a map and itself shifted.

A maximum of n neighbours takes ceil(log2 n) tasks per direction: of two, of four and so on, the
last one overlapping. Rows first, where the last task skips the rows that the stride skips. What
lies outside the image must not count: the image is copied into a map with a border, and a last
convolution skips columns.

Windows whose points are further apart do where the input is made of maxima already: a 5 x 5 window
over results of a 5 x 5 window is the maximum of every second one, as two neighbours of these
overlap.

Windows of 2 x 2 pixels side by side take the larger of two rows, then of two columns. Every second
row is the main operand, the one below it EW's. What is left lies without gaps in a work area, so
that pairs of columns are pairs of neighbours: a cube one pixel wide.

Nobody has run an fp16 task whose EW operand has gaps between rows, so that one is copied first, to
where it has none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, DMA_ALIGN_BYTES, Element, align, surfaces_of
from delegate.lower.lowered import EXACT
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.padding import mirror
from delegate.lower.selection import Move, Moving, Selection, map_bytes, surfaces_written
from delegate.lower.task import ElementwiseTask, EwStage, Pair, Ref, Task
from delegate.lower.tiling.element_wise import element_wise_cube, surface_ranges, surfaces_touched
from delegate.lower.tiling.geometry import Pooling, doublings

_PAIR: Final = 2


def maxima_surfaces(chip: Chip, channels: int, *, is_narrow: bool) -> list[range]:
    """Return the surfaces of maps that maxima are taken of, in as many parts as cubes have to be:
    those that readers may fetch, or if ``is_narrow`` no more than there are, as others lie there.
    """
    ranges = surface_ranges(chip, channels)
    if not is_narrow:
        return list(ranges)
    end = surfaces_of(channels)
    return [range(part.start, min(part.stop, end)) for part in ranges if part.start < end]


def pooled_image(pooling: Pooling, target: DeviceTensor, image: int) -> DeviceTensor:
    """Return an image of the result."""
    rows, columns = pooling.rows.output_size, pooling.columns.output_size
    return target.part(image * rows * columns, rows, columns)


_Step = tuple[int, int, Pair]
"""Pixels of a shift, pixels from row to row, and the rows and columns of the maxima of a map and
itself shifted.
"""


def half_maxima(
    chip: Chip, pooling: Pooling, gaps: Pair, channels: int, *, is_narrow: bool
) -> Move:
    """Return the move of maxima in fp16, from rows with gaps between them. ``gaps``: rows and
    columns between the points of the window that count.
    """
    by_rows, by_columns = doublings(pooling.rows, gaps[0]), doublings(pooling.columns, gaps[1])
    # The last maximum of rows is taken where the stride leads only, if its rows may lie so far
    # apart; a convolution skips the other pixels, or only copies.
    notch = (pooling.rows.stride - 1) * pooling.columns.padded
    skips_rows = bool(by_rows) and notch <= chip.limits.notch
    strides = 1 if skips_rows else pooling.rows.stride, pooling.columns.stride
    ends_with_selection = strides != (1, 1) or not by_rows + by_columns
    steps = list(_steps(pooling, by_rows, by_columns, skips_rows))
    ranges = maxima_surfaces(chip, channels, is_narrow=is_narrow)
    room = map_bytes(chip, math.prod(pooling.padded), channels)

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        rooms = itertools.cycle((work, work.moved(room)))
        spare = work.moved(2 * room)
        for image in range(source.view.images):
            now, result = source.image(image), pooled_image(pooling, target, image)
            if pooling.is_padded:
                bordered = _map(now, next(rooms), pooling.padded)
                yield from _bordered(moving, pooling, now, bordered)
                now = bordered
            for number, (shift, line, size) in enumerate(steps, start=1):
                is_last = number == len(steps) and not ends_with_selection
                maxima = result if is_last else _map(now, next(rooms), size)
                name = f"image {image} maxima {number} of {len(steps)}"
                made = maxima.view.height, maxima.view.width
                for surfaces in ranges:
                    apart, row = shift * ATOM_BYTES, line * ATOM_BYTES
                    yield from larger(name, now, apart, row, maxima, made, surfaces, spare)
                now = maxima
            if ends_with_selection:
                skipping = Selection(strides=strides)
                yield from moving.select(now.as_bytes, result.as_bytes, skipping)

    is_copied = pooling.is_padded or not by_rows + by_columns
    reads = surfaces_of(channels) if is_copied else ranges[-1].stop
    writes = surfaces_written(chip, channels) if ends_with_selection else ranges[-1].stop
    return Move(tasks, reads, writes, work_bytes=3 * room)


def _steps(
    pooling: Pooling, by_rows: Sequence[int], by_columns: Sequence[int], skips_rows: bool
) -> Iterator[_Step]:
    rows, columns = pooling.padded
    for number, shift in enumerate(by_rows, start=1):
        is_skipping = number == len(by_rows) and skips_rows
        stride = pooling.rows.stride if is_skipping else 1
        left = pooling.rows.output_size if is_skipping else rows - shift
        yield shift * columns, stride * columns, (left, columns)
        rows = left
    for shift in by_columns:
        yield shift, columns, (rows, columns - shift)
        columns -= shift


def _bordered(
    moving: Moving, pooling: Pooling, source: DeviceTensor, target: DeviceTensor
) -> Iterator[Task]:
    """Mirror the image into its border, as the least fp16 has two different bytes. Padding is at
    most half of a window, so every window over the border has its values already.
    """
    sides = ((axis.pad, axis.pad_after) for axis in (pooling.rows, pooling.columns))
    yield from mirror(moving, source.as_bytes, target.as_bytes, *sides, edge=0)


def larger(
    tile: str,
    source: DeviceTensor,
    apart_bytes: int,
    line_bytes: int,
    target: DeviceTensor,
    size: Pair,
    surfaces: range,
    spare: Ref,
) -> Iterator[ElementwiseTask]:
    """Yield the tasks of ``size`` of ``target``: the larger of what lies in ``source``, in rows
    ``line_bytes`` apart, and ``apart_bytes`` behind. ``spare``: room for as much.
    """
    first, place = (
        tensor.location.moved(surfaces.start * tensor.surface_stride_bytes)
        for tensor in (source, target)
    )
    whole = ElementwiseTask(
        tile=tile,
        source=first,
        source_surface_stride_bytes=source.surface_stride_bytes,
        source_line_stride_bytes=line_bytes,
        output=element_wise_cube(place, size, surfaces, target, Element.FP16),
        element=Element.FP16,
    )
    other, stride = first.moved(apart_bytes), source.surface_stride_bytes
    if size[0] > 1 and line_bytes != size[1] * ATOM_BYTES:
        stride = math.prod(size) * ATOM_BYTES
        cube = replace(
            whole.output, target=spare, surface_stride_bytes=stride, line_stride_bytes=None
        )
        yield replace(whole, tile=f"{tile} copied", source=other, output=cube)
        other = spare
    ew = EwStage(
        operand=other,
        operation=EwOperation.MAX,
        operand_bytes=Element.FP16.bytes,
        surface_stride_bytes=stride,
    )
    yield replace(whole, ew=ew)


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
    footprint = Footprint(operation.node, reads, result, touched, work_bytes=2 * size)

    def tasks(memory: Memory) -> Iterator[Task]:
        given, target = memory.tensors[source], memory.tensors[result]
        for image in range(given.view.images):
            maps = given.image(image), target.image(image)
            yield from _pairs(chip, f"image {image} ", *maps, memory.work, memory.work.moved(size))

    return plan_of(planning, operation, footprint, tasks).within(EXACT)


def _pairs(
    chip: Chip, name: str, source: DeviceTensor, target: DeviceTensor, work: Ref, spare: Ref
) -> Iterator[ElementwiseTask]:
    view = replace(target.view, width=source.view.width)
    halved = target.alone(view, work)
    step = _PAIR * source.line_stride_bytes
    size = (view.height, view.width)
    for surfaces in surface_ranges(chip, view.channels):
        apart = source.line_stride_bytes
        yield from larger(f"{name}rows", source, apart, step, halved, size, surfaces, spare)
    most = max(1, chip.limits.cube_size // target.view.width)  # rows of the result to a task
    for surfaces in surface_ranges(chip, view.channels):
        for first in range(0, target.view.height, most):
            rows = min(most, target.view.height - first)
            yield from larger(
                f"{name}columns of {rows} rows from {first}",
                replace(halved, location=halved.pixel(first * view.width)),
                ATOM_BYTES,
                _PAIR * ATOM_BYTES,
                replace(target, location=target.pixel(first * target.view.width)),
                (rows * target.view.width, 1),
                surfaces,
                spare,
            )
