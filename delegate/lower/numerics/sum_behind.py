"""Add another map behind a convolution, in the convolution's own task.

    BS       t = round((acc + bias) * C >> s)            2^k units per LSB of the sum
    BN       t - low, clamped to 0 .. high - low         the convolution's own ends
    EW       plus (other - its zero point) * B
    OUT_CVT  round(sum >> k), plus zero point and low

TensorFlow Lite rounds the convolution to int8, q, and then adds. Where it gives q, the operators
one after the other, each within one step, may give any sum between that of q - 1, less one, and
that of q + 1, plus one. A task does not round the convolution, so its value is within half a step
of q, and a little more where TensorFlow Lite rounds twice. Its sum is therefore within the bound if
all that the stages are off by is below one LSB of the sum; at the ends of int8, where q has one
neighbour, this is what is needed, and BN's clamps keep the convolution there. ``low`` is a whole
number of LSB, because OUT_CVT gives it back.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from delegate.lower.numerics.addition import MAX_OPERAND_MULTIPLIER, TFLITE_ERROR
from delegate.lower.numerics.factors import FACTOR_BITS, LARGEST_FACTOR, UNIT_SCALE, UNIT_SHIFT
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    Difference,
    Ew,
    EwOperation,
    FloatArray,
    Joined,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.tflite import Target, weighted_sum

MOST_ERROR = 0.25
"""Bound on the errors of multipliers and of roundings between the stages, in LSB: a sum is then
mostly the real one, rounded once."""
_LEAST_RATIO = 2.0**-40
_MOST_SHIFT = 63 - UNIT_SHIFT
# Sums that are counted to say how many differ: so many values of a channel, in so many channels.
_SAMPLES, _CHANNELS = 512, 16
_GOLDEN = (math.sqrt(5) - 1) / 2


def sum_behind(
    target: Target, scales: tuple[float, float, float], zero_points: tuple[int, int]
) -> Joined | None:
    """Return the stages of a convolution and its sum with another map. ``target``: the convolution.
    ``scales``: of its result, of the other map and of the sum; int8 ``zero_points`` of the last
    two. None where none are within the bound.
    """
    if target.divisor is not None:
        return None
    first, second = scales[0] / scales[2], scales[1] / scales[2]
    real = target.real * first
    for bits in _unit_bits(target, real, second):
        shift = min(FACTOR_BITS - math.frexp(float(np.ldexp(real.max(), bits)))[1], _MOST_SHIFT)
        if shift < 0:
            continue
        factors = np.minimum(np.rint(np.ldexp(real, bits + shift)), LARGEST_FACTOR)
        operand = round(math.ldexp(second, bits))
        low, high = ((end - target.zero_point) * first for end in target.outputs)
        error = _error(target, real, np.ldexp(factors, -bits - shift), max(-low, high), bits)
        error += abs(math.ldexp(operand, -bits) - second) * _reach(zero_points[0])
        bn, whole = _clamps(target, low, high, bits)
        pipeline = Pipeline(
            MultiplyStage(multiply=factors.astype(np.int64), shift=shift),
            bn,
            Ew(EwOperation.ADD, offset=-zero_points[0], scale=operand),
            OutConvert(UNIT_SCALE, bits + UNIT_SHIFT, zero_points[1] + whole, ties_away=False),
        )
        early = first * float(target.early.max())
        moved = abs(whole - low) if bn.relu else 0.0
        off = error + moved + TFLITE_ERROR + early
        if error > MOST_ERROR or off > 1 or not _fits(pipeline, target):
            continue
        worst = math.ceil(first / 2 + off)
        told = partial(_differences, worst, pipeline, target, scales, zero_points)
        return Joined(pipeline, None, told)
    return None


def _unit_bits(target: Target, real: FloatArray, second: float) -> range:
    """Return the numbers of bits that units may have below an LSB, the most first."""
    largest = max(float((target.magnitude * real).max()), 1.0)
    most = min(
        math.floor(math.log2((MAX_OPERAND_MULTIPLIER + 0.49) / second)),
        30 - math.frexp(largest)[1],
        _MOST_SHIFT,
    )
    return range(most, max(most - 2, -1), -1)


def _error(target: Target, real: FloatArray, made: FloatArray, reach: float, bits: int) -> float:
    """Return what the convolution's value is off by between its clamps, in LSB of the sum.
    ``made``: the multipliers of the stages.
    """
    accumulators = np.minimum(
        target.magnitude, reach / np.maximum(np.minimum(real, made), _LEAST_RATIO)
    )
    return float((np.abs(made - real) * accumulators).max()) + math.ldexp(1.0, -bits)


def _reach(zero_point: int) -> int:
    return max(INT8_MAX - zero_point, zero_point - INT8_MIN)


def _clamps(target: Target, low: float, high: float, bits: int) -> tuple[MultiplyStage, int]:
    """Return BN, and the LSB that OUT_CVT gives back: nothing where no accumulator leaves int8."""
    ends = [end - target.zero_point for end in target.outputs]
    least, most = (target.low * target.real).min(), (target.high * target.real).max()
    if ends[0] <= least and most <= ends[1]:
        return MultiplyStage(), 0
    whole = round(low)
    unit = 1 << bits
    return MultiplyStage(
        add=-whole * unit, relu=True, relux=max(round(high * unit) - whole * unit, 0)
    ), whole


def _fits(pipeline: Pipeline, target: Target) -> bool:
    """Return whether no stage saturates for any accumulator and any value of the other map."""
    return all(pipeline.fits_int32(target.ends, float(e)) for e in (INT8_MIN, INT8_MAX))


def _differences(
    worst: int,
    pipeline: Pipeline,
    target: Target,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int],
) -> Difference:
    """Return the bound, and about how many sums differ, of accumulators that are spread over
    int8.
    """
    channels = slice(0, None, -(-target.q.size // _CHANNELS))
    some = target.of(channels)
    steps = np.arange(1, some.q.size * _SAMPLES + 1).reshape(-1, _SAMPLES)
    ends = [end - target.zero_point for end in target.outputs]
    values = ends[0] + (steps * _GOLDEN % 1.0) * (ends[1] - ends[0])
    ratios = np.maximum(some.real, _LEAST_RATIO)[:, np.newaxis]
    low, high = some.low[:, np.newaxis], some.high[:, np.newaxis]
    accumulators = np.clip(np.rint(values / ratios), low, high).astype(np.int64)
    others = (steps * _GOLDEN * _GOLDEN % 1.0 * 256).astype(np.int64) + INT8_MIN
    part = pipeline.of(channels)
    found = part.run(accumulators.astype(np.float64), others.astype(np.float64))
    inner = np.clip(some.results(accumulators) + target.zero_point, *target.outputs)
    zeros = target.zero_point, *zero_points
    wanted = weighted_sum((inner, others), scales, zeros, (1, 1)) + zero_points[1]
    return Difference(worst, float(np.mean(found != np.clip(wanted, INT8_MIN, INT8_MAX))))
