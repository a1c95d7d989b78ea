"""A table or an addition in the convolution's own task: fewer roundings than TensorFlow Lite.

    BS       t = round((acc + moved) * C >> s1)
    BN       u = round(t * D >> s2)                counted from the least result of the convolution
    table    T = f(u)                              in units of 1/32 LSB, interpolated
    EW       v = T + 64, or u + (e + offset) * M   in units of 1/256 LSB, or 2^-R LSB of the sum
    OUT_CVT  out = round_half_away(v >> R) + offset

TensorFlow Lite rounds to int8, twice, before it looks up or adds. There are two ways:

* **rounded**: BS rounds to LSBs and clamps, BN multiplies by the unit. A result differs where one
  rounding, or the 15 bits of C, give another LSB than TensorFlow Lite's two do: seldom, but where a
  function is steep by as much as it rises there. The zero point is met, and near it C is chosen for
  the least of this. A sum has the scales that it has alone, which are right for every pair.
* **unrounded**: C and D together have some 28 bits, and BN clamps. The result is nearer to the real
  numbers and often another one than TensorFlow Lite's, but never by much.

The clamps of int8, or of the activation, or where a function's equal ends begin, stay: ReLU and its
upper limit, and ``moved`` puts the least result at 0. What that adds is taken off again by BN, by
the place of the table's first entry, or by EW and OUT_CVT together: EW's operand is moved by whole
steps, the result by whole LSBs, and among many ways of both one leaves hardly a rest, by which the
clamps are moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from delegate.lower.numerics.addition import MAX_OPERAND_MULTIPLIER, find_sum
from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    KEPT_BITS,
    LARGEST_FACTOR,
    UNIT_SCALE,
    UNIT_SHIFT,
)
from delegate.lower.numerics.fused_prover import (
    Added,
    Following,
    FusedProof,
    LookedUp,
    LookedUpAndAdded,
    differing_share,
    prove_fused,
)
from delegate.lower.numerics.pair_prover import SumTarget
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
from delegate.lower.numerics.tflite import ratios_of
from delegate.model.graph import Activation

MOST_LSB = 2
"""Between a fused result and TensorFlow Lite's."""

_MAX_SHIFT = 63
# OUT_CVT_SHIFT has six bits.
_MAX_UNIT_BITS = 63 - UNIT_SHIFT
_TRIED_FACTORS = 256
_FAR_STEPS = 1 << 13
# Of an int8 operand, on average.
_MEAN_OPERAND = 64
_OPERAND_STEPS = 128
# Results, counted from the zero point, whose steps are compared: as many for every factor of two.
_WEIGHED_STEPS = np.unique(np.rint(2.0 ** np.arange(0, 7.75, 0.25))).astype(np.int64) - 1
# Accumulators to both sides of where the zero point is met.
_NUDGES = 2


@dataclass(frozen=True, slots=True, eq=False)
class FusedRequantization:
    """Stages for the accumulator, bias included, their proof, and of their results the ``share``
    that is not TensorFlow Lite's, by the prover's model.
    """

    pipeline: Pipeline
    proof: FusedProof
    share: float


