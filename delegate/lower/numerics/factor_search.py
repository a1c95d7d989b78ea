"""Two 15-bit factors for every channel's multiplier, so that the results are TensorFlow Lite's.

In: the channels' units and the shifts. Out: C and D, those of the tried pairs
with which fewest outputs start at another accumulator (``prover``); mostly none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.factors import FACTOR_BITS, LARGEST_FACTOR
from delegate.lower.numerics.pipeline import FloatArray, Int64Array
from delegate.lower.numerics.tflite import Target

Rows = npt.NDArray[np.intp]

# Outputs are 8 bits around a zero point inside them.
_OUTPUT_STEPS = 256
# Good pairs lie on P = C * (S - a * C) for integers S just above 2 * sqrt(a * P): there a change of
# C by one changes the product by X = sqrt(S^2 - 4 * a * P) only, not by D. ``a`` ~ D / C is chosen
# so that C fits. So many S are looked at, with both roots, first few and the best pair only, then
# more: the best of 256 is off by about 2^-27 of P.
_SOUGHT = (64, 1024)
_TRIED = (1, 32)
# Besides, the largest C that fit (the smallest rounding error in BS, for channels whose C is
# limited), and as many multiples of 2^s1 (BS does not round them at all).
_LARGEST = 64
# Channels that no such pair gets right are tried with the best of all C.
_ALL_FIRST = 1 << (FACTOR_BITS - 1)
_ALL_TRIED = 64
# Channels are looked at in parts: so many values at once (256 KiB), since compiling should not take
# more memory than the model.
_VALUES_AT_ONCE = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of channels: results of BN per LSB are 2^own_bits; ``slope`` of them per
    accumulator, so that the products C * D that are sought follow from the shifts of both stages.
    ``firsts``: where outputs begin, see ``Target``.
    """

    unit_bits: int
    own_bits: Int64Array
    slope: FloatArray
    ratios: FloatArray
    magnitude: Int64Array
    is_varying: npt.NDArray[np.bool_]
    firsts: Int64Array

    def of(self, channels: Rows) -> Units:
        """Return the units of some channels."""
        names = ("own_bits", "slope", "ratios", "magnitude", "is_varying", "firsts")
        return replace(self, **{name: getattr(self, name)[channels] for name in names})

    def products(self, shifts: tuple[int, int]) -> FloatArray:
        """Return the product that each channel needs."""
        return np.asarray(np.ldexp(self.slope, sum(shifts)))


