"""One side of RESIZE_BILINEAR, rows or columns: how much of every row of the image is in each row
of the result, as the kernels have it, and stencils that have it so, or nearly so.

The kernel of int8 takes positions in fixed point of 10 bits. The step between rows of the result is
rounded, so that positions drift where it is no multiple of 1/1024: by 3, a third of 1/1024 a row.
All other kernels compute positions in float32. A stencil's shares are exact. Between pixels 255
apart a result is off by 255 times the share that lies in another row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN
from delegate.lower.padding import Side

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
