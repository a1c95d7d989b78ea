"""Two 15-bit factors for every channel's multiplier, so that the results are TFLite's.

In: TFLite's multiplier (q, exponent) per channel, the unit each channel is rounded to, the shifts.
Out: C and D per channel and the places where a result still differs. As for per-tensor nodes
(``factors``): TFLite's function and the DPU's both rise with the accumulator, so they are equal
everywhere if they step from one output to the next at the same accumulators. Everything below is
exact: products stay below 2^53 in double precision and below 2^62 in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.lower.factors import OUTPUT_STEPS
from delegate.lower.multipliers import MULTIPLIER_BITS
from delegate.lower.stages import INT32_MAX, AccumulatorBounds, FloatArray, Int64Array

Rows = npt.NDArray[np.intp]

LARGEST_FACTOR = (1 << MULTIPLIER_BITS) - 1
# Good pairs lie on P = C * (S - a * C) for integers S just above 2 * sqrt(a * P): there a change of
# C by one changes the product by X = sqrt(S^2 - 4 * a * P) only, not by D. ``a`` ~ D / C is chosen
# so that C fits. So many S are looked at, with both roots, first few and the best pair only, then
# more: the best of 256 is off by about 2^-27 of P.
SOUGHT = (64, 1024)
TRIED = (1, 32)
# Besides, the largest C that fit (the smallest rounding error in BS, for channels whose C is
# limited), and as many multiples of 2^s1 (BS does not round them at all).
LARGEST = 64
# Channels that no such pair gets right are tried with the best of all C.
ALL_FIRST = (LARGEST_FACTOR + 1) // 2
ALL_TRIED = 64
# Channels are looked at in parts: so many values at once (256 KiB), since compiling should not take
# more memory than the model.
VALUES_AT_ONCE = 1 << 15
# Accumulators beyond int32: no step there can be reached.
_FAR = 1 << 33


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """``accumulators`` [channels, outputs]: the least one that gives each output of TFLite.
    ``thresholds``: the least result of BN that gives it in the DPU.
    """

    accumulators: Int64Array
    thresholds: FloatArray

    def of(self, rows: npt.NDArray[np.intp]) -> Steps:
        return Steps(self.accumulators[rows], self.thresholds[rows])

    def moved(self, by: Int64Array) -> Steps:
        """For accumulators with another bias."""
        return Steps(self.accumulators + by[:, np.newaxis], self.thresholds)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelFactors:
    """``first * second`` ~ product; ``wrong_steps``: outputs that start at another accumulator."""

    first: Int64Array
    second: Int64Array
    wrong_steps: Int64Array


def tflite_steps(
    q: Int64Array, exponent: Int64Array, unit_bits: Int64Array, outputs: Int64Array
) -> Steps:
    """``outputs``: results counted from the zero point, rising. ``unit_bits`` [channels]: one LSB
    is 2^unit_bits results of BN.
    """
    accumulators = np.empty((q.size, outputs.size), np.int64)
    thresholds = np.empty((q.size, outputs.size), np.float64)
    for part in _parts(np.arange(q.size), outputs.size):
        right = np.maximum(-exponent[part], 0)
        accumulators[part] = _first_accumulators(q[part], exponent[part], right, outputs)
        reach = _nudged(outputs, unit_bits[part])
        thresholds[part] = np.where(outputs > 0, reach, 1 - reach)
    return Steps(accumulators, thresholds)


def _nudged(outputs: Int64Array, bits: Int64Array) -> Int64Array:
    """The least |N|, in 2^-bits LSB, that rounds to |output| (>= 1): to k, and for k <= 0 to what
    lies one below k on the other side of zero.
    """
    distance = np.where(outputs > 0, outputs, 1 - outputs)
    bits = bits[:, np.newaxis]
    nudged: Int64Array = (distance << bits) - (np.left_shift(1, bits) >> 1)
    return nudged


def _first_accumulators(
    q: Int64Array, exponent: Int64Array, right: Int64Array, outputs: Int64Array
) -> Int64Array:
    """Inverse of TFLite's two roundings.

    N >= n just where acc * Q + 2^30 >= n * 2^31; N <= -n where |acc| * Q + 2^30 - 1 >= n * 2^31.
    """
    real = np.ldexp(q.astype(np.float64), (exponent - 31).astype(np.int32))[:, np.newaxis]
    distance = np.where(outputs > 0, outputs, 1 - outputs)
    with np.errstate(divide="ignore"):
        is_far = (distance - 0.5) / real > INT32_MAX
    # Where the step is near, n * 2^31 ~ acc * Q < 2^62: no overflow.
    n = np.where(is_far, 0, _nudged(outputs, np.minimum(right, 31)))
    scale = np.maximum(q << np.maximum(exponent, 0), 1)[:, np.newaxis]
    below = np.where(outputs > 0, 0, 1)
    magnitude = -((-((n << 31) - (1 << 30) + below)) // scale)
    magnitude = np.where(is_far, _FAR, magnitude)
    return np.where(outputs > 0, magnitude, 1 - magnitude)


def choose_channel_factors(
    products: FloatArray,
    steps: Steps,
    bounds: AccumulatorBounds,
    units_per_output: FloatArray,
    bs_shift: int,
    bn_shift: int,
    largest_first: Int64Array,
) -> ChannelFactors:
    """For each channel the pair with the fewest wrong steps, by ``products`` = C * D wanted.

    ``units_per_output``: results of BN per output LSB. ``largest_first``: with which BS stays
    inside int32.
    """
    search = _Search(products, steps, bounds, units_per_output, bs_shift, bn_shift, largest_first)
    for sought, tried in zip(SOUGHT, TRIED, strict=True):
        near_square = partial(search.near_square, sought=sought)
        search.run(near_square, 2 * (sought + LARGEST), tried)
    search.run(search.all_first, ALL_FIRST, ALL_TRIED)
    return ChannelFactors(search.first, search.second, search.wrong)


def _parts(rows: Rows, values: int) -> list[Rows]:
    """``rows`` in parts that take VALUES_AT_ONCE with so many ``values`` each."""
    size = max(1, VALUES_AT_ONCE // max(values, 1))
    return [rows[start : start + size] for start in range(0, rows.size, size)]


class _Search:
    """What is found so far, per channel."""

    def __init__(
        self,
        products: FloatArray,
        steps: Steps,
        bounds: AccumulatorBounds,
        units_per_output: FloatArray,
        bs_shift: int,
        bn_shift: int,
        largest_first: Int64Array,
    ) -> None:
        self._products = products
        self._steps = steps
        self._bounds = bounds
        self._units_per_output = units_per_output
        self._shifts = bs_shift, bn_shift
        self._largest = np.minimum(largest_first, LARGEST_FACTOR)
        self.first = np.zeros(len(products), np.int64)
        self.second = np.zeros(len(products), np.int64)
        self.wrong = np.full(len(products), np.iinfo(np.int64).max)

    def open_rows(self) -> Rows:
        return np.flatnonzero(self.wrong > 0)

    def near_square(self, rows: Rows, sought: int) -> Int64Array:
        """Values of C to look at, [rows, values]."""
        wanted, largest = self._products[rows, np.newaxis], self._largest[rows, np.newaxis]
        step = 1 << self._shifts[0]
        ratio = np.ceil(wanted / (largest * largest.astype(np.float64)))
        total = np.ceil(2.0 * np.sqrt(ratio * wanted)) + np.arange(sought)
        difference = np.sqrt(total * total - 4.0 * ratio * wanted)
        roots = np.concatenate([total + difference, total - difference], axis=1) / (2.0 * ratio)
        fewer = np.arange(LARGEST)
        first = np.concatenate(
            [np.rint(roots).astype(np.int64), largest - fewer, (largest // step - fewer) * step],
            axis=1,
        )
        limited: Int64Array = np.clip(first, 1, largest)
        return limited

    def all_first(self, rows: Rows) -> Int64Array:
        """Every C down to half the largest."""
        fewer = np.arange(ALL_FIRST)
        limited: Int64Array = np.maximum(self._largest[rows, np.newaxis] - fewer, 1)
        return limited

    def run(self, values_of: Callable[[Rows], Int64Array], values: int, tried: int) -> None:
        """Tries the best pairs of ``values_of`` each open row until one has no wrong step."""
        rows = self.open_rows()
        if not rows.size:
            return
        best = [self._best(part, values_of(part), tried) for part in _parts(rows, values)]
        first, second = (np.concatenate([pair[k] for pair in best]) for k in range(2))
        is_open = np.ones(rows.size, np.bool_)
        for trial in range(first.shape[1]):
            at = np.flatnonzero(is_open)
            if not at.size:
                return
            self._try(rows[at], first[at, trial], second[at, trial])
            is_open[at] = self.wrong[rows[at]] > 0

    def _best(self, rows: Rows, first: Int64Array, tried: int) -> tuple[Int64Array, Int64Array]:
        """The pairs that are least off in the middle of the output range, best first."""
        bs_shift, bn_shift = self._shifts
        wanted = self._products[rows, np.newaxis]
        second = np.rint(wanted / first)
        middle = self._units_per_output[rows, np.newaxis] * (OUTPUT_STEPS / 2) / wanted
        off = np.abs(first * second - wanted) * middle
        off += np.where(first & ((1 << bs_shift) - 1), second * 2.0 ** (-bn_shift - 1), 0.0)
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
        bounds = AccumulatorBounds(self._bounds.low[rows], self._bounds.high[rows])
        found = count_wrong_steps(self._steps.of(rows), bounds, first, second, *self._shifts)
        is_better = found < self.wrong[rows]
        better = rows[is_better]
        self.first[better], self.second[better] = first[is_better], second[is_better]
        self.wrong[better] = found[is_better]


def count_wrong_steps(
    steps: Steps,
    bounds: AccumulatorBounds,
    first: Int64Array,
    second: Int64Array,
    bs_shift: int,
    bn_shift: int,
) -> Int64Array:
    """A step is right if the accumulator at it reaches the output and the one before does not.
    Steps outside the bounds are looked at from the nearest end.
    """
    wrong = np.zeros(first.size, np.int64)
    for part in _parts(np.arange(first.size), max(1, steps.thresholds.shape[1])):
        ends = AccumulatorBounds(bounds.low[part], bounds.high[part])
        wrong[part] = _count_part(
            steps.of(part), ends, first[part], second[part], bs_shift, bn_shift
        )
    return wrong


def _count_part(
    steps: Steps,
    bounds: AccumulatorBounds,
    first: Int64Array,
    second: Int64Array,
    bs_shift: int,
    bn_shift: int,
) -> Int64Array:
    low, high = bounds.low[:, np.newaxis], bounds.high[:, np.newaxis]
    at = np.maximum(steps.accumulators, low)
    before = np.minimum(steps.accumulators - 1, high)
    factor = np.ldexp(first.astype(np.float64), -bs_shift)[:, np.newaxis]
    second_factor = np.ldexp(second.astype(np.float64), -bn_shift)[:, np.newaxis]

    def device(accumulators: Int64Array) -> FloatArray:
        scaled: FloatArray = np.rint(accumulators * factor)  # half even, as BS and BN
        result: FloatArray = np.rint(scaled * second_factor)
        return result

    late = (device(at) < steps.thresholds) & (steps.accumulators <= high)
    early = (device(before) >= steps.thresholds) & (steps.accumulators > low)
    return np.asarray(np.count_nonzero(late | early, axis=1), np.int64)
