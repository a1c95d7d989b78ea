"""A table or an addition in the convolution's own task: one rounding less than TensorFlow Lite.

    BS       t = round((acc + moved) * C >> s1)
    BN       u = round(t * D >> s2), clamped       counted from the least result of the convolution
    table    T = f(u)                              in units of 1/32 LSB, interpolated
    EW       v = T + 64, or u + (e + offset) * M   in units of 1/256 LSB, or 2^-R LSB of the sum
    OUT_CVT  out = round_half_away(v >> R) + offset

TensorFlow Lite rounds to int8 before it looks up or adds; here that rounding is left out, so the
result is nearer to the real numbers, and not TensorFlow Lite's. The clamps of int8, or of the
activation, stay: they are BN's ReLU and its upper limit, and ``moved`` puts the least result at 0.
What that adds is taken off again by the place of the table's first entry, or by EW and OUT_CVT
together: EW's operand is moved by whole steps, the result by whole LSBs, and among 256 ways of both
one leaves a rest of some thousandths of an LSB, by which the clamps are moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.addition import MAX_OPERAND_MULTIPLIER
from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    KEPT_BITS,
    LARGEST_FACTOR,
    UNIT_SCALE,
    UNIT_SHIFT,
)
from delegate.lower.numerics.fused_prover import Added, Following, FusedProof, LookedUp, prove_fused
from delegate.lower.numerics.pipeline import (
    ENTRY_OFFSET,
    ENTRY_SCALE,
    INDEX_STEP,
    INT8_MAX,
    INT8_MIN,
    Bn,
    Bs,
    Ew,
    EwOperation,
    FloatArray,
    Int64Array,
    Operand,
    OutCvt,
    Pipeline,
    Table,
)
from delegate.lower.numerics.prover import Target

MOST_LSB = 2
"""Between a fused result and TensorFlow Lite's."""

_MAX_SHIFT = 63
# OUT_CVT_SHIFT has six bits.
_MAX_UNIT_BITS = 63 - UNIT_SHIFT
_TRIED_FACTORS = 256
_OPERAND_STEPS = 128


@dataclass(frozen=True, slots=True, eq=False)
class FusedRequantization:
    """Stages for the accumulator, bias included, and their proof."""

    pipeline: Pipeline
    proof: FusedProof


def requantize_fused(
    target: Target, following: Following, *, per_channel: bool
) -> FusedRequantization | None:
    """None where no stages are proven within MOST_LSB."""
    near = target if per_channel else target.widest()
    pipeline = (
        _looking_up(near, following, per_channel=per_channel)
        if isinstance(following, LookedUp)
        else _adding(near, following, per_channel=per_channel)
    )
    if pipeline is None:
        return None
    proof = prove_fused(pipeline, near, following)
    if not proof.is_sound or proof.worst > MOST_LSB:
        return None
    return FusedRequantization(pipeline, proof)


def _looking_up(target: Target, function: LookedUp, *, per_channel: bool) -> Pipeline | None:
    front = _counted_from_least(target, INDEX_STEP, 0.0, per_channel=per_channel)
    if front is None:
        return None
    return Pipeline(
        *front,
        Ew(EwOperation.ADD, -ENTRY_OFFSET),
        OutCvt(1, ENTRY_SCALE.bit_length() - 1),
        Table(function.results, target.outputs[0] - INT8_MIN),
    )


def _adding(target: Target, following: Added, *, per_channel: bool) -> Pipeline | None:
    """None where the sum has an activation that int8 does not make by itself, or the convolution's
    result is subtracted.
    """
    total = following.target
    first, second = (scale / total.scales[2] for scale in total.scales[:2])
    if total.outputs != (INT8_MIN, INT8_MAX) or total.signs[0] < 0:
        return None
    bits = min(
        math.floor(math.log2((MAX_OPERAND_MULTIPLIER + 0.49) / second)),
        KEPT_BITS - math.frexp(first * (INT8_MAX - INT8_MIN) + 1.0)[1],
        _MAX_UNIT_BITS,
    )
    if bits < 0:
        return None
    unit = math.ldexp(1.0, bits)
    scale = round(second * unit)
    # What BN is to give at the zero point of the convolution's result.
    base = (target.zero_point - target.outputs[0]) * first * unit
    steps = np.arange(-_OPERAND_STEPS, _OPERAND_STEPS) * (total.signs[1] * scale)
    whole = np.rint((base + steps) / unit)
    rest = whole * unit - steps - base
    best = int(np.argmin(np.abs(rest)))
    front = _counted_from_least(target, first * unit, float(rest[best]), per_channel=per_channel)
    if front is None:
        return None
    offset = (best - _OPERAND_STEPS) - total.zero_points[1]
    ew = Ew(EwOperation.ADD, offset=offset, scale=total.signs[1] * scale)
    out = OutCvt(UNIT_SCALE, UNIT_SHIFT + bits, total.zero_points[2] - int(whole[best]))
    return Pipeline(*front, ew, out)


def _counted_from_least(
    target: Target, unit: float, rest: float, *, per_channel: bool
) -> tuple[Bs, Bn] | None:
    """BS and BN that give ``unit`` per LSB from the least result on, and ``rest`` more; clamped at
    both ends. None where the shifts do not fit.
    """
    if not (target.q > 0).all():
        return None
    ratios = np.ldexp(target.q.astype(np.float64), (target.exponent - 31).astype(np.int32))
    slope = ratios * unit
    at_zero = (target.zero_point - target.outputs[0]) * unit + rest
    moved = np.rint(at_zero / slope)
    magnitude = np.maximum(np.abs(target.low + moved), np.abs(target.high + moved))
    if magnitude.max() >= 1 << KEPT_BITS or (magnitude * slope).max() >= 1 << KEPT_BITS:
        return None
    bs_shift = max(0, int(magnitude.max()).bit_length() + FACTOR_BITS - KEPT_BITS)
    bits = math.floor(math.log2(LARGEST_FACTOR**2 / float(slope.max())))
    bits = min(bits, bs_shift + _MAX_SHIFT)
    if bits < bs_shift:
        return None
    first, second = _factors(np.ldexp(slope, bits))
    limit = round((target.outputs[1] - target.outputs[0]) * unit)
    adds: Operand = moved.astype(np.int64)
    multiplies: Operand = first
    scales: Operand = second
    if not per_channel:
        adds, multiplies, scales = int(moved[0]), int(first[0]), int(second[0])
    return (
        Bs(adds, multiplies, bs_shift),
        Bn(scales, shift=bits - bs_shift, relu=True, relux=limit),
    )


def _factors(products: FloatArray) -> tuple[Int64Array, Int64Array]:
    """Two factors per product, of 15 bits each, the nearest of some."""
    largest = np.clip(np.floor(products), 1, LARGEST_FACTOR)
    # A large first factor: BS rounds as little as it can.
    least = np.clip(np.maximum(np.ceil(products / LARGEST_FACTOR), largest // 2), 1, largest)
    places = np.linspace(0.0, 1.0, _TRIED_FACTORS)
    first = np.rint(least[:, np.newaxis] + (largest - least)[:, np.newaxis] * places)
    second = np.clip(np.rint(products[:, np.newaxis] / first), 1, LARGEST_FACTOR)
    best = np.argmin(np.abs(first * second - products[:, np.newaxis]), axis=1)
    rows = np.arange(len(products))
    return first[rows, best].astype(np.int64), second[rows, best].astype(np.int64)
