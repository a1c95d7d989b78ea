"""Multipliers as TFLite's kernels use them: 31-bit mantissas, exponents, and two roundings."""

from __future__ import annotations

import math

import numpy as np

# BS and BN multipliers are signed 16-bit operands: 15 bits of magnitude. Documented.
MULTIPLIER_BITS = 15


def quantize_multiplier(value: float) -> tuple[int, int]:
    """(q, e) with value ~ q * 2^(e - 31), 2^30 <= q < 2^31: the decomposition TFLite uses. (0,
    0) for tiny ones.
    """
    if value == 0.0:
        return 0, 0
    mantissa, exponent = math.frexp(value)
    q = math.floor(mantissa * (1 << 31) + 0.5)
    if q == 1 << 31:
        q, exponent = q // 2, exponent + 1
    if exponent < -31:
        return 0, 0
    return q, exponent


def scale_accumulator(accumulator: int, real: float) -> int:
    """TFLite's scaling of one accumulator by a real multiplier, with its two roundings."""
    q, exponent = quantize_multiplier(real)
    product = accumulator * (1 << max(exponent, 0)) * q
    nudge = 1 << 30 if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) >> 31
    right = max(-exponent, 0)
    magnitude = (high + ((1 << right) >> 1)) >> right
    return magnitude if product >= 0 else -magnitude


def factor_multiplier(q: int) -> tuple[int, int, int, float]:
    """(c, d, bits, relative error) with c * d / 2^bits ~ q / 2^31 and both factors of 15 bits.

    Products of two such factors end a little below 2^30; a larger q / 2 takes the next lower power.
    """
    limit = 1 << MULTIPLIER_BITS
    first = np.arange(limit // 2, limit, dtype=np.int64)
    best = (0, 0, 0, math.inf)
    for bits in (2 * MULTIPLIER_BITS, 2 * MULTIPLIER_BITS - 1):
        wanted = q * 2.0 ** (bits - 31)
        second = np.rint(wanted / first).astype(np.int64)
        error = np.where(second < limit, np.abs(first * second - wanted) / wanted, np.inf)
        nearest = int(np.argmin(error))
        if error[nearest] < best[3]:
            best = int(first[nearest]), int(second[nearest]), bits, float(error[nearest])
    return best
