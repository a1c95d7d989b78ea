"""A chain of tasks for SOFTMAX: its results, and the proof that they are within a step of the
kernel's.

Every row adds up to a pair of sums, ours and the real one, within the convex hull of what a class
adds to both, as many times as there are classes. So every reciprocal stands for one stretch of real
sums, at whose ends the kernel's results are known, but for a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.looked_up import CURVE_STEPS, found_at
from delegate.lower.numerics.pipeline import (
    INDEX_STEP,
    INT8_MAX,
    INT8_MIN,
    FloatArray,
    Int64Array,
    Pipeline,
)
from delegate.lower.numerics.tflite import INT8_VALUES

LEVELS = INT8_MAX - INT8_MIN
OUTPUT_STEPS = LEVELS + 1
"""The reciprocal of the output's scale."""
COARSE_WEIGHT = INT8_MAX
REACH = CURVE_STEPS // 2 * INDEX_STEP
_KERNEL_ERROR = 2.0**-20
"""The relative error of the kernel's results for each class: half of 2^-19, to which it rounds the
exponentials that it adds.
"""
_OTHER_ERRORS = 8
"""Times that, for its exponentials and its reciprocal: from 5.6 for results of 0.01 steps down to 1
for large ones, measured at 6,000 scales."""
_LEAST_ERROR = 2.0**-12
"""The error of small ones, in steps: the kernel drops exponentials below e^-31."""
_UNIT_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """Digits of exponentials by distance, from 0 to 255 (``coarse``) or around 0 (``fine``, if
    any). ``unit``: the sum's steps of an exponential of 1.
    """

    coarse: tuple[Int64Array, ...]
    fine: Int64Array | None
    unit: int

    @property
    def weights(self) -> tuple[int, ...]:
        """Return the planes' weights in the sum."""
        if self.fine is None:
            return (1,)
        return (*(COARSE_WEIGHT for _ in self.coarse), 1)

    @property
    def offset(self) -> int:
        """Return what the sum lacks of a class, as the device's coarse digits begin at -128."""
        return -INT8_MIN * sum(self.weights[: len(self.coarse)])

    @property
    def factor(self) -> int:
        """Return which plane the product takes: the nearest to the exponential."""
        return len(self.coarse) // 2

    @property
    def sums(self) -> Int64Array:
        """Return what each distance adds to the sum."""
        digits = (*self.coarse, *(() if self.fine is None else (self.fine,)))
        pairs = zip(self.weights, digits, strict=True)
        return np.asarray(sum(weight * one for weight, one in pairs), np.int64)

    @property
    def functions(self) -> tuple[bytes, ...]:
        """Return the tables' results of the planes, for -128 to 127, which is distance 0."""
        digits = [one + INT8_MIN for one in self.coarse]
        if self.fine is not None:
            digits.append(self.fine)
        return tuple(one[::-1].astype(np.int8).tobytes() for one in digits)


@dataclass(frozen=True, slots=True, eq=False)
class Reciprocal:
    """The curve behind the sum, less ``centre``. ``index``: its stages, of one channel, or of two
    that differ: the fine steps' and the coarse ones'.
    """

    centre: int
    index: Pipeline
    entries: Int64Array

    @property
    def is_split(self) -> bool:
        return isinstance(self.index.bs.multiply, np.ndarray)

    def of(self, sums: Int64Array) -> Int64Array:
        """Return the larger one of the channels' results, as the device has it."""
        index = self.index.index(np.atleast_2d(sums - self.centre))
        found = np.clip(found_at(self.entries, index), INT8_MIN, INT8_MAX)
        return np.asarray(found.max(axis=0))

    def stretches(self, least: int, most: int) -> tuple[Int64Array, Int64Array]:
        """Return the first sum and the last one, from ``least`` to ``most``, of each result from
        -128 on; of one that there is not the first is behind the last.
        """
        starts = np.unique([least, *self._changes(least, most)])
        ends = np.append(starts[1:] - 1, most)
        results = self.of(starts) - INT8_MIN
        first = np.full(OUTPUT_STEPS, most + 1, np.int64)
        last = np.full(OUTPUT_STEPS, least - 1, np.int64)
        np.minimum.at(first, results, starts)
        np.maximum.at(last, results, ends)
        return first, last

    def _changes(self, least: int, most: int) -> Iterator[int]:
        """Yield the sums where a channel's result is another than before."""
        places = np.arange(-REACH, REACH + 1)
        found = found_at(self.entries, places.astype(np.float64))
        wanted = places[1:][found[1:] != found[:-1]]
        for channel in range(2 if self.is_split else 1):
            one = self.index.of(slice(channel, channel + 1))
            low, high = (np.full(wanted.shape, end) for end in (least, most + 1))
            while np.any(low < high):
                middle = (low + high) // 2
                is_there = one.index((middle - self.centre)[np.newaxis])[0] >= wanted
                low, high = np.where(is_there, low, middle + 1), np.where(is_there, middle, high)
                low = np.minimum(low, high)
            yield from low[low <= most].tolist()


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A chain for rows of ``classes`` whose exponentials fall by e^-``step`` with each value.
    ``has_maximum``: distances are from the row's largest value.
    """

    classes: int
    step: float
    has_maximum: bool
    planes: Planes
    reciprocal: Reciprocal
    product: Pipeline


def exponentials_of(step: float) -> FloatArray:
    """Return the exponentials of all distances."""
    return np.asarray(np.exp(-step * np.arange(LEVELS + 1)))


def least_sum(classes: int, step: float, *, has_maximum: bool) -> float:
    """Return the least sum of a row's exponentials."""
    least = math.exp(-step * LEVELS)
    return classes * least + (1 - least if has_maximum else 0.0)


