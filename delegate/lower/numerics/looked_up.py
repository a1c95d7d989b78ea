"""A function of a convolution's result, looked up in the convolution's own task.

    BS       t = round((acc + bias) * C >> s1)     or the accumulator itself
    BN       u = round(t * D >> s2)                32 units per LSB, 0 at the zero point
    table    v = T(u)                              between entries the DPU interpolates
    OUT_CVT  out = round(v >> 8)

TensorFlow Lite rounds to int8 before it looks up: where it gives k, the operators one after the
other, each within one step, may give any result between f(k - 1) and f(k + 1). T has an entry at
every whole LSB, 256 * f of the clamped value there, so that what lies between two entries lies
between their results. A task is therefore within the bound if the accumulators that give k have u
between those of k - 1 and k + 1: this is what is proved, for every accumulator. The result is
nearer to the real numbers than TensorFlow Lite's, and differs from it where f rises.

Beyond the tables their ends hold, and beyond the convolution's least and largest result the
entries repeat: so clamps need no stage. In runs of equal entries boards were seen to read up to 128
units more: there entries are 64 less, and any error from -63 to +128 gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.factors import FACTOR_BITS, KEPT_BITS, LARGEST_FACTOR
from delegate.lower.numerics.pipeline import (
    ENTRY_OFFSET,
    ENTRY_SCALE,
    INDEX_STEP,
    INT8_MIN,
    Bn,
    Bs,
    FloatArray,
    Int64Array,
    OutCvt,
    Pipeline,
)
from delegate.lower.numerics.prover import Target
from delegate.lower.numerics.tflite import ratios_of

CURVE_STEPS = 1024
"""The steps from the first entry of both tables to the last; the middle one is at 0."""
_INDEX_BITS = INDEX_STEP.bit_length() - 1
_MOST_SHIFT = 63
_INT16_MIN = -(1 << 15)
# A multiplier of the index keeps so many bits of BS's result below an index unit.
_BITS_BELOW = 10
# How often results differ is counted at so many accumulators of each result, in so many channels.
_SAMPLES, _CHANNELS = 16, 8
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class LookedUp:
    """Stages up to BN, the tables' entries, and how the results differ: ``worst`` is the largest
    distance to TensorFlow Lite's for any input, in LSB, and ``share`` of the results differ if
    every accumulator is as frequent.
    """

    pipeline: Pipeline
    entries: Int64Array
    worst: int
    share: float


def looked_up(
    target: Target, function: Int64Array, *, per_channel: bool, multiplies: bool
) -> LookedUp | None:
    """``target``: the convolution alone. ``function``: its results for -128 to 127.
    ``multiplies``: BS does, per channel; else BN has the only multiplier, which serves channels of
    one scale. None where no stages are within the bound.
    """
    near = target if per_channel else target.widest()
    steps = near.outputs[0], near.outputs[1], near.zero_point
    entries = _entries(function, *steps)
    for bs, bn in _by_record(near, per_channel) if multiplies else _by_index(near):
        pipeline = Pipeline(bs, bn, out=OutCvt(1, ENTRY_SCALE.bit_length() - 1, ties_away=False))
        if _is_within_neighbours(pipeline, near):
            worst, share = _differences(pipeline, near, function, entries)
            return LookedUp(pipeline, entries, worst, share)
    return None


def _entries(function: Int64Array, least: int, largest: int, zero_point: int) -> Int64Array:
    """At every whole LSB around the zero point, the results of the nearest that there is."""
    places = np.arange(-CURVE_STEPS // 2, CURVE_STEPS // 2 + 1) + zero_point
    results = function[np.clip(places, least, largest) - INT8_MIN]
    is_flat = np.zeros(results.size, np.bool_)
    is_equal = results[1:] == results[:-1]
    is_flat[1:] |= is_equal
    is_flat[:-1] |= is_equal
    entries: Int64Array = results * ENTRY_SCALE + np.where(is_flat, ENTRY_OFFSET, 0)
    return np.maximum(entries, _INT16_MIN)


def _by_record(target: Target, per_channel: bool) -> Iterator[tuple[Bs, Bn]]:
    """BS brings channels to one unit, BN shifts it to the index."""
    ratios = ratios_of(target.q, target.exponent)
    bits = FACTOR_BITS - math.frexp(float(ratios.max()))[1]
    factors = np.minimum(np.rint(np.ldexp(ratios, bits)), LARGEST_FACTOR).astype(np.int64)
    magnitude = np.maximum(np.abs(target.low), np.abs(target.high))
    least = max(0, int((magnitude * factors).max()).bit_length() - KEPT_BITS)
    bs_shift = max(least, bits - _INDEX_BITS - _BITS_BELOW, 0)
    bn_shift = bits - bs_shift - _INDEX_BITS
    if 0 <= bn_shift <= _MOST_SHIFT and bs_shift <= _MOST_SHIFT:
        yield Bs(0, factors if per_channel else int(factors[0]), bs_shift), Bn(1, shift=bn_shift)


def _by_index(target: Target) -> Iterator[tuple[Bs, Bn]]:
    """BN makes the index of the accumulator itself."""
    units = float(ratios_of(target.q, target.exponent)[0]) * INDEX_STEP
    bits = FACTOR_BITS - math.frexp(units)[1] if units > 0 else -1
    if 0 <= bits <= _MOST_SHIFT:
        factor = min(round(math.ldexp(units, bits)), LARGEST_FACTOR)
        yield Bs(), Bn(factor, shift=bits)


def _is_within_neighbours(pipeline: Pipeline, target: Target) -> bool:
    """Whether BN gives, of every accumulator that TensorFlow Lite rounds to k, an index between
    those of k - 1 and k + 1. BN's result rises with the accumulator, so the ends of the stretch of
    k speak for all in it. Below the least result and above the largest all entries are the same.
    """
    low, high = target.low[:, np.newaxis], target.high[:, np.newaxis]
    limits = np.concatenate([low, high], axis=1).astype(np.float64)
    if not pipeline.rises() or not pipeline.fits_int32(limits):
        return False
    begins = np.concatenate([low, np.clip(target.firsts, low, high + 1), high + 1], axis=1)
    first, last = begins[:, :-1], begins[:, 1:] - 1
    least, largest = target.outputs
    results = np.arange(least, largest + 1, dtype=np.float64) - target.zero_point
    below, above = (results - 1) * INDEX_STEP, (results + 1) * INDEX_STEP
    below[0], above[-1] = -np.inf, np.inf
    is_within = (index_of(pipeline, first) >= below) & (index_of(pipeline, last) <= above)
    return bool(np.all(is_within | (first > last)))


def index_of(pipeline: Pipeline, accumulators: Int64Array) -> FloatArray:
    """Return BN's results for ``accumulators`` [channels, values]."""
    stages = pipeline.before_table(accumulators.astype(np.float64))
    while True:
        try:
            next(stages)
        except StopIteration as end:
            return np.asarray(end.value)


