"""Per-channel stages that make both roundings of TFLite's reference kernels from 29-bit products.

    BS       t = round(acc * C_c >> s1)
    BN       N = round(t * D_c >> s2)      C_c * D_c / 2^(s1 + s2) ~ q_c / 2^31: TFLite's N itself,
                                           in units of 2^-G_c LSB, another unit in every channel
    EW       u = N * 2^(R - G_c)           one unit for all channels, exactly
    OUT_CVT  out = round_half_away(u >> R)

C, D and the power of two come from memory, per channel. Which accumulators lead to which output is
compared with TFLite for every channel (``channel_factors``); nearly always some pair (C, D) gets
every step right, and then the channel equals TFLite for any input.

A channel whose scale is far below the others rounds to a coarser unit than TFLite's, 2^-14 LSB or
less. One with hardly any bits left is mostly bias and put right at its centre, as are channels
whose result is the same for every input.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from delegate.lower.channel_bounds import CENTRE_LIMIT, channel_errors, wanted_centres
from delegate.lower.channel_factors import (
    LARGEST_FACTOR,
    choose_channel_factors,
    count_wrong_steps,
    tflite_steps,
)
from delegate.lower.factors import tflite_results
from delegate.lower.multipliers import MULTIPLIER_BITS
from delegate.lower.stages import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    AccumulatorBounds,
    FloatArray,
    Int64Array,
    Stages,
)

# The largest power of two in EW's signed 16-bit operand.
MAX_EW_BITS = 14
# Behind BS and BN 30 bits are kept, so that rounding cannot reach 2^31.
KEPT_BITS = 30
# Two factors of 15 bits, the first not below 2^14: what any product below this can be made of.
PRODUCT_BITS = 2 * MULTIPLIER_BITS - 1
# Channels whose steps are in memory at once.
CHANNELS_AT_ONCE = 128
# Outputs span this many LSB; behind them results are saturated, whatever their distance.
OUTPUT_LSB = 2.0 * (INT8_MAX - INT8_MIN + 1)


def exact_channel_stages(
    multipliers: FloatArray,
    q: Int64Array,
    exponent: Int64Array,
    bounds: AccumulatorBounds,
    outputs: tuple[int, int],
) -> Stages | None:
    """TFLite's (``q``, ``exponent``) per channel, q = 0 where the result is the zero point whatever
    the input. ``outputs``: the activation's range, counted from the zero point. None where the
    channels' scales do not fit the stages.
    """
    is_live = q > 0
    is_constant = is_live & _gives_one_result(q, exponent, bounds)
    is_varying = is_live & ~is_constant
    if not is_varying.any():
        return None
    unit = -exponent
    headroom = KEPT_BITS - math.frexp(float((bounds.magnitude * multipliers).max()) + 1.0)[1]
    finest, coarsest = int(unit[is_varying].max()), max(int(unit[is_varying].min()), 0)
    unit_bits = max(0, min(finest, coarsest + MAX_EW_BITS, headroom))
    own_bits = np.clip(unit, 0, unit_bits)
    own_bits[is_constant] = max(0, unit_bits - MAX_EW_BITS)
    slope = np.where(is_varying, np.ldexp(multipliers, own_bits.astype(np.int32)), 0.0)
    shifts = _shifts(slope, multipliers, bounds, is_varying)
    if shifts is None:
        return None
    bs_shift, bn_shift = shifts
    products = np.ldexp(slope, bs_shift + bn_shift)
    is_coarse = is_live & (products < LARGEST_FACTOR)
    moved, c, d = _centre(multipliers, bounds, products, own_bits, is_coarse, shifts)
    bounds = AccumulatorBounds(bounds.low + moved, bounds.high + moved)
    largest = np.minimum(_largest_first(bounds.magnitude, bs_shift), LARGEST_FACTOR)

    all_outputs = np.arange(outputs[0] + 1, outputs[1] + 1, dtype=np.int64)
    wrong = np.zeros_like(q)
    for start in range(0, q.size, CHANNELS_AT_ONCE):
        part = np.arange(start, min(start + CHANNELS_AT_ONCE, q.size))
        steps = tflite_steps(q[part], exponent[part], own_bits[part], all_outputs).moved(
            moved[part]
        )
        fine = np.flatnonzero(is_live[part] & ~is_coarse[part])
        if fine.size:
            rows = part[fine]
            chosen = choose_channel_factors(
                products[rows],
                steps.of(fine),
                AccumulatorBounds(bounds.low[rows], bounds.high[rows]),
                np.ldexp(1.0, own_bits[rows].astype(np.int32)),
                bs_shift,
                bn_shift,
                largest[rows],
            )
            c[rows], d[rows], wrong[rows] = chosen.first, chosen.second, chosen.wrong_steps
        few = np.flatnonzero(is_coarse[part])
        if few.size:
            rows = part[few]
            wrong[rows] = count_wrong_steps(
                steps.of(few),
                AccumulatorBounds(bounds.low[rows], bounds.high[rows]),
                c[rows],
                d[rows],
                bs_shift,
                bn_shift,
            )
    if (d > LARGEST_FACTOR).any() or (is_live & ((c < 1) | (d < 1))).any():
        return None
    if (bounds.magnitude * np.maximum(c / 2.0**bs_shift, 1.0) > INT32_MAX).any():
        return None

    # LSB per unit of C: what BS rounds to. BN's own rounding can go the other way on top.
    step = np.ldexp(d.astype(np.float64), (-bs_shift - bn_shift - own_bits).astype(np.int32))
    error = channel_errors(bounds, moved, multipliers, c * step)
    error += 0.5 * np.ldexp(step, bs_shift) + np.ldexp(1.0, (-own_bits).astype(np.int32))
    error = np.where(wrong > 0, error, 0.0)
    if float(error.max()) >= 0.5:
        return None
    return Stages(
        multipliers=c,
        bs_shift=bs_shift,
        bn_operands=d,
        bn_multiplier=0,
        bn_shift=bn_shift,
        unit_bits=unit_bits,
        error_lsb=float(error.max()),
        bias_change=moved,
        ew_operands=np.left_shift(np.int64(1), unit_bits - own_bits),
        wrong_steps=int(wrong.sum()),
    )


def _gives_one_result(
    q: Int64Array, exponent: Int64Array, bounds: AccumulatorBounds
) -> npt.NDArray[np.bool_]:
    """Channels with one result for every input, as where all weights are zero; only the bias
    matters there, and it can be any that rounds to the result.
    """
    shrinks = exponent <= 0
    scale = np.where(shrinks, exponent, 0)
    low, high = (tflite_results(end, q, scale) for end in (bounds.low, bounds.high))
    return np.asarray(shrinks & (low == high))


def _largest_first(magnitude: Int64Array, bs_shift: int) -> Int64Array:
    """C with which BS stays within 30 bits; at least 1."""
    return np.maximum((1 << (KEPT_BITS + bs_shift)) // magnitude, 1)


def _shifts(
    slope: FloatArray,
    multipliers: FloatArray,
    bounds: AccumulatorBounds,
    is_varying: npt.NDArray[np.bool_],
) -> tuple[int, int] | None:
    """s1: as few bits dropped as int32 allows for accumulators that are not saturated anyway, with
    all bits of C; channels that can leave this range (by a large bias) take a smaller C. s1 + s2:
    the products are as large as two factors can make them in every channel.
    """
    reach = np.ceil(OUTPUT_LSB / multipliers[is_varying])
    relevant = np.minimum(bounds.magnitude[is_varying], reach)
    bs_shift = max(0, int(relevant.max()).bit_length() + MULTIPLIER_BITS - KEPT_BITS)
    largest = np.minimum(_largest_first(bounds.magnitude, bs_shift), LARGEST_FACTOR)
    room = largest[is_varying] * float(LARGEST_FACTOR) / slope[is_varying]
    # One bit of room: at the very limit only a few pairs fit.
    bits = min(int(np.floor(np.log2(room.min()))) - 1, PRODUCT_BITS + _leading_zeros(slope))
    if bits - bs_shift < 0 or bits < MULTIPLIER_BITS:
        return None
    return bs_shift, bits - bs_shift


def _leading_zeros(slope: FloatArray) -> int:
    """n with 2^-n > the largest slope >= 2^-(n+1)."""
    return -math.frexp(float(slope.max()))[1]


def _centre(
    multipliers: FloatArray,
    bounds: AccumulatorBounds,
    products: FloatArray,
    own_bits: Int64Array,
    is_coarse: npt.NDArray[np.bool_],
    shifts: tuple[int, int],
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """How far the bias of ``is_coarse`` channels is moved, and their C and D; zeros elsewhere."""
    moved, c, d = (np.zeros(len(products), np.int64) for _ in range(3))
    rows = np.flatnonzero(is_coarse)
    if not rows.size:
        return moved, c, d
    wanted = wanted_centres(bounds, multipliers, is_coarse)[rows]
    lsb = np.ldexp(1.0, (-sum(shifts) - own_bits[rows]).astype(np.int32))
    # A product so small that the centre would need an accumulator beyond int32 is raised.
    least = np.ceil(np.abs(wanted) / (lsb * CENTRE_LIMIT))
    whole = np.maximum(np.maximum(np.rint(products[rows]), least), 1)
    # Centres reach half of int32, and BS is to stay within KEPT_BITS.
    largest = max(1, min(1 << shifts[0] >> 1, LARGEST_FACTOR))
    d[rows] = np.ceil(whole / largest).astype(np.int64)
    c[rows] = np.ceil(whole / d[rows]).astype(np.int64)
    centre = (bounds.low[rows] + bounds.high[rows]) / 2.0
    moved[rows] = np.rint(wanted / (c[rows] * d[rows] * lsb) - centre).astype(np.int64)
    return moved, c, d
