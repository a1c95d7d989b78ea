"""One side of RESIZE_BILINEAR, rows or columns: how much of every row of the image is in each row
of the result, as the kernels have it, and stencils that have it so, or nearly so.

The kernel of int8 takes positions in fixed point of 10 bits. The step between rows of the result is
rounded, so that positions drift where it is no multiple of 1/1024: by 3, a third of 1/1024 a row.
All other kernels compute positions in float32. A stencil's shares are exact. Between pixels 255
apart a result is off by 255 times the share that lies in another row.

Where no program writes pixels as far apart as a whole factor needs, pixels are repeated first, and
rows' ends once more; then a convolution takes neighbours together. Rows of the result at the
image's ends are convolutions of their own, whose kernels count the outermost row for those beyond
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.lower.legalize import SUMMAND, ties_away
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, OutConvert, Pipeline
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
from delegate.ops.shared.moving import move_plan

_BITS: Final = 10
"""The bits of the kernels' fractions."""
_FLOAT_ROUNDING: Final = 2.0**-22
"""The most that a position's three roundings in float32 are off by, of each row before it."""
_PRODUCTS: Final = 8
"""Roundings of the kernel's four products and three sums, and the one to float32."""
_DIVISION: Final = 2.0**-4
"""The most that ``divided`` is off by, of results of 8 bits."""

MOST_ROWS: Final = 4096
"""The most rows, or columns, of an image: as many as a task writes. Shares of more fill memory."""

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resizing:
    """One side: its sizes and options. ``is_fixed``: the kernel computes in fixed point."""

    size: int
    output: int
    align_corners: bool
    half_pixel_centers: bool
    is_fixed: bool = True

    @property
    def ratio(self) -> tuple[int, int]:
        """Return rows of the image to rows of the result."""
        is_aligned = self.align_corners and self.output > 1
        return (self.size - 1, self.output - 1) if is_aligned else (self.size, self.output)

    def shares(self) -> Shares | None:
        """Return how much of every row of the image is in each of the result, in fixed point as the
        kernel has it, or of the very positions; None: a row would be of none, or there are too
        many.
        """
        if max(self.size, self.output) > MOST_ROWS:
            return None
        above, below = self.ratio
        whole, step = 2 * below, 2 * above
        if self.is_fixed:
            whole = 1 << _BITS
            step = ((above << _BITS) + below // 2) // below
        found = np.zeros((self.output, self.size))
        for row in range(self.output):
            place = row * step
            if self.half_pixel_centers:
                place += step // 2 - whole // 2
            lower = max(place, 0) // whole
            upper = min(-(-place // whole), self.size - 1)
            part = place - lower * whole
            if lower >= self.size:
                return None
            found[row, lower] += (whole - part) / whole
            found[row, max(upper, 0)] += part / whole
        return found

    @property
    def rounding(self) -> float:
        """Return the share that the kernel's own roundings move, at most."""
        return 0.0 if self.is_fixed else _FLOAT_ROUNDING * (self.size + _PRODUCTS)

    def factors(self) -> tuple[Iterator[int], Iterator[int]]:
        """Return the whole numbers that the side may be multiplied by, and divided."""
        pairs = [(self.size, self.output), (self.size - 1, self.output - 1)]
        ups = (b // a for a, b in pairs if a > 0 and b > a and b % a == 0)
        downs = (a // b for a, b in pairs if b > 0 and a > b and a % b == 0)
        return ups, downs


@dataclass(frozen=True, slots=True)
class Weighing(ABC):
    """The ``weights`` of a kernel that makes a side."""

    weights: tuple[int, ...]

    @abstractmethod
    def rows(self, size: int, output: int) -> Shares:
        """Return how much of every row of the image is in each of the result."""


@dataclass(frozen=True, slots=True)
class Stencil(Weighing):
    """The stencil of one side: ``weights`` over rows ``spread`` apart, ``padding`` zeros before the
    first, of the image with ``border`` rows repeated; every ``stride``-th result.
    """

    spread: int
    padding: int
    border: Side
    stride: int = 1

    @property
    def whole(self) -> int:
        """Return the sum of the weights that meet pixels, a power of two."""
        return sum(self.weights) // self.spread

    def rows(self, size: int, output: int) -> Shares:
        """Return how much of every row of the image is in each of the result."""
        found = np.zeros((output, size))
        for row in range(output):
            for tap, weight in enumerate(self.weights):
                place, between = divmod(row * self.stride + tap - self.padding, self.spread)
                if not between and 0 <= place < size + sum(self.border):
                    found[row, min(max(place - self.border[0], 0), size - 1)] += weight
        return found / self.whole


SAME: Final = Stencil((4,), 1, 0, (0, 0))


def _larger(factor: int) -> tuple[Stencil, Stencil, Stencil]:
    """Return the stencils of rows that become ``factor`` rows: with corners aligned, from the
    corner, from the centre.
    """
    rising = range(2, 2 * factor, 2)
    corner = (*rising, 2 * factor, *reversed(rising))
    centre = (*range(1, 2 * factor, 2), *reversed(range(1, 2 * factor, 2)))
    return (
        Stencil(corner, factor, factor - 1, (0, 0)),
        Stencil(corner, factor, factor - 1, (0, 1)),
        Stencil(centre, factor, factor // 2 - 1, (1, 1)),
    )


def smaller(factor: int) -> tuple[Stencil, Stencil]:
    """Return the stencils of ``factor`` rows that become one: from the corner, the first, and from
    the centre, the one in the middle or the mean of two.
    """
    centre = (0,) * ((factor - 1) // 2) + (1,) * (2 - factor % 2)
    return Stencil((1,), 1, 0, (0, 0), factor), Stencil(centre, 1, 0, (0, 0), factor)


LARGER: Final = tuple(stencil for factor in (2, 4, 8) for stencil in _larger(factor))
"""By the factors by which chips put pixels apart."""
STENCILS: Final = (SAME, *LARGER)

One = TypeVar("One", bound=Weighing)


@cache
def displaced(one: Weighing, side: Resizing) -> float:
    """Return the most that ``one`` takes of other rows than the kernel, of 1; 2: of none."""
    wanted = side.shares()
    if wanted is None:
        return 2.0
    return float(np.abs(one.rows(side.size, side.output) - wanted).sum(axis=1).max()) / 2


def nearest(side: Resizing, known: Sequence[One]) -> One:
    """Return the first of ``known`` that is nearest to the kernel."""
    return min(known, key=lambda one: displaced(one, side))


def is_near(sides: Iterable[Resizing], displaced: Iterable[float], *, passes: int = 1) -> bool:
    """Return whether results of both sides, which take so much of other rows, are within a step of
    the kernel's for every image, if they are rounded in so many ``passes``: twice, the first
    rounding is half a step.
    """
    span = INT8_MAX - INT8_MIN
    off = sum(displaced) + sum(side.rounding for side in sides)
    return span * off + passes * _DIVISION + (passes - 1) / 2 < 1


def chosen(side: Resizing) -> list[int] | None:
    """Return the row of the image that each row of the result is; None: not each is one alone."""
    wanted = side.shares()
    if wanted is None or (wanted.max(axis=1) < 1).any():
        return None
    return [int(place) for place in wanted.argmax(axis=1)]


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
    return (UNCHANGED, *(blend for factor in ups for blend in _larger_blends(factor)))


def _larger_blends(factor: int) -> tuple[Blend, Blend, Blend]:
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