def found_at(entries: Int64Array, index: FloatArray) -> Int64Array:
    """The task's results at ``index``."""
    reach = CURVE_STEPS // 2 * INDEX_STEP
    place, rest = np.divmod(np.clip(index, -reach, reach) + reach, INDEX_STEP)
    at = place.astype(np.int64)
    start = entries[at]
    rise = entries[np.minimum(at + 1, CURVE_STEPS)] - start
    values = start + np.rint(rise * (rest / INDEX_STEP))
    return np.asarray(np.rint(values / ENTRY_SCALE), np.int64)


def _differences(
    pipeline: Pipeline, target: Target, function: Int64Array, entries: Int64Array
) -> tuple[int, float]:
    """The bound, and about how many results differ."""
    least, largest = target.outputs
    results = function[least - INT8_MIN : largest - INT8_MIN + 1]
    worst = int(np.abs(np.diff(results)).max(initial=0))
    channels = np.unique(np.linspace(0, target.q.size - 1, _CHANNELS).astype(np.intp))
    some = target.of(channels)
    stages = Pipeline(pipeline.bs, pipeline.bn)
    low, high = some.low[:, np.newaxis], some.high[:, np.newaxis]
    begins = np.concatenate([low, np.clip(some.firsts, low, high + 1), high + 1], axis=1)
    counts = np.diff(begins, axis=1)[:, :, np.newaxis]
    places = np.arange(1, counts.size * _SAMPLES + 1) * _GOLDEN % 1.0
    inside = np.floor(places.reshape(*counts.shape[:2], _SAMPLES) * counts).astype(np.int64)
    accumulators = begins[:, :-1, np.newaxis] + inside
    differing = counted = 0
    for number, channel in enumerate(channels.tolist()):
        one = stages.of(slice(channel, channel + 1))
        rows = counts[number, :, 0] > 0
        index = index_of(one, accumulators[number, rows].reshape(1, -1))
        found = found_at(entries, index).reshape(-1, _SAMPLES)
        differing += int(np.count_nonzero(found != results[rows, np.newaxis]))
        counted += found.size
    return worst, differing / max(counted, 1)
