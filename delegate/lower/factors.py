"""Two 15-bit factors for a per-tensor multiplier, so that the results are TFLite's.

In: TFLite's multiplier as (q, exponent), the BS shift, the largest accumulator. Out: C and D whose
two roundings change as few results as possible. Both TFLite's function and the DPU's rise with the
accumulator, so they are equal everywhere if they step from one output to the next at the same
accumulators: 512 steps decide, not millions of accumulators. For most multipliers some pair of
factors gets every step right, and then the node is exact for any input.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.lower.multipliers import MULTIPLIER_BITS

Int64Array = npt.NDArray[np.int64]

# Outputs are 8 bits around a zero point inside them: no step lies further away than this.
OUTPUT_STEPS = 256
# How many pairs are tried, best product first. More help only where the first ones all fail.
CANDIDATES = 64
# TFLite's first rounding moves a step by less than one accumulator; two more for the estimate.
_SEARCH = 3


@dataclass(frozen=True, slots=True)
class Factors:
    """``first * second / 2^bits`` ~ q / 2^31 with the relative ``error``. ``wrong_steps``: places
    of 512 where an accumulator gives another output than TFLite's. ``drops_bits``: BS rounds.
    """

    first: int
    second: int
    bits: int
    error: float
    wrong_steps: int
    drops_bits: bool


@functools.lru_cache(maxsize=4096)
def choose_factors(q: int, exponent: int, bs_shift: int, magnitude: int) -> Factors | None:
    """The pair with the fewest wrong steps; None if no pair fits the shifts.

    ``exponent`` is TFLite's (negative: shift right), ``magnitude`` the largest absolute
    accumulator.
    """
    unit_bits = max(-exponent, 0)
    steps = _steps(q, exponent, magnitude)
    best: Factors | None = None
    for first, second, bits, error in _candidates(q, exponent, bs_shift):
        bn_shift = bits - max(exponent, 0) - bs_shift
        if bn_shift < 0:
            continue
        wrong = _wrong_steps(steps, first, bs_shift, second, bn_shift, unit_bits)
        if best is None or wrong < best.wrong_steps:
            best = Factors(first, second, bits, error, wrong, first % (1 << bs_shift) != 0)
        if wrong == 0:
            break
    return best


def _candidates(q: int, exponent: int, bs_shift: int) -> list[tuple[int, int, int, float]]:
    """Pairs by what they are off in the middle of the output range, in units of BN's result."""
    limit = 1 << MULTIPLIER_BITS
    first = np.arange(limit // 2, limit, dtype=np.int64)
    found: list[tuple[float, int, int, int, float]] = []
    unit_bits = max(-exponent, 0)
    for bits in (2 * MULTIPLIER_BITS, 2 * MULTIPLIER_BITS - 1):
        wanted = q * 2.0 ** (bits - 31)
        second = np.rint(wanted / first).astype(np.int64)
        error = np.abs(first * second - wanted) / wanted
        dropped = np.where(first % (1 << bs_shift) == 0, 0.0, 0.5)
        rounding = dropped * second * 2.0 ** (bs_shift + max(exponent, 0) - bits)
        off = error * (OUTPUT_STEPS / 2) * 2.0**unit_bits + rounding
        off[second >= limit] = np.inf
        # Sorting the few that can be among the best is enough, and twenty times faster.
        near = np.flatnonzero(off <= np.partition(off, CANDIDATES)[CANDIDATES])
        for i in near[np.argsort(off[near], kind="stable")][:CANDIDATES]:
            if np.isfinite(off[i]):
                found.append((float(off[i]), int(first[i]), int(second[i]), bits, float(error[i])))
    found.sort()
    return [(f, s, bits, error) for _, f, s, bits, error in found[:CANDIDATES]]


def _steps(q: int, exponent: int, magnitude: int) -> tuple[Int64Array, Int64Array]:
    """(accumulator, output): the least accumulator that gives each output of TFLite."""
    outputs = np.arange(-OUTPUT_STEPS, OUTPUT_STEPS + 1, dtype=np.int64)
    real = q * 2.0 ** (exponent - 31)
    estimate = np.ceil((outputs - 0.5) / real)
    reachable = np.abs(estimate) < magnitude - _SEARCH
    outputs = outputs[reachable]
    around = estimate[reachable].astype(np.int64)[:, np.newaxis] + np.arange(-_SEARCH, _SEARCH + 1)
    reached = tflite_results(around, q, exponent) >= outputs[:, np.newaxis]
    first = np.argmax(reached, axis=1)
    inside = reached.any(axis=1) & ~reached[:, 0]
    rows = np.flatnonzero(inside)
    return around[rows, first[rows]], outputs[rows]


def _wrong_steps(
    steps: tuple[Int64Array, Int64Array],
    first: int,
    bs_shift: int,
    second: int,
    bn_shift: int,
    unit_bits: int,
) -> int:
    accumulators, outputs = steps
    at = _device(accumulators, first, bs_shift, second, bn_shift, unit_bits) < outputs
    before = _device(accumulators - 1, first, bs_shift, second, bn_shift, unit_bits) >= outputs
    return int(np.count_nonzero(at | before))


def tflite_results(
    accumulators: Int64Array, q: int | Int64Array, exponent: int | Int64Array
) -> Int64Array:
    """``multipliers.scale_accumulator`` for many accumulators, as long as |acc| * q < 2^62."""
    product = accumulators * np.left_shift(q, np.maximum(exponent, 0))
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.abs(product + nudge) >> 31
    right = np.maximum(np.negative(exponent), 0)
    rounded: Int64Array = np.sign(product) * ((high + (np.left_shift(1, right) >> 1)) >> right)
    return rounded


def _device(
    accumulators: Int64Array, first: int, bs_shift: int, second: int, bn_shift: int, unit_bits: int
) -> Int64Array:
    """BS, BN and OUT_CVT without clamps."""
    unit = _half_even(_half_even(accumulators * first, bs_shift) * second, bn_shift)
    rounded: Int64Array = np.sign(unit) * ((np.abs(unit) + ((1 << unit_bits) >> 1)) >> unit_bits)
    return rounded


def _half_even(values: Int64Array, shift: int) -> Int64Array:
    if shift == 0:
        return values
    floor = values >> shift
    rest = values - (floor << shift)
    half = 1 << (shift - 1)
    up = (rest > half) | ((rest == half) & (floor & 1 == 1))
    rounded: Int64Array = floor + up
    return rounded
