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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.lower.legalize import is_known, pair
from delegate.lower.max_pool import Maxima
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, EwOperation, OutConvert
from delegate.lower.selection import Moving, Selection, bordering, is_depthwise, map_bytes
from delegate.lower.selection import surfaces_written as selection_writes
from delegate.lower.task import (
    BsStage,
    ElementwiseTask,
    EwStage,
    OutputCube,
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
from delegate.lower.tiling.geometry import Axis
from delegate.lower.weights import depthwise_channels
from delegate.model.cached import cached_property

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


@dataclass(frozen=True)
class LinearMaxPool(Maxima):
    """Maxima of int8. ``clamp``: least and largest result."""

    clamp: tuple[int, int] = ALL_VALUES

    @property
    def ends_with_selection(self) -> bool:
        """Else single pixels are copied, or rows without what lies between them."""
        if (self.pooling.rows.output_size, self.pooling.columns.output_size) == (1, 1):
            return False
        strides = self.pooling.rows.stride, self.pooling.columns.stride
        return Primitive.ROW_GAPS in self.chip.lacks or strides != (1, 1)

    def surfaces_written(self, channels: int) -> int:
        if self.ends_with_selection:
            return selection_writes(self.chip, channels)
        return self._surfaces(channels)[-1].stop

    def surfaces_read(self, channels: int) -> int:
        return self._fetched(channels)

    def surface_pixels(self, channels: int) -> int:
        """Return the unit of the pixels from one surface of the result to the next."""
        ends_depthwise = self.ends_with_selection and self._is_depthwise(channels)
        return self.chip.groups.surface_pixels(is_depthwise=ends_depthwise)

    def _is_depthwise(self, channels: int) -> bool:
        """Return whether convolutions are depthwise: also where dense kernels are too large, as
        either kind fetches and writes as many channels.
        """
        if not self.chip.cbuf.weight_slice_bytes:
            return is_depthwise(self.chip, channels)
        groups = self.chip.groups
        lanes = depthwise_channels(channels, groups)
        weights = groups.dense_kernels * lanes * self._side**2
        return is_depthwise(self.chip, channels) or weights > self.chip.cbuf.weight_slice_bytes

    def work_bytes(self, channels: int) -> int:
        """Three maps."""
        return 3 * self._room(channels)

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        channels = source.view.channels
        room = self._room(channels)
        first, second, between = (work.moved(number * room) for number in range(3))
        rows, columns = self.pooling.rows.output_size, self.pooling.columns.output_size
        view, depthwise = View(1, *self._size, channels), self._is_depthwise(channels)
        written = surfaces_of(channels) * view.pixels
        read = self._pixels_read(channels, view)
        shifts = self._pixel_shifts()
        for image in range(source.view.images):
            name = f"image {image}"
            bordered = source.alone(view, first)
            yield from moving.select(
                source.image(image), bordered, self._border(), depthwise=depthwise
            )
            now, left = first, read + sum(shifts)
            # What the last pixels' neighbours are does not matter, but they have to be.
            if shifts and left > written:
                end = first.moved(written * ATOM_BYTES)
                yield from self._copied(f"{name} end", first, end, left - written)
            for number, shift in enumerate(shifts, start=1):
                left -= shift
                other = first if now == second else second
                step = f"{name} maxima {number} of {len(shifts)}"
                yield from self._shifted(step, now, other, shift, left, between)
                now = other
            result = target.part(image * rows * columns, rows, columns)
            maxima = source.alone(view, now)
            if self.ends_with_selection:
                taken = Selection(taps=(self._side, self._side), strides=self._strides())
                yield from moving.select(maxima, result, taken, depthwise=depthwise)
            else:
                yield from self._cropped(f"{name} result", maxima, result)

    @cached_property
    def _side(self) -> int:
        """Return the side of the kernel that ends it: with it maps are as large as depthwise tasks
        write them.
        """
        rows, columns = self.pooling.rows, self.pooling.columns
        least = max(rows.kernel, columns.kernel)
        if not self.ends_with_selection:
            return least
        unit = self.chip.groups.surface_pixels(is_depthwise=True)
        fitting = (k for k in range(least, least + unit) if not _product(self._of(k)) % unit)
        return next(fitting, least)

    @property
    def _size(self) -> tuple[int, int]:
        """Rows and columns of maps."""
        return self._of(self._side)

    def _of(self, side: int) -> tuple[int, int]:
        rows, columns = self.pooling.rows, self.pooling.columns
        if not self.ends_with_selection:
            unit = self.chip.groups.surface_pixels(is_depthwise=True)
            return rows.padded, -(-columns.padded // unit) * unit
        return _least_size(rows, side), _least_size(columns, side)

    def _border(self) -> Selection:
        axes = zip((self.pooling.rows, self.pooling.columns), self._size, strict=True)
        rows, columns = ((axis.pad, size - axis.pad - axis.input_size) for axis, size in axes)
        return bordering(rows, columns, INT8_MIN, self.clamp, is_square=True)

    def _room(self, channels: int) -> int:
        """Return the bytes of a map and of the pixels behind it that windows reach."""
        behind = align(sum(self._pixel_shifts()) * ATOM_BYTES, DMA_ALIGN_BYTES)
        return map_bytes(self.chip, _product(self._size), channels) + behind

    def _fetched(self, channels: int) -> int:
        """Surfaces that convolutions read."""
        is_dense = not self.chip.cbuf.weight_slice_bytes and not self._is_depthwise(channels)
        if is_dense:
            return surfaces_of(channels)
        return depthwise_channels(channels, self.chip.groups) // CHANNELS_PER_SURFACE

    def _pixel_shifts(self) -> tuple[int, ...]:
        _, columns = self._size
        return tuple(shift * columns for shift in self.row_shifts) + self.column_shifts

    def _shifted(
        self, name: str, now: Ref, maxima: Ref, shift: int, count: int, between: Ref
    ) -> Iterator[Task]:
        """``count`` pixels of ``maxima``, of ``now`` and itself."""
        for copy in self._copied(name, now, maxima, count):
            ew = EwStage(
                copy.source.moved(shift * ATOM_BYTES),
                operation=EwOperation.MAX,
                surface_stride_bytes=copy.source_surface_stride_bytes,
            )
            task = replace(copy, bs=UNCHANGED, ew=ew)
            if is_known(self.chip, TaskKind.ALONE, pair(EwOperation.MAX)):
                yield task
            else:
                yield from max_via_add(task, between)

    def _copied(self, name: str, source: Ref, target: Ref, count: int) -> Iterator[ElementwiseTask]:
        view = View(1, 1, count, CHANNELS_PER_SURFACE)
        for part in map_parts(self.chip, view):
            yield _copy(name, part, source, target)

    def _pixels_read(self, channels: int, view: View) -> int:
        """Return the pixels of the maxima that the last task reads: a convolution reads whole
        groups of channels.
        """
        if self.ends_with_selection:
            return self._fetched(channels) * view.pixels
        rows, columns = self.pooling.rows.output_size, self.pooling.columns.output_size
        surfaces = self._surfaces(channels)[-1].stop
        return (surfaces - 1) * view.pixels + (rows - 1) * view.width + columns

    def _cropped(self, name: str, maxima: DeviceTensor, result: DeviceTensor) -> Iterator[Task]:
        """The first pixels of the first rows of ``maxima``."""
        size = self.pooling.rows.output_size, self.pooling.columns.output_size
        is_gapless = size[1] == maxima.view.width or size[0] == 1
        line = None if is_gapless else maxima.view.width * ATOM_BYTES
        for surfaces in self._surfaces(result.view.channels):
            begin = surfaces.start
            target = result.location.moved(begin * result.surface_stride_bytes)
            yield ElementwiseTask(
                name,
                maxima.location.moved(begin * maxima.surface_stride_bytes),
                maxima.surface_stride_bytes,
                element_wise_cube(target, size, surfaces, result),
                source_line_stride_bytes=line,
            )

    def _strides(self) -> tuple[int, int]:
        """One that leads nowhere is the other one's: strides have to be the same."""
        rows, columns = self.pooling.rows, self.pooling.columns
        by_row = rows.stride if rows.output_size > 1 else columns.stride
        return by_row, columns.stride if columns.output_size > 1 else by_row


def _least_size(axis: Axis, side: int) -> int:
    """So that ``side`` elements of a kernel give as many results."""
    return max((axis.output_size - 1) * axis.stride + side, axis.pad + axis.input_size)


def _product(sides: tuple[int, int]) -> int:
    rows, columns = sides
    return rows * columns


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
