"""Elements in another order, by convolutions with permutations for weights.

Pixels lie anywhere, as rows of one pixel that lie apart. Under a window lie the pixels that become
channels of one; each part of the channels that becomes pixels is a convolution of its own. Where
whole rows of pixels change places with the channels, blocks of 16 by 16 are turned round: a kernel
for each of the 256 results, which are written as 16 surfaces that lie a pixel apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    align,
    surfaces_of,
)
from delegate.lower.group_padding import padding_copies
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.moves import Moves, as_they_are, spots
from delegate.lower.selection import Moving, is_depthwise, surfaces_written
from delegate.lower.task import ConvTask, Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.index_map import Digit

BLOCK = CHANNELS_PER_SURFACE
MOST_TASKS = 256
"""More launches than convolutions of a network take: the CPU is faster."""

MOST_COLUMNS = 64
"""The pixels of a row of many that lie one behind the other: rows are cut into tiles, pixels of a
row are not.
"""

POINT = Digit(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Reorder:
    """``source_channels`` and ``channels``: of a pixel of operand and result. ``is_folded``: rows
    have up to MOST_COLUMNS pixels.
    """

    chip: Chip
    moves: Moves
    source_channels: int
    channels: int
    is_folded: bool = False

    @property
    def is_turn(self) -> bool:
        """Return whether blocks are turned round."""
        turning = self._turning_tasks
        return turning is not None and not 0 < self._moving_tasks <= turning

    @property
    def count(self) -> int:
        """Return the number of tasks, where each of them fits CBUF; 0: they cannot do it."""
        return (self._turning_tasks if self.is_turn else self._moving_tasks) or 0

    @property
    def surfaces_read(self) -> int:
        return surfaces_of(self.source_channels)

    @property
    def surfaces_written(self) -> int:
        if not self.is_turn:
            return _surfaces_moved(self.chip, self.channels, is_unit=self._is_unit)
        if self._is_staged:
            return _surfaces_moved(self.chip, self.channels, is_unit=True)
        return max(surfaces_of(self.channels), surfaces_touched(self.chip, self.channels))

    @property
    def surface_pixels(self) -> int:
        """Return the unit of the pixels from one surface of the result to the next."""
        ends_depthwise = self._is_unit and is_depthwise(self.chip, self.channels)
        return self.chip.groups.surface_pixels(ends_depthwise)

    @property
    def _is_unit(self) -> bool:
        """Return whether the tasks leave channels as they are."""
        return not self.is_turn and self._keeps_channels

    @property
    def _keeps_channels(self) -> bool:
        return self._reach == 1 and _is_unit(self._weights(0, 1))

    @property
    def work_bytes(self) -> int:
        """Return the bytes of memory beside operand and result."""
        if not (self.is_turn and self._is_staged):
            return 0
        pixels = align(self._cut.size, 2) * math.prod(step.size for step in self.moves.pixels)
        return align(surfaces_of(self.channels) * pixels * ATOM_BYTES, DMA_ALIGN_BYTES)

    @property
    def _cut(self) -> Digit:
        return self.moves.cut[0] if self.moves.cut else POINT

    @property
    def _is_staged(self) -> bool:
        """Return whether blocks end within a surface."""
        return self.source_channels % BLOCK > 0

    @property
    def _reach(self) -> int:
        """Pixels under the window."""
        return 1 + max(source for source, _ in spots(self.moves.joined))

    @property
    def _moving_tasks(self) -> int:
        """0: the window is too wide."""
        if math.prod(step.size for step in self.moves.joined) > self.chip.limits.kernel_size:
            return 0
        if not self._fits(self._reach):
            return 0
        parts = math.prod(step.size for step in self.moves.cut)
        *_, loops = self._grid()
        return parts * math.prod(step.size for step in loops)

    @property
    def _turning_tasks(self) -> int | None:
        """Return how many tasks turn blocks; None: more than one row of pixels or channels changes
        places.
        """
        moves = self.moves
        steps = (*moves.joined, *moves.cut)
        if (moves.first, moves.channels) != ((0, 0), ((0, 0),)):
            return None
        if max(len(moves.joined), len(moves.cut)) > 1 or self._cut.size != self.source_channels:
            return None
        if not steps or any(step.source != 1 for step in steps):
            return None
        blocks = (-(-self.channels // BLOCK), -(-self.source_channels // BLOCK))
        return math.prod(step.size for step in moves.pixels) * 2 * (min(blocks) + 1)

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Raises LoweringError."""
        if self.is_turn:
            tasks = self._turned(moving, source, target, work)
        else:
            tasks = self._moved(moving, source, target)
        before: Task | None = None
        for task in tasks:
            before = keeping_weights(self.chip, task, before)
            yield before

    def _moved(self, moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        rows, columns, loops = self._grid()
        size = rows.size, columns.size
        reach = self._reach
        for first_channel, part in spots(self.moves.cut):
            lane = first_channel % CHANNELS_PER_SURFACE
            weights = self._weights(lane, reach)
            lanes = weights.shape[3]
            for begin, end in spots(loops, self.moves.first):
                view = View(1, rows.size, columns.size + reach - 1, lanes)
                surface = first_channel // CHANNELS_PER_SURFACE
                window = source.window(view, pixel=begin, surface=surface, row_pixels=rows.source)
                view = View(1, *size, self.channels)
                result = target.window(view, pixel=end + part, row_pixels=rows.result)
                if _is_unit(weights) and is_depthwise(self.chip, lanes):
                    yield from moving.select(window, result)
                else:
                    yield from moving.move(window, result, weights)

    def _grid(self) -> tuple[Digit, Digit, list[Digit]]:
        """Rows and columns of one task, and what is left for several. Windows that reach over
        several pixels are one to a row.
        """
        left = list(self.moves.pixels)
        columns = next((s for s in left if (s.source, s.result, self._reach) == (1, 1, 1)), POINT)
        if columns in left:
            left.remove(columns)
        apart = (step for step in left if step.source >= columns.size)  # no row is in another
        fitting = (step for step in apart if self._are_rows(step))
        rows = max(fitting, key=lambda step: step.size, default=POINT)
        if rows in left:
            left.remove(rows)
        if self.is_folded and rows is POINT:
            size = columns.size
            width = max(n for n in range(1, MOST_COLUMNS + 1) if size % n == 0)
            rows, columns = Digit(size // width, width, width), Digit(width, 1, 1)
        return rows, columns, left

    def _fits(self, side: int) -> bool:
        """Return whether kernels have so many columns."""
        return side <= self.chip.limits.kernel_size

    def _are_rows(self, step: Digit) -> bool:
        """Return whether pixels so far apart can be rows of a task."""
        return step.source >= self._reach

    def _weights(self, lane: int, reach: int) -> npt.NDArray[np.int8]:
        """Return the weights of the part that begins at ``lane``."""
        places = [
            (a, b, tap + channel)
            for tap_at, tap in spots(self.moves.joined)
            for a, b, channel in ((tap_at, *spot) for spot in self.moves.channels)
        ]
        lanes = lane + 1 + max(channel for _, channel, _ in places)
        weights = np.zeros((self.channels, 1, reach, lanes), np.int8)
        for tap_at, channel, result in places:
            weights[result, 0, tap_at, lane + channel] = 1
        return weights

    def _turned(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Rows of pixels become channels."""
        if self._is_staged:
            yield from self._staged(moving, source, target, work)
            return
        yield from self._blocks(moving, source, target, self._cut, self.moves.pixels)
        spare = range(surfaces_of(self.channels), self.surfaces_written)
        yield from padding_copies(self.chip, target, spare)

    def _staged(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Blocks that end within a surface are written to a map of their own first: the DPU writes
        pairs of surfaces.
        """
        cut = self._cut
        apart, pixels = [], align(cut.size, 2)
        for found in self.moves.pixels:
            apart.append(found._replace(result=pixels))
            pixels *= found.size
        view = View(1, 1, pixels, self.channels)
        surfaces = surfaces_of(self.channels)
        staged = replace(target.alone(view, work), surfaces=surfaces)
        close = cut._replace(result=1)
        yield from self._blocks(moving, source, staged, close, tuple(apart))
        back = [Digit(cut.size, 1, cut.result)]
        for there, here in zip(apart, self.moves.pixels, strict=True):
            back.append(Digit(here.size, there.result, here.result))
        moves = Moves(tuple(back), (), (), as_they_are(self.channels))
        copy = replace(self, moves=moves, source_channels=self.channels)
        yield from copy._moved(moving, staged, target)

    def _blocks(
        self,
        moving: Moving,
        source: DeviceTensor,
        target: DeviceTensor,
        cut: Digit,
        pixels: tuple[Digit, ...],
    ) -> Iterator[Task]:
        """Blocks in a column of pixels, or of surfaces, whichever are more, are rows of a task."""
        pixels_apart = (BLOCK, target.surface_stride_bytes // ATOM_BYTES)
        surfaces_apart = (source.surface_stride_bytes // ATOM_BYTES, BLOCK * cut.result)
        for high, wide, block in _quarters(self.channels, cut.size):
            for begin, end in spots(pixels):
                along_pixels = high[1] >= wide[1]
                apart = pixels_apart if along_pixels else surfaces_apart
                rows, loops = (high, wide) if along_pixels else (wide, high)
                for number in range(loops[0], loops[0] + loops[1]):
                    at = (rows[0], number) if along_pixels else (number, rows[0])
                    view = View(1, rows[1], block[0], block[1])
                    first = begin + at[0] * BLOCK
                    window = source.window(view, pixel=first, surface=at[1], row_pixels=apart[0])
                    result = target.window(
                        View(1, rows[1], 1, block[1] * BLOCK),
                        pixel=end + at[1] * BLOCK * cut.result,
                        surface=at[0],
                        row_pixels=apart[1],
                        surface_bytes=cut.result * ATOM_BYTES,
                    )
                    yield from moving.move(window, result, _turning_weights(*block))


def keeping_weights(chip: Chip, task: Task, before: Task | None) -> Task:
    """``task`` with the weights that the one before it fetched, if they are its own and fit."""
    if not (isinstance(task, ConvTask) and isinstance(before, ConvTask)):
        return task
    split = task.cbuf.data_banks, task.cbuf.weight_banks
    if task.weights != before.weights or split != (
        before.cbuf.data_banks,
        before.cbuf.weight_banks,
    ):
        return task
    if task.weights.total_bytes > task.cbuf.weight_banks * chip.cbuf.bank_bytes:
        return task
    return replace(task, cbuf=replace(task.cbuf, weight_reuse=True))


def _turning_weights(pixels: int, channels: int) -> npt.NDArray[np.int8]:
    """Lane ``p`` of surface ``c`` is pixel ``p``'s channel ``c``."""
    weights = np.zeros((channels, BLOCK, 1, pixels, channels), np.int8)
    for channel in range(channels):
        for pixel in range(pixels):
            weights[channel, pixel, 0, pixel, channel] = 1
    return weights.reshape(-1, 1, pixels, channels)


def _quarters(
    pixels: int, channels: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """First blocks and numbers of them along pixels and channels, and their size: whole ones and
    those at the ends.
    """
    for first_row, rows, height in _pieces(pixels):
        for first, count, width in _pieces(channels):
            yield (first_row, rows), (first, count), (height, width)


def _pieces(size: int) -> Iterator[tuple[int, int, int]]:
    whole, rest = divmod(size, BLOCK)
    if whole:
        yield 0, whole, BLOCK
    if rest:
        yield whole, 1, rest


def _surfaces_moved(chip: Chip, channels: int, *, is_unit: bool) -> int:
    """Return the surfaces that a convolution writes, padding of the last group included."""
    if is_unit:
        return surfaces_written(chip, channels)
    return chip.groups.surfaces_written(channels, is_depthwise=False)


def _is_unit(weights: npt.NDArray[np.int8]) -> bool:
    """Return whether every channel stays what it is; each kernel has one weight of 1."""
    outputs, _, reach, lanes = weights.shape
    return reach == 1 and outputs == lanes and bool(weights[:, 0, 0].diagonal().all())
