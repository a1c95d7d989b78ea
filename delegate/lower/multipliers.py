"""Multipliers as TFLite's kernels use them: 31-bit mantissas, exponents, and two roundings."""

from __future__ import annotations

import math

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