def search_factors(
    target: Target,
    units: Units,
    shifts: tuple[int, int],
    rows: Rows,
    largest_first: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return C and D of the channels ``rows``, and how many outputs start at another accumulator
    with them. ``largest_first``: C with which BS stays inside int32.
    """
    first, second, wrong = (np.zeros(rows.size, np.int64) for _ in range(3))
    for part in _parts(np.arange(rows.size), 2 * _OUTPUT_STEPS):
        found = _Found(target, units, shifts, rows[part], largest_first[part])
        for sought, tried in zip(_SOUGHT, _TRIED, strict=True):
            near_square = partial(found.near_square, sought=sought)
            found.run(near_square, 2 * (sought + _LARGEST), tried)
        found.run(found.all_first, _ALL_FIRST, _ALL_TRIED)
        first[part], second[part], wrong[part] = found.first, found.second, found.wrong
    return first, second, wrong


def count_wrong(
    target: Target,
    units: Units,
    shifts: tuple[int, int],
    rows: Rows,
    first: Int64Array,
    second: Int64Array,
) -> Int64Array:
    """Return how many outputs of the channels ``rows`` start at another accumulator with these C
    and D.
    """
    wrong = np.zeros(rows.size, np.int64)
    for part in _parts(np.arange(rows.size), 2 * _OUTPUT_STEPS):
        found = _Found(target, units, shifts, rows[part], first[part])
        wrong[part] = found.count_wrong(np.arange(part.size), first[part], second[part])
    return wrong


def _parts(rows: Rows, values: int) -> list[Rows]:
    """Cut ``rows`` into parts that take _VALUES_AT_ONCE with so many ``values`` each."""
    size = max(1, _VALUES_AT_ONCE // max(values, 1))
    return [rows[start : start + size] for start in range(0, rows.size, size)]


class _Found:
    """The best factors found so far, per channel."""

    def __init__(
        self,
        target: Target,
        units: Units,
        shifts: tuple[int, int],
        channels: Rows,
        largest_first: Int64Array,
    ) -> None:
        self._bs_shift, self._bn_shift = shifts
        self._products = units.products(shifts)[channels]
        self._largest = largest_first
        self._lsb = np.ldexp(1.0, units.own_bits[channels].astype(np.int32))
        self._low = target.low[channels, np.newaxis]
        self._high = target.high[channels, np.newaxis]
        # Where outputs begin in TensorFlow Lite, and with which result of BN in the DPU.
        self._firsts = units.firsts[channels]
        least, largest = target.outputs
        distance = np.arange(least + 1, largest + 1) - target.zero_point
        half = np.floor(self._lsb / 2.0)[:, np.newaxis]
        lsb = self._lsb[:, np.newaxis]
        self._thresholds = np.where(
            distance > 0, distance * lsb - half, 1 - ((1 - distance) * lsb - half)
        )
        self.first = np.zeros(channels.size, np.int64)
        self.second = np.zeros(channels.size, np.int64)
        self.wrong = np.full(channels.size, np.iinfo(np.int64).max)

    def near_square(self, rows: Rows, sought: int) -> Int64Array:
        """Return values of C to look at, [rows, values]."""
        wanted, largest = self._products[rows, np.newaxis], self._largest[rows, np.newaxis]
        step = 1 << self._bs_shift
        ratio = np.ceil(wanted / (largest * largest.astype(np.float64)))
        total = np.ceil(2.0 * np.sqrt(ratio * wanted)) + np.arange(sought)
        difference = np.sqrt(total * total - 4.0 * ratio * wanted)
        roots = np.concatenate([total + difference, total - difference], axis=1) / (2.0 * ratio)
        fewer = np.arange(_LARGEST)
        first = np.concatenate(
            [np.rint(roots).astype(np.int64), largest - fewer, (largest // step - fewer) * step],
            axis=1,
        )
        limited: Int64Array = np.clip(first, 1, largest)
        return limited

    def all_first(self, rows: Rows) -> Int64Array:
        """Return every C down to half the largest."""
        fewer = np.arange(_ALL_FIRST)
        limited: Int64Array = np.maximum(self._largest[rows, np.newaxis] - fewer, 1)
        return limited

    def run(self, values_of: Callable[[Rows], Int64Array], values: int, tried: int) -> None:
        """Try the best pairs of ``values_of`` each open channel until one has nothing wrong."""
        rows = np.flatnonzero(self.wrong > 0)
        if not rows.size:
            return
        best = [self._best(part, values_of(part), tried) for part in _parts(rows, values)]
        first, second = (np.concatenate([pair[k] for pair in best]) for k in range(2))
        trial = 0
        while trial < first.shape[1]:
            at = np.flatnonzero(self.wrong[rows] > 0)
            if not at.size:
                return
            # The fewer channels are left, the more pairs at once.
            end = trial + max(1, _VALUES_AT_ONCE // (2 * _OUTPUT_STEPS * at.size))
            self._try(rows[at], first[at, trial:end], second[at, trial:end])
            trial = end

    def _best(self, rows: Rows, first: Int64Array, tried: int) -> tuple[Int64Array, Int64Array]:
        """Return the pairs that are least off in the middle of the output range, best first."""
        wanted = self._products[rows, np.newaxis]
        second = np.rint(wanted / first)
        middle = self._lsb[rows, np.newaxis] * (_OUTPUT_STEPS / 2) / wanted
        off = np.abs(first * second - wanted) * middle
        is_rounded = first & ((1 << self._bs_shift) - 1) != 0
        off += np.where(is_rounded, second * 2.0 ** (-self._bn_shift - 1), 0.0)
        off[(second > LARGEST_FACTOR) | (second < 1)] = np.inf
        if tried == 1:
            order = np.argmin(off, axis=1)[:, np.newaxis]
        else:
            near = np.argpartition(off, tried, axis=1)[:, :tried]
            # Equally good ones in one order on every machine.
            near.sort(axis=1)
            ranked = np.argsort(np.take_along_axis(off, near, 1), axis=1, kind="stable")
            order = np.take_along_axis(near, ranked, 1)
        chosen = np.clip(np.take_along_axis(second, order, 1), 1, LARGEST_FACTOR)
        return np.take_along_axis(first, order, 1), chosen.astype(np.int64)

    def _try(self, rows: Rows, first: Int64Array, second: Int64Array) -> None:
        """Take the best pair of each channel, of those as good the earlier: [rows, pairs]."""
        each = np.repeat(rows, first.shape[1])
        wrong = self.count_wrong(each, first.ravel(), second.ravel()).reshape(first.shape)
        best = np.arange(rows.size), np.argmin(wrong, axis=1)
        is_better = wrong[best] < self.wrong[rows]
        better = rows[is_better]
        self.first[better], self.second[better] = first[best][is_better], second[best][is_better]
        self.wrong[better] = wrong[best][is_better]

    def count_wrong(self, rows: Rows, first: Int64Array, second: Int64Array) -> Int64Array:
        """Count wrong outputs. One begins rightly if the accumulator there reaches it and the one
        before does not. Those outside the bounds are looked at from the nearest end.
        """
        firsts, thresholds = self._firsts[rows], self._thresholds[rows]
        low, high = self._low[rows], self._high[rows]
        c = np.ldexp(first.astype(np.float64), -self._bs_shift)[:, np.newaxis]
        d = np.ldexp(second.astype(np.float64), -self._bn_shift)[:, np.newaxis]

        def device(accumulators: Int64Array) -> FloatArray:
            result: FloatArray = np.rint(np.rint(accumulators * c) * d)
            return result

        late = (device(np.maximum(firsts, low)) < thresholds) & (firsts <= high)
        early = (device(np.minimum(firsts - 1, high)) >= thresholds) & (firsts > low)
        return np.asarray(np.count_nonzero(late | early, axis=1), np.int64)
