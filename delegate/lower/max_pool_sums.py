"""Maxima under windows by tasks that read maps without gaps between rows.

The image is copied into a map with a border. A shift of rows and columns is one of so many pixels
in memory then, and all surfaces are one row of pixels: where a row, or a surface, ends, neighbours
are others, which no window meets that lies in the map. A last convolution takes the pixels where
windows begin, by a kernel that covers the window.

Maxima and minima of a chip whose EW is only known to add: sums that saturate.

max(x, e) = x + max(e - x, 0), and e - x - 128, saturated to int8, is that difference with the zero
point -128; min(x, e) = x - max(x - e, 0). Both tasks are exact, and in the forms of ADD and SUB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    Element,
    align,
    surfaces_of,
)
from delegate.lower.legalize import is_known, pair
from delegate.lower.max_pool import maxima_surfaces, pooled_image
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, EwOperation, OutConvert
from delegate.lower.selection import Move, Moving, Selection, bordering, is_depthwise, map_bytes
from delegate.lower.selection import surfaces_written as selection_writes
from delegate.lower.task import (
    BsStage,
    ElementwiseTask,
    EwStage,
    OutputCube,
    Pair,
    Ref,
    Source,
    Stages,
    Task,
    TaskKind,
)
from delegate.lower.tiling.element_wise import (
    MapPart,
    element_wise_cube,
    map_parts,
)
from delegate.lower.tiling.geometry import Axis, Pooling, doublings

ALL_VALUES = (INT8_MIN, INT8_MAX)


def _copy(name: str, part: MapPart, source: Ref, target: Ref) -> ElementwiseTask:
    """Return a copy of ``part`` of a surface."""
    lanes, size = CHANNELS_PER_SURFACE, part.height * part.width * ATOM_BYTES
    begin = part.first * ATOM_BYTES
    cube = OutputCube(target.moved(begin), part.height, part.width, lanes, lanes, size, 1)
    return ElementwiseTask(
        tile=f"{name} from pixel {part.first}",
        source=source.moved(begin),
        source_surface_stride_bytes=size,
        output=cube,
    )


def linear_maxima(
    chip: Chip,
    pooling: Pooling,
    gaps: Pair,
    clamp: Pair,
    channels: int,
    *,
    is_narrow: bool,
) -> Move:
    """Return the move of maxima of int8. ``gaps``: rows and columns between the points of the
    window that count; ``clamp``: least and largest result.
    """
    axes = rows, columns = pooling.rows, pooling.columns
    size = rows.output_size, columns.output_size
    strides = _strides(rows, columns)
    is_skipped = Primitive.ROW_GAPS in chip.lacks or (rows.stride, columns.stride) != (1, 1)
    # Else single pixels are copied, or rows without what lies between them.
    ends_with_selection = size != (1, 1) and is_skipped
    unit = chip.groups.surface_pixels(is_depthwise=True)
    side = max(rows.kernel, columns.kernel)
    whole = rows.padded, align(columns.padded, unit)
    if ends_with_selection:
        side = _side(axes, side, unit)
        whole = _least_size(rows, side), _least_size(columns, side)
    depthwise = _is_depthwise(chip, channels, side)
    fetched = surfaces_of(channels)
    if chip.cbuf.weight_slice_bytes or depthwise:  # convolutions read whole groups
        fetched = surfaces_of(chip.groups.depthwise_lanes(channels))
    ranges = maxima_surfaces(chip, channels, is_narrow=is_narrow)
    shifts = (*(n * whole[1] for n in doublings(rows, gaps[0])), *doublings(columns, gaps[1]))
    view = View(1, *whole, channels)
    behind = align(sum(shifts) * ATOM_BYTES, DMA_ALIGN_BYTES)  # the map, that windows reach
    room = map_bytes(chip, view.pixels, channels) + behind
    # The pixels of the maxima that the last task reads.
    read = fetched * view.pixels
    if not ends_with_selection:
        read = (ranges[-1].stop - 1) * view.pixels + (size[0] - 1) * view.width + size[1]
    above, beside = (
        (axis.pad, n - axis.pad - axis.input_size) for axis, n in zip(axes, whole, strict=True)
    )
    inside = bordering(above, beside, INT8_MIN, clamp, is_square=True)

    def tasks(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        first, second, between = (work.moved(number * room) for number in range(3))
        written = surfaces_of(channels) * view.pixels
        for image in range(source.view.images):
            name = f"image {image}"
            bordered = source.alone(view, first)
            yield from moving.select(source.image(image), bordered, inside, depthwise=depthwise)
            now, left = first, read + sum(shifts)
            # What the last pixels' neighbours are does not matter, but they have to be.
            if shifts and left > written:
                end = first.moved(written * ATOM_BYTES)
                yield from _copied(chip, f"{name} end", first, end, left - written)
            for number, shift in enumerate(shifts, start=1):
                left -= shift
                other = first if now == second else second
                step = f"{name} maxima {number} of {len(shifts)}"
                yield from _shifted(chip, step, now, other, shift, left, between)
                now = other
            maxima, result = source.alone(view, now), pooled_image(pooling, target, image)
            if ends_with_selection:
                taken = Selection(taps=(side, side), strides=strides)
                yield from moving.select(maxima, result, taken, depthwise=depthwise)
            else:
                for surfaces in ranges:
                    yield _cropped(f"{name} result", maxima, result, size, surfaces)

    writes = selection_writes(chip, channels) if ends_with_selection else ranges[-1].stop
    pixels = chip.groups.surface_pixels(is_depthwise=ends_with_selection and depthwise)
    return Move(tasks, fetched, writes, work_bytes=3 * room, surface_pixels=pixels)


def _side(axes: tuple[Axis, Axis], least: int, unit: int) -> int:
    """Return the side of the kernel that ends it: with it maps are as large as depthwise tasks
    write them.
    """
    for side in range(least, least + unit):
        if math.prod(_least_size(axis, side) for axis in axes) % unit == 0:
            return side
    return least


def _is_depthwise(chip: Chip, channels: int, side: int) -> bool:
    """Return whether convolutions are depthwise: also where dense kernels are too large, as either
    kind fetches and writes as many channels.
    """
    most = chip.cbuf.weight_slice_bytes
    weights = chip.groups.dense_kernels * chip.groups.depthwise_lanes(channels) * side**2
    return is_depthwise(chip, channels) or 0 < most < weights


def _shifted(
    chip: Chip, name: str, now: Ref, maxima: Ref, shift: int, count: int, between: Ref
) -> Iterator[Task]:
    """``count`` pixels of ``maxima``, of ``now`` and itself."""
    for copy in _copied(chip, name, now, maxima, count):
        other = copy.source.moved(shift * ATOM_BYTES)
        yield from larger_of(chip, copy, other, copy.source_surface_stride_bytes, between)


def larger_of(
    chip: Chip, copy: ElementwiseTask, other: Ref, surface_bytes: int, between: Ref
) -> Iterator[ElementwiseTask]:
    """Yield ``copy`` with the larger one of each value and that of ``other``, whose surfaces are
    ``surface_bytes`` apart. ``between``: room for a map of its size.
    """
    ew = EwStage(
        other,
        operation=EwOperation.MAX,
        operand_bytes=copy.element.bytes,
        surface_stride_bytes=surface_bytes,
    )
    if copy.element is Element.FP16:
        yield replace(copy, ew=ew)
        return
    task = replace(copy, bs=UNCHANGED, ew=ew)
    if is_known(chip, TaskKind.ALONE, pair(EwOperation.MAX)):
        yield task
    else:
        yield from max_via_add(task, between)


def _copied(
    chip: Chip, name: str, source: Ref, target: Ref, count: int
) -> Iterator[ElementwiseTask]:
    for part in map_parts(chip, View(1, 1, count, CHANNELS_PER_SURFACE)):
        yield _copy(name, part, source, target)


def _cropped(
    name: str, maxima: DeviceTensor, result: DeviceTensor, size: Pair, surfaces: range
) -> ElementwiseTask:
    """The first pixels of the first rows of ``maxima``."""
    is_gapless = size[1] == maxima.view.width or size[0] == 1
    source, target = (
        tensor.location.moved(surfaces.start * tensor.surface_stride_bytes)
        for tensor in (maxima, result)
    )
    return ElementwiseTask(
        name,
        source,
        maxima.surface_stride_bytes,
        element_wise_cube(target, size, surfaces, result),
        source_line_stride_bytes=None if is_gapless else maxima.view.width * ATOM_BYTES,
    )


def _strides(rows: Axis, columns: Axis) -> Pair:
    """One that leads nowhere is the other one's: strides have to be the same."""
    by_row = rows.stride if rows.output_size > 1 else columns.stride
    return by_row, columns.stride if columns.output_size > 1 else by_row


