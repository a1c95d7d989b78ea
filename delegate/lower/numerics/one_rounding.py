"""The plain way: one multiplier of 15 bits per channel in BS, one rounding in OUT_CVT.

What drivers do on silicon. All channels share the shift, so a channel whose scale is 2^n below the
largest has n bits less.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    KEPT_BITS,
    LARGEST_FACTOR,
    UNIT_SHIFT,
    Factors,
)
from delegate.lower.numerics.prover import Target

# OUT_CVT_SHIFT: six bits.
_MAX_SHIFT = 63 - UNIT_SHIFT


def propose(target: Target) -> Factors | None:
    """None where the shifts do not fit."""
    real = np.ldexp(target.q.astype(np.float64), (target.exponent - 31).astype(np.int32))
    bits = min(FACTOR_BITS - math.frexp(float(real.max()))[1], _MAX_SHIFT)
    first = np.minimum(np.rint(np.ldexp(real, bits)), LARGEST_FACTOR).astype(np.int64)
    magnitude = np.maximum(np.abs(target.low), np.abs(target.high))
    bs_shift = max(0, int((magnitude * first).max()).bit_length() - KEPT_BITS)
    if bits < bs_shift:
        return None
    return Factors(first, 1, bs_shift, 0, bits - bs_shift)


def propose_for_all(target: Target) -> Factors | None:
    """The same factor for all channels, in a register. ``target`` has one channel, the widest."""
    found = propose(target)
    return None if found is None else replace(found, first=int(np.ravel(found.first)[0]))
