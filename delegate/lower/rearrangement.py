"""Elements anywhere in an image: a reorder for each piece of a map that gives pixels of its own.

What a result repeats is moved once, and copied from the result itself, as much as is there each
time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.moves import Moves, Spot, as_they_are, moves_of
from delegate.lower.reorder import MOST_TASKS, Reorder
from delegate.lower.reorder_without_row_gaps import without_row_gaps
from delegate.lower.selection import Moving
from delegate.lower.task import Ref, Task
from delegate.model.index_map import Digit, IndexMap, box_piece

_MOST_WEIGHTS: Final = 1 << 24
"""Weights of a task that repeats or chooses: each channel of the source for each of the result."""


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """``moved``: from the operand to the result; ``copied``: then within the result, in order."""

    moved: tuple[Reorder, ...]
    copied: tuple[Reorder, ...]

    @property
    def is_possible(self) -> bool:
        """Return whether the tasks can do it, and neither they nor their weights are more than
        those of a network.
        """
        counts = [part.count for part in self._parts]
        lanes = [part.source_channels * part.channels for part in self._parts if part.is_folded]
        is_small = max(lanes, default=0) <= _MOST_WEIGHTS
        return is_small and all(counts) and sum(counts) <= MOST_TASKS

    @property
    def surfaces_read(self) -> int:
        """Return the surfaces of the operand that tasks read."""
        return max(part.surfaces_read for part in self.moved)

    @property
    def surfaces_written(self) -> int:
        """Return the surfaces of the result that tasks write."""
        return max(part.surfaces_written for part in self._parts)

    @property
    def surface_pixels(self) -> int:
        """Return the unit of the pixels from one surface of the result to the next."""
        return max(part.surface_pixels for part in self._parts)

    @property
    def work_bytes(self) -> int:
        """Return the bytes of memory beside operand and result."""
        return max(part.work_bytes for part in self.moved)

    def known(self) -> Rearrangement | None:
        """Return the same as the chip is known to do it; None: it is not."""
        moved, copied = (
            tuple(without_row_gaps(part) for part in parts) for parts in (self.moved, self.copied)
        )
        found = Rearrangement(moved, copied)
        return found if found.is_possible else None

    def tasks(
        self, moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        """Raises LoweringError."""
        for part in self.moved:
            yield from part.tasks(moving, source, target, work)
        for part in self.copied:
            yield from part.tasks(moving, target, target, work)

    @property
    def _parts(self) -> tuple[Reorder, ...]:
        return self.moved + self.copied


def rearrangement(
    chip: Chip, found: IndexMap, source: Spot, channels: int, written: int
) -> Rearrangement | None:
    """Return how ``found`` makes an image of ``channels`` channels of ``source``, so many pixels
    and channels. ``written``: the channels of the result with spare lanes. None: see ``moves_of``.
    Raises MapError.
    """
    made = moves_of(found, source, channels)
    if made is None:
        return None
    # Rows of what only changes its order are as long as they lie.
    is_folded = not found.is_order(math.prod(source))
    moved, copied = [], []
    for given in made:
        once, copies = _split(given, written)
        moved.append(Reorder(chip, once, source[1], written, is_folded))
        copied += [Reorder(chip, one, written, written, is_folded) for one in copies]
    return Rearrangement(tuple(moved), tuple(copied))


def _split(moves: Moves, channels: int) -> tuple[Moves, list[Moves]]:
    """Return ``moves`` without what repeats all of them, and the copies that do. What is repeated
    between other results is moved each time: a task would read among the pixels that it writes.
    """
    steps = sorted((*moves.pixels, *moves.cut), key=lambda step: step.result)
    inner = max((n for n, step in enumerate(steps, 1) if step.source), default=0)
    copied = []
    for number, step in enumerate(steps[inner:], inner):
        there = [Digit(one.size, one.result, one.result) for one in steps[:number]]
        copied += list(_doubled(there, step, moves.first[1], channels))
    kept = tuple(step for step in moves.pixels if step not in steps[inner:])
    return replace(moves, pixels=kept), copied


def _doubled(there: Sequence[Digit], step: Digit, first: int, channels: int) -> Iterator[Moves]:
    """Yield copies of what is ``there`` from pixel ``first`` of the result on, until it is there as
    often as ``step`` says.
    """
    done = 1
    while done < step.size:
        count = min(done, step.size - done)
        sizes, _, strides = zip(*there, (count, 0, step.result), strict=True)
        steps = tuple(reversed(box_piece(sizes, strides, strides).digits))
        begin = first, first + done * step.result
        yield Moves(steps, (), (), as_they_are(channels), begin)
        done += count