def _least_size(axis: Axis, side: int) -> int:
    """So that ``side`` elements of a kernel give as many results."""
    return max((axis.output_size - 1) * axis.stride + side, axis.pad + axis.input_size)


UNCHANGED: Final = BsStage(alu=Source.REGISTER, alu_operand=0, mul=Source.REGISTER, mul_operand=1)
"""BS that adds 0 and multiplies by 1."""
_DIFFERENCE: Final = OutConvert(offset=INT8_MIN)


def sums(
    chip: Chip, first: DeviceTensor, second: DeviceTensor, target: DeviceTensor
) -> Iterator[ElementwiseTask]:
    """``target`` from two maps of its size, all of the same scale and zero point: exact."""
    for part in map_parts(chip, target.view):
        ew = EwStage(
            part.place(second),
            surface_stride_bytes=second.surface_stride_bytes,
            offset=-target.zero_point,
        )
        task = part.task(first, target, Stages(UNCHANGED, ew=ew))
        yield replace(task, tile=f"{task.tile} sum")


def max_via_add(task: ElementwiseTask, between: Ref) -> Iterator[ElementwiseTask]:
    """``task``, a maximum or minimum of two maps without gaps between rows, as two sums.
    ``between``: room for a map of its size.
    """
    ew, output = task.ew, task.output
    assert ew is not None
    assert ew.operand is not None
    is_max = ew.operation is EwOperation.MAX
    less = EwStage(
        ew.operand,
        per_channel=ew.per_channel,
        operand_bytes=ew.operand_bytes,
        surface_stride_bytes=ew.surface_stride_bytes,
        scale=-1,
    )
    source, stride = task.source, task.source_surface_stride_bytes
    if is_max:
        less = replace(less, operand=source, surface_stride_bytes=stride)
        source, stride = ew.operand, ew.surface_stride_bytes
    surface = output.height * output.width * ATOM_BYTES
    yield replace(
        task,
        tile=f"{task.tile} difference",
        source=source,
        source_surface_stride_bytes=stride,
        output=replace(output, target=between, surface_stride_bytes=surface),
        bs=UNCHANGED,
        ew=less,
        out_convert=_DIFFERENCE,
    )
    excess = EwStage(
        between, surface_stride_bytes=surface, offset=-INT8_MIN, scale=1 if is_max else -1
    )
    yield replace(task, bs=UNCHANGED, ew=excess, out_convert=OutConvert())
