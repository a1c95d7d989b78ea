"""Maxima under windows by the PPU, as the vendor's recorded programs have them.

One task takes a whole map, or columns of it where the line buffer holds no more: then windows of
neighbouring tasks overlap in what they read. Padding takes no part in a maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.max_pool import maxima_surfaces, pooled_image
from delegate.lower.max_pool_sums import ALL_VALUES
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.selection import Move, Moving
from delegate.lower.task import BufferId, OutputCube, PoolTask, Ref, Task
from delegate.lower.tiling.element_wise import element_wise_cube
from delegate.lower.tiling.geometry import Axis, Pooling, Window, pooled_columns

_MOST_PADDING = 7
"""The most that the fields of rows and columns of padding hold."""


def unit_maxima(
    chip: Chip, pooling: Pooling, element: Element, channels: int, *, is_narrow: bool
) -> Move:
    """Return the move of maxima by the PPU, one task for a map of few columns."""
    height, width = pooling.rows, pooling.columns
    rows = height.window(0, height.output_size)
    most = pooled_columns(height.kernel, height.stride)
    # Columns of equal width, but for the last.
    parts = width.windows(-(-width.output_size // -(-width.output_size // most)))
    ranges = maxima_surfaces(chip, channels, is_narrow=is_narrow)

    def task(
        name: str, source: DeviceTensor, target: DeviceTensor, surfaces: range, columns: Window
    ) -> PoolTask:
        place = _at(target, surfaces.start, columns.output_start)
        size = rows.output_size, columns.output_size
        cube = element_wise_cube(place, size, surfaces, target, element)
        return PoolTask(
            tile=name,
            source=_at(source, surfaces.start, columns.input_start),
            height=rows.input_size,
            width=columns.input_size,
            source_line_stride_bytes=source.view.width * ATOM_BYTES,
            source_surface_stride_bytes=source.surface_stride_bytes,
            output=replace(cube, line_stride_bytes=target.view.width * ATOM_BYTES),
            kernel=(height.kernel, width.kernel),
            strides=(height.stride, width.stride),
            pad_before=(rows.pad, columns.pad),
            pad_after=(_behind(height, rows), _behind(width, columns)),
            element=element,
        )

    def tasks(_: Moving, source: DeviceTensor, target: DeviceTensor, __: Ref) -> Iterator[Task]:
        for image in range(source.view.images):
            ends = source.image(image), pooled_image(pooling, target, image)
            for surfaces in ranges:
                for part in parts:
                    name = f"image {image} columns from {part.output_start}"
                    yield task(name, *ends, surfaces, part)

    return Move(tasks, ranges[-1].stop, ranges[-1].stop)


def _behind(axis: Axis, window: Window) -> int:
    """Return the padding behind what ``window`` reads."""
    reach = (window.output_size - 1) * axis.stride + axis.reach
    return reach - window.pad - window.input_size


def _at(tensor: DeviceTensor, surface: int, column: int) -> Ref:
    return tensor.location.moved(surface * tensor.surface_stride_bytes + column * ATOM_BYTES)


def takes(chip: Chip, pooling: Pooling, clamp: tuple[int, int], element: Element) -> bool:
    """Return whether the PPU may take such maxima: the driver waits for it, the padding's fields
    hold what is asked, and somebody has run such tasks.
    """
    if Primitive.POOLING in chip.lacks or clamp != ALL_VALUES:
        return False
    axes = pooling.rows, pooling.columns
    if any(max(axis.pad, axis.pad_after) > _MOST_PADDING for axis in axes):
        return False
    most = pooled_columns(pooling.rows.kernel, pooling.rows.stride)
    sample = _sample(pooling, element, gap=int(pooling.columns.output_size > most))
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
