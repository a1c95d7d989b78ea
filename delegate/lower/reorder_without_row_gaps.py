"""Elements in another order on a chip whose tasks have no gaps between rows, neither of what they
read nor of what they write.

Parts of the channels that become pixels side by side do so at once: a pixel is an image of one
column, with as much padding on both sides as the kernel reaches over, so that each column of the
kernel gives a pixel of its own. All else is moved pixel by pixel, in rows where pixels stay
neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Primitive
from delegate.chip.element import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.moves import spots
from delegate.lower.reorder import POINT, Reorder
from delegate.lower.selection import Moving, Selection
from delegate.lower.task import Ref, Task
from delegate.lower.weights import depthwise_channels
from delegate.model.index_map import Digit


@dataclass(frozen=True, slots=True)
class _Columns:
    """Parts of the channels, ``beside``, that become the pixels of a row; pixels of a column that
    do, ``run``; and what is left of either for tasks of their own.
    """

    beside: Digit
    run: Digit
    parts: list[Digit]
    pixels: list[Digit]

    @property
    def tasks(self) -> int:
        return math.prod(step.size for step in (*self.parts, *self.pixels))


@dataclass(frozen=True, slots=True)
class ReorderWithoutRowGaps(Reorder):
    """The same results as ``Reorder``. It turns no blocks."""

    @property
    def is_turn(self) -> bool:
        return False

    @property
    def count(self) -> int:
        """See ``Reorder.count``."""
        return self._columns_tasks if self._is_in_columns else self._moving_tasks

    @property
    def surfaces_read(self) -> int:
        """Return whole groups of lanes, as kernels are programmed with."""
        return surfaces_of(depthwise_channels(self.source_channels, self.chip.groups))

    @property
    def _is_unit(self) -> bool:
        return not self._is_in_columns and self._keeps_channels

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Raises LoweringError."""
        way = self._in_columns if self._is_in_columns else self._moved
        return way(moving, source, target)

    def _fits(self, side: int) -> bool:
        """Return whether a group of kernels with as many rows as columns fits."""
        lanes = depthwise_channels(self.source_channels, self.chip.groups)
        weights = self.chip.groups.dense_kernels * side**2 * lanes
        return side <= self.chip.limits.kernel_size and weights <= self.chip.cbuf.weight_slice_bytes

    def _are_rows(self, step: Digit) -> bool:
        return (step.source, step.result) == (self._reach, 1)

    @property
    def _is_in_columns(self) -> bool:
        columns, moving = self._columns_tasks, self._moving_tasks
        return columns > 0 and not 0 < moving <= columns

    @property
    def _columns(self) -> _Columns:
        moves = self.moves
        beside = next((step for step in moves.cut if step.result == 1), POINT)
        runs = (step for step in moves.pixels if (step.source, step.result) == (1, beside.size))
        run = next(runs, POINT)
        return _Columns(
            beside,
            run,
            [step for step in moves.cut if step is not beside],
            [step for step in moves.pixels if step is not run],
        )

    @property
    def _columns_tasks(self) -> int:
        """Return the number of tasks; 0: the kernel is too large."""
        columns = self._columns
        side = columns.beside.size
        if side == 1 or self.moves.joined or side - 1 > self.chip.limits.pad:
            return 0
        return columns.tasks if self._fits(side) else 0

    def _in_columns(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor
    ) -> Iterator[Task]:
        columns = self._columns
        run, side = columns.run, columns.beside.size
        for first_channel, part in spots(columns.parts):
            surface, lane = divmod(first_channel, CHANNELS_PER_SURFACE)
            weights = self._weights_of_columns(lane, columns.beside)
            for begin, end in spots(columns.pixels, self.moves.first):
                view = View(1, run.size, 1, weights.shape[3])
                column = source.window(view, pixel=begin, surface=surface, row_pixels=1)
                view = View(1, run.size, side, self.channels)
                result = target.window(view, pixel=end + part, row_pixels=side)
                selection = Selection(padding=(0, side - 1))
                yield from moving.move(column, result, weights, selection)

    def _weights_of_columns(self, lane: int, beside: Digit) -> npt.NDArray[np.int8]:
        """Return kernels whose last column meets a row's first pixel."""
        one = self._weights(lane, 1)[:, 0, 0]
        lanes = one.shape[1]
        shape = (self.channels, 1, beside.size, lanes + (beside.size - 1) * beside.source)
        weights = np.zeros(shape, np.int8)
        for number in range(beside.size):
            first = number * beside.source
            weights[:, 0, -1 - number, first : first + lanes] = one
        return weights


def without_row_gaps(reorder: Reorder) -> Reorder:
    """Return ``reorder`` as its chip is known to do it."""
    if Primitive.ROW_GAPS not in reorder.chip.lacks:
        return reorder
    return ReorderWithoutRowGaps(
        reorder.chip,
        reorder.moves,
        reorder.source_channels,
        reorder.channels,
        reorder.is_folded,
    )