def requantize_fused(
    target: Target, following: Following, *, per_channel: bool, clamps_in_bs: bool
) -> FusedRequantization | None:
    """Of both ways the one whose results differ more seldom, by the prover's model. None where no
    stages are proven within MOST_LSB. ``clamps_in_bs``: whether BS may clamp.
    """
    near = target if per_channel else target.widest()
    found = []
    for rounds in (True, False) if clamps_in_bs else (False,):
        pipeline = _pipeline(_Convolution(near, per_channel, rounds, near.outputs), following)
        if pipeline is None:
            continue
        proof = prove_fused(pipeline, near, following)
        if proof.is_sound and proof.worst <= MOST_LSB:
            share = differing_share(pipeline, near, following)
            found.append(FusedRequantization(pipeline, proof, share))
    return min(found, key=lambda one: one.share, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class _Convolution:
    """``rounds``: which of the two ways. ``outputs``: least and largest result that BN tells from
    others.
    """

    target: Target
    per_channel: bool
    rounds: bool
    outputs: tuple[int, int]

    @property
    def ratios(self) -> FloatArray:
        """LSB per accumulator."""
        return ratios_of(self.target.q, self.target.exponent)

    @property
    def below_zero(self) -> int:
        """From the least result to the zero point."""
        return self.target.zero_point - self.outputs[0]

    @property
    def span(self) -> int:
        """From the least result to the largest."""
        return self.outputs[1] - self.outputs[0]

    def operand(self, values: Int64Array) -> Operand:
        """Per channel from memory, else from a register."""
        return values if self.per_channel else int(values[0])


def _pipeline(conv: _Convolution, following: Following) -> Pipeline | None:
    match following:
        case LookedUp():
            return _looking_up(conv, following)
        case Added():
            adding = _adding_rounded if conv.rounds else _adding_unrounded
            return adding(conv, following.target)
        case LookedUpAndAdded():
            return _looking_up_and_adding(conv, following)


def _looking_up(conv: _Convolution, function: LookedUp) -> Pipeline | None:
    """The tables hold no more of the function than what lies between its ends, where every result
    is the same.
    """
    least, largest = conv.outputs
    results = function.wanted(np.arange(least, largest + 1))[:, 0]
    steps = np.flatnonzero(np.diff(results))
    if steps.size:
        results = results[steps[0] : steps[-1] + 2]
        conv = replace(conv, outputs=(least + int(steps[0]), least + int(steps[-1]) + 1))
    if conv.rounds:
        bs, bn = _rounded(conv), Bn(INDEX_STEP)
    else:
        bs, bn = _unrounded(conv, INDEX_STEP, 0.0) or (None, Bn())
    if bs is None:
        return None
    return Pipeline(
        bs,
        bn,
        Ew(EwOperation.ADD, -ENTRY_OFFSET),
        OutCvt(1, ENTRY_SCALE.bit_length() - 1),
        Table(results),
    )


def _looking_up_and_adding(conv: _Convolution, following: LookedUpAndAdded) -> Pipeline | None:
    """EW adds the other tensor in units of an entry. The zero points, and what entries are less
    than their results, become whole LSBs of the sum: some number of steps by which the operand is
    moved, and a multiplier next to the nearest, leave hardly a rest.
    """
    looked_up, total = _looking_up(conv, following.function), following.total.target
    if looked_up is None or not _has_own_clamps(total):
        return None
    first, second = (scale / total.scales[2] for scale in total.scales[:2])
    ratio = second / first * ENTRY_SCALE
    shift = math.floor(math.log2((MAX_OPERAND_MULTIPLIER - 1) / ratio))
    out_bits = FACTOR_BITS - math.frexp(first / ENTRY_SCALE)[1]
    if not (0 <= shift <= _MAX_SHIFT and 0 <= out_bits <= _MAX_SHIFT):
        return None
    multiplier = min(round(math.ldexp(first / ENTRY_SCALE, out_bits)), LARGEST_FACTOR)
    lsb = math.ldexp(multiplier, -out_bits)  # of the sum, per unit: as OUT_CVT has it
    exact = math.ldexp(ratio, shift)
    scales = round(exact) + np.arange(-1, 2)[:, np.newaxis]
    steps = np.arange(-_FAR_STEPS, _FAR_STEPS)
    per_step = np.ldexp(scales * lsb, -shift) * total.signs[1]
    added = (total.zero_points[0] * ENTRY_SCALE + ENTRY_OFFSET) * lsb + steps * per_step
    off = np.abs(scales / exact - 1.0) * (second * _MEAN_OPERAND)
    best = np.unravel_index(np.argmin(np.abs(added - np.rint(added)) + off), added.shape)
    ew = Ew(
        EwOperation.ADD,
        offset=int(steps[best[1]]) - total.zero_points[1],
        scale=total.signs[1] * int(scales[best[0], 0]),
        operand_shift=shift,
    )
    out = OutCvt(multiplier, out_bits, total.zero_points[2] - round(float(added[best])))
    return replace(looked_up, ew=ew, out=out)


def _has_own_clamps(total: SumTarget) -> bool:
    """Whether int8 clamps the sum as its activation does, and the first operand is not
    subtracted.
    """
    return total.outputs == (INT8_MIN, INT8_MAX) and total.signs[0] > 0


def _adding_rounded(conv: _Convolution, total: SumTarget) -> Pipeline | None:
    """The stages of the sum alone, with BN in the place of its BS: they are found for every pair of
    operands.
    """
    bs = _rounded(conv)
    found = find_sum(total.scales, total.zero_points, Activation.NONE, total.signs)
    if bs is None or found is None or not _has_own_clamps(total):
        return None
    alone = found.pipeline
    assert isinstance(alone.bs.multiply, int)
    bn = Bn(alone.bs.multiply, -conv.below_zero * alone.bs.multiply)
    return replace(alone, bs=bs, bn=bn)


def _adding_unrounded(conv: _Convolution, total: SumTarget) -> Pipeline | None:
    first, second = (scale / total.scales[2] for scale in total.scales[:2])
    if not _has_own_clamps(total):
        return None
    bits = min(
        math.floor(math.log2((MAX_OPERAND_MULTIPLIER + 0.49) / max(first, second))),
        _MAX_UNIT_BITS,
    )
    if bits < 0:
        return None
    unit = math.ldexp(1.0, bits)
    scale = total.signs[1] * round(second * unit)
    # What BN is to give at the zero point of the convolution's result.
    base = conv.below_zero * first * unit
    steps = np.arange(-_OPERAND_STEPS, _OPERAND_STEPS) * scale
    whole = np.rint((base + steps) / unit)
    rest = whole * unit - steps - base
    best = int(np.argmin(np.abs(rest)))
    front = _unrounded(conv, first * unit, float(rest[best]))
    if front is None:
        return None
    offset = (best - _OPERAND_STEPS) - total.zero_points[1]
    ew = Ew(EwOperation.ADD, offset=offset, scale=scale)
    out = OutCvt(UNIT_SCALE, UNIT_SHIFT + bits, total.zero_points[2] - int(whole[best]))
    return Pipeline(*front, ew, out)


def _rounded(conv: _Convolution) -> Bs | None:
    """BS rounds to LSBs, the least result is 0, and clamps: one rounding where TensorFlow Lite has
    two.
    """
    bits = FACTOR_BITS - math.frexp(float(conv.ratios.max()))[1]
    found = _nearest_steps(conv, bits) if 0 <= bits <= _MAX_SHIFT else None
    if found is None:
        return None
    first, moved = found
    return Bs(conv.operand(moved), conv.operand(first), bits, True, conv.span)


def _nearest_steps(conv: _Convolution, bits: int) -> tuple[Int64Array, Int64Array] | None:
    """C and ``moved`` of ``_rounded``, whose steps from one result to the next are the nearest to
    TensorFlow Lite's. Results near the zero point weigh more, because feature maps have more of
    them: steps at powers of two from it weigh the same.
    """
    target, ratios = conv.target, conv.ratios
    distances = np.concatenate([-_WEIGHED_STEPS, 1 + _WEIGHED_STEPS])
    distances = distances[
        (distances > -conv.below_zero) & (distances <= conv.span - conv.below_zero)
    ]
    low, high = target.low[:, np.newaxis], target.high[:, np.newaxis] + 1
    wanted = np.clip(target.first(distances), low, high)
    results = conv.below_zero + distances - 0.5
    nearest = np.rint(np.ldexp(ratios, bits))
    best = np.full(ratios.size, np.inf)
    first, moved = np.zeros(ratios.size, np.int64), np.zeros(ratios.size, np.int64)
    for other in (0, -1, 1):
        factor = np.clip(nearest + other, 1, LARGEST_FACTOR)
        slope = np.ldexp(factor, -bits)
        centre = np.rint(conv.below_zero / slope)
        if np.abs(centre).max() >= 1 << KEPT_BITS:
            return None
        steps = np.ceil(results / slope[:, np.newaxis])
        for nudge in range(-_NUDGES, _NUDGES + 1):
            found = np.clip(steps - (centre + nudge)[:, np.newaxis], low, high)
            off = np.abs(found - wanted).sum(axis=1)
            better = off < best
            best[better] = off[better]
            first[better], moved[better] = factor[better], (centre + nudge)[better]
    return first, moved


def _unrounded(conv: _Convolution, unit: float, rest: float) -> tuple[Bs, Bn] | None:
    """BS and BN together multiply; nothing is rounded to LSBs."""
    target = conv.target
    if not (target.q > 0).all():
        return None
    slope = conv.ratios * unit
    moved = np.rint((conv.below_zero * unit + rest) / slope)
    magnitude = np.maximum(np.abs(target.low + moved), np.abs(target.high + moved))
    if magnitude.max() >= 1 << KEPT_BITS or (magnitude * slope).max() >= 1 << KEPT_BITS:
        return None
    bs_shift = max(0, int(magnitude.max()).bit_length() + FACTOR_BITS - KEPT_BITS)
    bits = math.floor(math.log2(LARGEST_FACTOR**2 / float(slope.max())))
    bits = min(bits, bs_shift + _MAX_SHIFT)
    if bits < bs_shift:
        return None
    first, second = _factors(np.ldexp(slope, bits))
    return (
        Bs(conv.operand(moved.astype(np.int64)), conv.operand(first), bs_shift),
        Bn(conv.operand(second), shift=bits - bs_shift, relu=True, relux=round(conv.span * unit)),
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
