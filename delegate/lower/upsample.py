"""Pixels repeated, or put apart, on a chip of which no program writes pixels apart.

Two views of the same memory are enough. A pixel is an image of one column: with as much padding on
both sides as the kernel reaches over, every weight of it gives a result of its own, side by side;
of a kernel with one weight the padding's value gives the others. And rows of maps without gaps lie
apart as surfaces do, so that a task takes rows for channels: it writes rows apart as it writes
surfaces of a larger map.

A convolution of pixels that lie apart, on a chip that only convolves maps as they are: the map
with the zero point between its pixels is made first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.errors import LoweringError
from delegate.lower.lowered import Layer
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.operation import Memory, Operation, Plan
from delegate.lower.rules import FORM_IS_KNOWN, TASKS_IN_RANGE
from delegate.lower.selection import Moving, Selection, kernels, surfaces_written
from delegate.lower.task import ConvTask, Pair, Ref

_DENSE_ROWS: Final = 8
"""The rows of a dense task, whose multiplications grow with their square: four groups of kernels.
"""
_MOST_TASKS: Final = 256
"""More launches than convolutions of a network take."""


_Run = tuple[range, int, int]
"""Rows of the source, the first of the result that they become, and how many rows before its own a
task fetches, too.
"""

_Span = tuple[range, range]
"""Pixels of a row, and the places in the result's row that the first of them gets."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every pixel of ``view`` becomes ``factors`` rows and columns: of the same values, or where
    there is a value ``between``, of that but for the pixel in the first column of row ``row``.
    ``ends``: how often rows repeat their first and last pixel beside that. ``is_staged``: the
    result is memory of an operation's own, see ``staged``, of which nothing is written twice.
    """

    chip: Chip
    view: View
    factors: tuple[int, int]
    between: int | None = None
    row: int = 0
    ends: tuple[int, int] = (0, 0)
    is_staged: bool = False

    @property
    def surfaces_read(self) -> int:
        """Return the surfaces that tasks read, at least as many rows as a task fetches."""
        return max(surfaces_of(self.view.channels), -(-self._group // self.view.height))

    @property
    def surfaces_written(self) -> int:
        """Whole groups where readers fetch them."""
        channels = self.view.channels
        if self.is_staged:
            return surfaces_of(self.chip.groups.dense_lanes(channels))
        return surfaces_written(self.chip, channels)

    def staged(self, source: DeviceTensor, place: Ref) -> DeviceTensor:
        """The result of all images of ``source``, at ``place``."""
        height = self.view.height * self.factors[0]
        view = replace(source.view, height=height, width=self._row_pixels)
        return replace(source.alone(view, place), surfaces=self.surfaces_written)

    def staged_bytes(self, source: DeviceTensor) -> int:
        """Return the bytes of the staged result, with room for the row that completes the last
        group.
        """
        there = self.staged(source, source.location)
        return align(there.size_bytes + self._result_bytes, DMA_ALIGN_BYTES)

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor
    ) -> Iterator[ConvTask]:
        """Yield the tasks of one image. Raises LoweringError."""
        real, written = surfaces_of(self.view.channels), self.surfaces_written
        is_close = (
            source.surface_stride_bytes == self.view.pixels * ATOM_BYTES
            and target.surface_stride_bytes == self.view.height * self._result_bytes
        )
        height = self.view.height
        if not is_close and height < self._group:
            problem = f"surfaces of {height} rows, with gaps between them"
            raise LoweringError(moving.node.index, FORM_IS_KNOWN, problem)
        if is_close:  # rows lie apart alike over all surfaces
            everything = [(0, 0, 0, real * height)]
            # What readers of whole groups fetch behind the last channels: any values.
            spare = [(0, 0, number * height, height) for number in range(real, written)]
        else:
            everything = [(surface, surface, 0, height) for surface in range(real)]
            spare = [(0, surface, 0, height) for surface in range(real, written)]
        for number, (from_, to, first, rows) in enumerate((*spare, *everything)):
            there = source.location.moved(from_ * source.surface_stride_bytes)
            here = target.location.moved(to * target.surface_stride_bytes)
            room = (written if is_close else 1) * height
            ends = replace(source, location=there), replace(target, location=here)
            for piece in self._pieces(moving.node.index, first, rows, room):
                for task in self._repeated(moving, *ends, piece):
                    # Registers of a chip without operand blocks hold how many channels are real.
                    is_spare = number < len(spare) and Primitive.REGISTER_NUMBERS in self.chip.lacks
                    output = replace(task.output, channels_real=0) if is_spare else task.output
                    yield replace(task, output=output)

    @property
    def _row_pixels(self) -> int:
        return self.factors[1] * self.view.width + sum(self.ends)

    @property
    def _result_bytes(self) -> int:
        """Return the bytes that a row of the source becomes."""
        return self.factors[0] * self._row_pixels * ATOM_BYTES

    @property
    def _spans(self) -> tuple[_Span, ...]:
        before, behind = self.ends
        width, columns = self.view.width, self.factors[1]
        end = before + width * columns
        spans = (
            (range(width), range(before, before + columns)),
            (range(1), range(before)),
            (range(width - 1, width), range(end, end + behind)),
        )
        return tuple(span for span in spans if span[1])

    def _pieces(self, node: int, target: int, rows: int, room: int) -> Iterator[_Run]:
        """Yield the part of each task of so many ``rows``, which become those from ``target`` on:
        whole groups, the last of which takes some rows again, or in a staged result only fetches
        them. ``room``: rows of the result. Raises LoweringError.
        """
        group = self._group
        most = self._most_rows // group * group
        count = self.factors[0] * len(self._spans) * -(-rows // most)
        if count > _MOST_TASKS:
            raise LoweringError(node, TASKS_IN_RANGE, f"it takes {count}")
        if 0 < rows < group:
            written = align(rows, self.chip.groups.dense_kernels // CHANNELS_PER_SURFACE)
            last = target if self.is_staged else room - written
            yield range(rows), min(target, last), 0
            return
        whole = rows // group * group
        for first in range(0, whole, most):
            yield range(first, min(first + most, whole)), target + first, 0
        rest = rows - whole
        if rest and self.is_staged:
            yield range(whole, rows), target + whole, group - rest
        elif rest:
            yield range(rows - group, rows), target + rows - group, 0

    @property
    def _group(self) -> int:
        """Rows that a task fetches together, and a depthwise one writes."""
        return self.chip.groups.depthwise_channels // CHANNELS_PER_SURFACE

    @property
    def _is_depthwise(self) -> bool:
        """Return whether rows lie apart as surfaces of depthwise results may."""
        unit = self.chip.groups.surface_pixels(is_depthwise=True)
        pixels = self._result_bytes // ATOM_BYTES
        return pixels == 1 or pixels % unit == 0

    @property
    def _most_rows(self) -> int:
        """Return the most rows of a task. A depthwise weight has its zero point beside it."""
        groups, lanes = self.chip.groups, CHANNELS_PER_SURFACE
        weights = max(len(places) for _, places in self._spans) ** 2 * lanes
        cbuf = self.chip.cbuf
        room = cbuf.weight_slice_bytes or cbuf.resident_weight_banks * cbuf.bank_bytes
        if self._is_depthwise:
            return min(self.chip.limits.input_channels // lanes, room // (2 * weights))
        return min(_DENSE_ROWS, room // (groups.dense_kernels * weights))

    def _repeated(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, run: _Run
    ) -> Iterator[ConvTask]:
        for repeated in range(self.factors[0]):
            first = run[1] * self._result_bytes + repeated * self._row_pixels * ATOM_BYTES
            for span in self._spans:
                here = target.location.moved(first + span[1].start * ATOM_BYTES)
                ends = source, replace(target, location=here)
                yield from self._row(moving, *ends, run, span, repeated)

    def _row(
        self,
        moving: Moving,
        source: DeviceTensor,
        target: DeviceTensor,
        run: _Run,
        span: _Span,
        number: int,
    ) -> list[ConvTask]:
        """Row ``number`` of those that each of ``run`` becomes, of ``span``."""
        row_bytes, (given, places), (rows, _, skipped) = self.view.width * ATOM_BYTES, span, run
        fetched, channels = (
            count * CHANNELS_PER_SURFACE for count in (skipped + len(rows), len(rows))
        )
        begin = (rows.start - skipped) * row_bytes + given.start * ATOM_BYTES
        pixels = replace(
            source,
            view=View(1, len(given), 1, fetched),
            location=source.location.moved(begin),
            within=Strides(row_bytes, source.image_stride_bytes),
        )
        results = replace(
            target,
            view=View(1, len(given), len(places), channels),
            within=Strides(self._result_bytes, target.image_stride_bytes),
        )
        depthwise = self._is_depthwise and len(rows) % self._group == 0
        taps = np.ones((1, len(places)), np.int8)
        summand = 0
        if self.between is not None:
            taps[0, :-1] = 0
            if number != self.row:
                taps[:], summand = 0, self.between
        weights = kernels(taps, channels if depthwise else fetched, depthwise=depthwise)
        if not depthwise:
            weights = weights[fetched - channels :]
        return moving.move(
            *(pixels, results, weights),
            Selection(padding=(0, len(places) - 1), outside=self.between or 0),
            is_depthwise=depthwise,
            summands=np.full(channels, summand, np.int64),
        )


def lie_in_memory(chip: Chip, spread: Pair, padding: Pair = (0, 0)) -> bool:
    """Return whether pixels that are ``spread`` apart have to be so in memory: ``chip`` has no
    setting for it, or none with such ``padding`` beside them.
    """
    limits = chip.limits
    return not set(spread) <= set(limits.spreads) or max(padding) > limits.spread_pad


def zeros_inserted_first(
    operation: Operation, source: DeviceTensor, repeat: Repeat, convolved: Plan
) -> Plan:
    """Return the plan of ``convolved``, which reads ``repeat``'s result instead of ``source``, the
    operation's first operand.
    """
    room = repeat.staged_bytes(source)

    def emit(memory: Memory) -> Layer:
        work, given = memory.work, memory.tensors[source.index]
        moving = Moving(repeat.chip, operation.node, memory.constants)
        apart = repeat.staged(given, work)
        tensors = {**memory.tensors, source.index: apart}
        layer = convolved.emit(replace(memory, tensors=tensors, work=work.moved(room)))
        tasks = [
            task
            for image in range(given.view.images)
            for task in repeat.tasks(moving, given.image(image), apart.image(image))
        ]
        rows, columns = repeat.factors
        choice = f"pixels {rows} x {columns} apart first, {layer.choice}"
        return replace(layer, tasks=(*tasks, *layer.tasks), choice=choice)

    footprint = replace(
        convolved.footprint,
        reads=((source.index, repeat.surfaces_read),),
        work_bytes=room + convolved.footprint.work_bytes,
    )
    return Plan(operation, footprint, emit)
