"""Pixels repeated on a chip of which no program writes pixels apart.

Two views of the same memory are enough. A pixel is an image of one column: with as much padding on
both sides as the kernel reaches over, every weight of it gives a result of its own, side by side.
And rows of maps without gaps lie apart as surfaces do, so that a task takes rows for channels: it
writes rows apart as it writes surfaces of a larger map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE, align, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.rules import FORM_IS_KNOWN, TASKS_IN_RANGE
from delegate.lower.selection import Selection, selection_tasks, surfaces_written
from delegate.lower.task import ConvTask
from delegate.model.graph import Node

_DENSE_ROWS: Final = 8
"""Of a dense task, whose multiplications grow with their square: four groups of kernels."""
_MOST_TASKS: Final = 256
"""More launches than convolutions of a network take."""


@dataclass(frozen=True, slots=True)
class _Run:
    """``rows`` rows from number ``target`` of the result on, of those from ``source`` on."""

    source: int
    target: int
    rows: int

    def part(self, first: int, rows: int) -> _Run:
        return _Run(self.source + first, self.target + first, rows)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every pixel of ``view`` becomes ``factors`` rows and columns of the same values."""

    chip: Chip
    view: View
    factors: tuple[int, int]

    @property
    def surfaces_read(self) -> int:
        """At least as many rows as a task fetches."""
        return max(surfaces_of(self.view.channels), -(-self._group // self.view.height))

    @property
    def surfaces_written(self) -> int:
        """Whole groups, as readers fetch them."""
        return surfaces_written(self.chip, self.view.channels)

    def tasks(
        self, node: Node, source: DeviceTensor, target: DeviceTensor, constants: ConstantPool
    ) -> Iterator[ConvTask]:
        """Of one image. Raises LoweringError."""
        real, written = surfaces_of(self.view.channels), self.surfaces_written
        is_close = (
            source.surface_stride_bytes == self.view.pixels * ATOM_BYTES
            and target.surface_stride_bytes == self.view.height * self._result_bytes
        )
        height = self.view.height
        if not is_close and height < self._group:
            problem = f"surfaces of {height} rows, with gaps between them"
            raise LoweringError(node.index, FORM_IS_KNOWN, problem)
        if is_close:  # rows lie apart alike over all surfaces
            everything = [(0, 0, _Run(0, 0, real * height))]
            # What readers of whole groups fetch behind the last channels: any values.
            spare = [(0, 0, _Run(0, number * height, height)) for number in range(real, written)]
        else:
            everything = [(surface, surface, _Run(0, 0, height)) for surface in range(real)]
            spare = [(0, surface, _Run(0, 0, height)) for surface in range(real, written)]
        for number, (from_, to, run) in enumerate((*spare, *everything)):
            there = source.location.moved(from_ * source.surface_stride_bytes)
            here = target.location.moved(to * target.surface_stride_bytes)
            room = (written if is_close else 1) * height
            ends = replace(source, location=there), replace(target, location=here)
            for piece in self._pieces(node, run, room):
                for task in self._repeated(node, *ends, piece, constants):
                    is_spare = number < len(spare)
                    output = replace(task.output, channels_real=0) if is_spare else task.output
                    yield replace(task, output=output)

    @property
    def _result_bytes(self) -> int:
        """Of what a row of the source becomes."""
        rows, columns = self.factors
        return rows * columns * self.view.width * ATOM_BYTES

    def _pieces(self, node: Node, run: _Run, room: int) -> Iterator[_Run]:
        """What a task takes of ``run``: whole groups, the last of which takes some rows again.
        ``room``: rows of the result. Raises LoweringError.
        """
        group = self._group
        most = self._most_rows // group * group
        count = self.factors[0] * -(-run.rows // most)
        if count > _MOST_TASKS:
            raise LoweringError(node.index, TASKS_IN_RANGE, f"it takes {count}")
        if 0 < run.rows < group:
            written = align(run.rows, self.chip.groups.dense_kernels // CHANNELS_PER_SURFACE)
            yield replace(run, target=min(run.target, room - written))
            return
        whole = run.rows // group * group
        for first in range(0, whole, most):
            yield run.part(first, min(most, whole - first))
        if whole < run.rows:
            yield run.part(run.rows - group, group)

    @property
    def _group(self) -> int:
        """Rows that a task fetches together, and a depthwise one writes."""
        return self.chip.groups.depthwise_channels // CHANNELS_PER_SURFACE

    @property
    def _is_depthwise(self) -> bool:
        """Whether rows lie apart as surfaces of depthwise results may."""
        unit = self.chip.forms.surface_pixels(is_depthwise=True)
        pixels = self._result_bytes // ATOM_BYTES
        return pixels == 1 or pixels % unit == 0

    @property
    def _most_rows(self) -> int:
        """Of a task. A depthwise weight has its zero point beside it."""
        groups, lanes = self.chip.groups, CHANNELS_PER_SURFACE
        weights = self.factors[1] ** 2 * lanes
        room = self.chip.cbuf.weight_slice_bytes
        if self._is_depthwise:
            return min(self.chip.limits.input_channels // lanes, room // (2 * weights))
        return min(_DENSE_ROWS, room // (groups.dense_kernels * weights))

    def _repeated(
        self,
        node: Node,
        source: DeviceTensor,
        target: DeviceTensor,
        run: _Run,
        constants: ConstantPool,
    ) -> Iterator[ConvTask]:
        row_bytes = self.view.width * ATOM_BYTES
        rows, columns = self.factors
        channels = run.rows * CHANNELS_PER_SURFACE
        pixels = replace(
            source,
            view=View(1, self.view.width, 1, channels),
            location=source.location.moved(run.source * row_bytes),
            within=Strides(row_bytes, source.image_stride_bytes),
        )
        selection = Selection(taps=(1, columns), tap=None, padding=(0, columns - 1))
        for repeated in range(rows):
            begin = run.target * self._result_bytes + repeated * columns * row_bytes
            results = replace(
                target,
                view=View(1, self.view.width, columns, channels),
                location=target.location.moved(begin),
                within=Strides(self._result_bytes, target.image_stride_bytes),
            )
            given = self.chip, node, pixels, results, selection, constants
            depthwise = self._is_depthwise and run.rows % self._group == 0
            yield from selection_tasks(*given, depthwise=depthwise)


def writes_no_pixels_apart(chip: Chip) -> bool:
    """Whether ``chip`` has no setting for that."""
    return not chip.knows("transposed_convolution")
