"""RESIZE_BILINEAR by whole factors where no program writes pixels so far apart: pixels are repeated
first, and rows' ends once more; then a convolution takes neighbours together.

Rows of the result at the image's ends are convolutions of their own, whose kernels count the
outermost row for those beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from delegate.chip.chip import Chip
from delegate.lower.legalize import SUMMAND, ties_away
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import OutConvert, Pipeline
from delegate.lower.numerics.requantize import last_roundings
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import Side
from delegate.lower.selection import (
    Move,
    Moving,
    Selection,
    is_depthwise,
    kernels,
    surfaces_written,
)
from delegate.lower.task import Ref, Task, TaskKind
from delegate.lower.upsample import Repeat
from delegate.ops.shared.interpolation import Resizing, Shares, Weighing
from delegate.ops.shared.moving import move_plan

_SCALE_BITS: Final = 14
"""A scale has one bit more."""


@dataclass(frozen=True, slots=True)
class Blend(Weighing):
    """The blend of one side: ``weights`` over rows that are repeated ``factor`` times, and the
    outermost of them ``ends`` times more.
    """

    factor: int
    ends: Side

    @property
    def whole(self) -> int:
        """Return the sum of the weights."""
        return sum(self.weights)

    def rows(self, size: int, output: int) -> Shares:
        """Return how much of every row of the image is in each of the result."""
        found = np.zeros((output, size))
        for row in range(output):
            for tap, weight in enumerate(self.weights):
                place = row + tap - self.ends[0]
                if place < size * self.factor + self.ends[1]:
                    found[row, min(max(place // self.factor, 0), size - 1)] += weight
        return found / self.whole

    def at(self, row: int, size: int) -> tuple[int, ...]:
        """Return the weights of a row of the result without what is beyond ``size`` rows of the
        image.
        """
        found = [0] * len(self.weights)
        for tap, weight in enumerate(self.weights):
            place = row + tap - self.ends[0]
            inside = min(max(place, 0), size * self.factor - 1)
            found[tap + inside - place] += weight
        return tuple(found)

    def parts(self, output: int) -> Iterator[range]:
        """Yield rows of the result with the same weights."""
        before, behind = self.ends
        yield from (range(row, row + 1) for row in range(before))
        if before < output - behind:
            yield range(before, output - behind)
        yield from (range(row, row + 1) for row in range(output - behind, output))


UNCHANGED: Final = Blend((4,), 1, (0, 0))


def blends_of(side: Resizing) -> tuple[Blend, ...]:
    """Return the blends by which ``side`` may be made."""
    ups, _ = side.factors()
    return (UNCHANGED, *(blend for factor in ups for blend in _larger(factor)))


def _larger(factor: int) -> tuple[Blend, Blend, Blend]:
    """Return the blends of rows that become ``factor`` rows: with corners aligned, from the corner,
    from the centre.

    A result is the mean of ``factor`` repeated rows: those behind it, or those around it. An even
    number of them begins and ends with half a row.
    """
    alike = (2,) * factor
    middle = alike if factor % 2 else (1, *(2,) * (factor - 1), 1)
    around = factor // 2, factor // 2
    return (
        Blend(alike, factor, (0, 0)),
        Blend(alike, factor, (0, factor - 1)),
        Blend(middle, factor, around),
    )


def divided(chip: Chip, offset: int, whole: int) -> tuple[int, OutConvert]:
    """Return the summand of sums of parts of ``whole``, and how they become results. ``offset``: of
    the type, 0 or 128; the kernels round halves away from zero, and uint8 has no negative values.
    Powers of two up to 64 are equal; others have a scale that is up to 2^-13 too large, which is a
    sixteenth of 8 bits.
    """
    shift, scale = whole.bit_length() - 1, 1
    if whole != 1 << shift:
        shift += _SCALE_BITS
        scale = -(-(1 << shift) // whole)
    # The sums of powers of two are below 2^14: the first way is equal.
    pipeline = Pipeline(out=OutConvert(scale, shift, -offset, ties_away=True))
    last = next(last_roundings(pipeline, has_ties_away=ties_away(chip, TaskKind.DENSE, SUMMAND)))
    return offset * whole, last.out


def plan_blends(planning: Planning, operation: Operation, rows: Blend, columns: Blend) -> Plan:
    """Plan blends image by image."""
    chip, source = planning.chip, planning.tensor(operation.operands[0])
    channels, factors = source.view.channels, (rows.factor, columns.factor)
    repeat = Repeat(chip, source.view, factors, ends=columns.ends, is_staged=True)
    offset = planning.graph.tensor(operation.result).dtype.element.offset
    summand, out = divided(chip, offset, rows.whole * columns.whole)
    depthwise = is_depthwise(chip, channels)

    def image(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        repeated, view = repeat.staged(source, work), target.view
        yield from repeat.tasks(moving, source, repeated)
        for part in rows.parts(view.height):
            taps = np.outer(rows.at(part.start, source.view.height), columns.weights)
            yield from moving.move(
                *(repeated, target, kernels(taps, channels, depthwise=depthwise)),
                Selection(padding=(rows.ends[0], 0)),
                is_depthwise=depthwise,
                summands=np.full(channels, summand, np.int64),
                out=out,
                region=(part, range(view.width)),
            )

    move = Move(
        image,
        repeat.surfaces_read,
        surfaces_written(chip, channels),
        repeat.staged_bytes(replace(source, view=replace(source.view, images=1))),
        chip.groups.surface_pixels(depthwise),
    )
    return move_plan(planning, operation, move, by_image=True)
