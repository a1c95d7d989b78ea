"""Tensors as parts of one another by copies, where they cannot lie inside one another.

Parts that begin at a surface are copied by the DPU alone, through a table where the quantisation
changes. Others are copied to whole surfaces side by side first; a convolution with a permutation
for weights brings their channels together. Parts are cut out by such a convolution too, which also
skips rows and columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.chip.limits import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import Moving, Selection, is_depthwise, surfaces_written
from delegate.lower.tables import copy_tasks, table_tasks
from delegate.lower.task import ConvTask, ElementwiseTask, Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part of a tensor begins: image, row, column, channel. ``steps``: every how many rows
    and columns are taken. ``function``: results for -128 to 127, as int8; None: the same values.
    """

    begin: tuple[int, int, int, int]
    steps: tuple[int, int] = (1, 1)
    function: bytes | None = None


def _surface(channel: int) -> int:
    return channel // CHANNELS_PER_SURFACE


def _window(tensor: DeviceTensor, begin: tuple[int, int, int, int], view: View) -> DeviceTensor:
    """A box of ``tensor`` that begins at a surface, as a tensor of its own."""
    image, row, column, channel = begin
    first = (image * tensor.view.height + row) * tensor.view.width + column
    return tensor.window(view, pixel=first, surface=_surface(channel))


def _copies(
    chip: Chip, source: DeviceTensor, target: DeviceTensor, function: bytes | None
) -> tuple[ElementwiseTask, ...]:
    if function is None:
        return copy_tasks(chip, source, target)
    return table_tasks(chip, source, target, function)


@dataclass(frozen=True, slots=True)
class Join:
    """How ``parts``, with as many channels as ``channels`` says, make a tensor of ``total``, spare
    ones included that have to be 0.
    """

    chip: Chip
    parts: tuple[Part, ...]
    channels: tuple[int, ...]
    total: int

    @property
    def at_surfaces(self) -> bool:
        """Whether every part begins at one."""
        return all(part.begin[3] % CHANNELS_PER_SURFACE == 0 for part in self.parts)

    @property
    def surfaces_written(self) -> int:
        """Return how many surfaces of the result are written."""
        if not self.at_surfaces:
            return self.chip.groups.surfaces_written(self.total, is_depthwise=False)
        ends = (
            _surface(part.begin[3]) + surfaces_touched(self.chip, channels)
            for part, channels in zip(self.parts, self.channels, strict=True)
        )
        return max(*ends, surfaces_touched(self.chip, self.total))

    def tasks(
        self, moving: Moving, sources: Sequence[DeviceTensor], target: DeviceTensor, work: Ref
    ) -> list[Task]:
        """Raises LoweringError."""
        if self.at_surfaces:
            return self._directly(sources, target)
        return self._permuted(moving, sources, target, work)

    def _directly(self, sources: Sequence[DeviceTensor], target: DeviceTensor) -> list[Task]:
        """In ascending order, so that what is written beyond a part is overwritten by the next."""
        tasks: list[Task] = []
        end = 0
        for part, source in zip(self.parts, sources, strict=True):
            window = _window(target, part.begin, source.view)
            tasks += _copies(self.chip, source, window, part.function)
            touched = surfaces_touched(self.chip, source.view.channels)
            end = max(end, _surface(part.begin[3]) + touched)
        # What readers of whole groups fetch behind the last part: any values.
        for surface in range(end, surfaces_touched(self.chip, self.total)):
            view = replace(sources[0].view, channels=CHANNELS_PER_SURFACE)
            begin = (0, 0, 0, surface * CHANNELS_PER_SURFACE)
            source = _window(sources[0], (0, 0, 0, 0), view)
            copies = copy_tasks(self.chip, source, _window(target, begin, view))
            tasks += [replace(t, output=replace(t.output, channels_real=0)) for t in copies]
        return tasks

    @property
    def _firsts(self) -> list[int]:
        """The first surface of each part among whole ones side by side, and the end of all."""
        return [0, *itertools.accumulate(map(surfaces_of, self.channels))]

    def _staged(self, target: DeviceTensor) -> DeviceTensor:
        """The parts side by side in whole surfaces, with room for whole groups."""
        *firsts, end = self._firsts
        room = max(
            first + surfaces_touched(self.chip, channels)
            for first, channels in zip(firsts, self.channels, strict=True)
        )
        view = replace(target.view, channels=end * CHANNELS_PER_SURFACE)
        return replace(target, view=view, surfaces=room, within=None, gap_pixels=0)

    def work_bytes(self, target: DeviceTensor) -> int:
        """Return the bytes of memory beside operands and result."""
        return 0 if self.at_surfaces else self._staged(target).size_bytes

    def _permuted(
        self, moving: Moving, sources: Sequence[DeviceTensor], target: DeviceTensor, work: Ref
    ) -> list[Task]:
        """Through whole surfaces side by side."""
        staged = replace(self._staged(target), location=work)
        firsts, lanes = self._firsts, staged.view.channels
        tasks: list[Task] = []
        weights = np.zeros((self.total, 1, 1, lanes), np.int8)
        given = zip(self.parts, self.channels, sources, firsts[:-1], strict=True)
        for part, channels, source, first in given:
            lane = first * CHANNELS_PER_SURFACE
            window = _window(staged, (0, 0, 0, lane), source.view)
            tasks += _copies(self.chip, source, window, part.function)
            count = np.arange(channels)
            weights[part.begin[3] + count, 0, 0, lane + count] = 1
        return [*tasks, *moving.move(staged, target, weights)]


@dataclass(frozen=True, slots=True)
class Cut:
    """How a part of ``channels`` channels is taken out of a tensor. ``written``: with spare ones
    that have to be 0.
    """

    chip: Chip
    part: Part
    channels: int
    written: int

    @property
    def _lane(self) -> int:
        """In its first surface."""
        return self.part.begin[3] % CHANNELS_PER_SURFACE

    @property
    def _is_selection(self) -> bool:
        is_whole = self._lane == 0 and self.written == self.channels
        return is_whole and is_depthwise(self.chip, self.channels)

    @property
    def surfaces_read(self) -> int:
        """Return how many surfaces of the whole are read, from its first one on."""
        return _surface(self.part.begin[3]) + surfaces_of(self._lane + self.channels)

    @property
    def surfaces_written(self) -> int:
        if self._is_selection:
            return surfaces_written(self.chip, self.channels)
        return self.chip.groups.surfaces_written(self.written, is_depthwise=False)

    def tasks(self, moving: Moving, source: DeviceTensor, target: DeviceTensor) -> list[ConvTask]:
        """Columns left of the part lie under weights that count as zero. Raises LoweringError."""
        image, row, column, channel = self.part.begin
        rows = (target.view.height - 1) * self.part.steps[0] + 1
        lanes = self._lane + self.channels
        view = View(target.view.images, rows, source.view.width, lanes)
        window = _window(source, (image, row, 0, channel), view)
        selection = Selection((1, column + 1), (0, column), self.part.steps)
        if self._is_selection:
            return moving.select(window, target, selection)
        weights = np.zeros((self.written, 1, column + 1, lanes), np.int8)
        count = np.arange(self.channels)
        weights[count, 0, column, self._lane + count] = 1
        return moving.move(window, target, weights, selection)