def unit_of(least: float) -> float:
    """Return the sum whose reciprocal has 256 steps: the ``least`` one, of a few bits, with which
    products are mostly exact.
    """
    fraction, exponent = math.frexp(least)
    return math.ldexp(math.floor(math.ldexp(fraction, _UNIT_BITS)), exponent - _UNIT_BITS)


def is_proven(chain: Chain) -> bool:
    """Return whether every result of every row is within a step of the kernel's."""
    classes, planes, reciprocal = chain.classes, chain.planes, chain.reciprocal
    sums, exponentials = planes.sums, exponentials_of(chain.step)
    if not np.all(np.diff(sums) <= 0):
        return False
    e = INT8_VALUES.astype(np.float64)
    found, fits = chain.product.checked(e[:, np.newaxis], e)
    ends = np.array([classes * int(sums[-1]), classes * int(sums[0])])
    if not fits or not reciprocal.index.fits_int32(_both(reciprocal, ends)):
        return False
    first, last = reciprocal.stretches(*ends.tolist())
    points = sorted(zip(sums.tolist(), exponentials.tolist(), strict=True))
    hull = _corners(points, 1), _corners(points, -1)
    for distance in range(LEVELS + 1):
        known = [0, distance] if chain.has_maximum and distance else [distance]
        others = classes - len(known)
        if others < 0:
            continue
        fixed = int(sums[known].sum()), float(exponentials[known].sum())
        low, high = _reals(hull, first, last, fixed, others)
        is_there = low <= high
        exponential = OUTPUT_STEPS * exponentials[distance]
        error = _KERNEL_ERROR * (classes + _OTHER_ERRORS)
        most = exponential / np.where(is_there, low, 1.0) * (1 + error) + _LEAST_ERROR
        least = exponential / np.where(is_there, high, 1.0) * (1 - error) - _LEAST_ERROR
        digit = int(planes.coarse[planes.factor][distance])
        ours = found[digit] - INT8_MIN
        kernel = (np.clip(np.floor(one + 0.5), 0, LEVELS) for one in (least, most))
        off = np.max([np.abs(ours - one) for one in kernel], axis=0)
        if np.any(is_there & (off > 1)):
            return False
    return True


def _both(reciprocal: Reciprocal, sums: Int64Array) -> FloatArray:
    return np.asarray(np.atleast_2d(sums - reciprocal.centre), np.float64)


_Corners = tuple[FloatArray, FloatArray]
"""Corners of the convex hull of what a class adds to our sum and to the real one, below or above:
both rise.
"""


def _reals(
    hull: tuple[_Corners, _Corners],
    first: Int64Array,
    last: Int64Array,
    fixed: tuple[int, float],
    others: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest real sum of rows with ``fixed`` and ``others`` classes,
    whose sum of ours lies from ``first`` to ``last``; where there is none, the least is above the
    largest. ``hull``: the corners below and above.
    """
    (below, above), (ours, real) = hull, fixed
    low, high = (ours + others * below[0][end] for end in (0, -1))
    begin, end = np.maximum(first, low), np.minimum(last, high)
    each = max(others, 1)
    least = real + others * np.interp((begin - ours) / each, *below)
    largest = real + others * np.interp((end - ours) / each, *above)
    return np.where(begin <= end, least, np.inf), largest


def _corners(points: list[tuple[int, float]], side: int) -> _Corners:
    """Return the corners below (1) or above (-1) ``points``, from left to right."""
    # Of points one above the other the lowest one counts below, the highest one above.
    ends = dict(points[::-side])
    found: list[tuple[int, float]] = []
    for point in sorted(ends.items()):
        while len(found) > 1 and side * _turn(found[-2], found[-1], point) <= 0:
            found.pop()
        found.append(point)
    x, y = zip(*found, strict=True)
    return np.array(x, np.float64), np.array(y, np.float64)


def _turn(a: tuple[int, float], b: tuple[int, float], c: tuple[int, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
