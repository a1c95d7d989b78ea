"""How far results in fp16 are from exact ones, shown from how the hardware rounds.

The array's products are exact; sums of 32 are rounded to fp32 and added in fp32, then the bias;
OUT_CVT rounds to fp16. With u = 2^-24, each of n roundings to fp32 moves a sum of terms by at most
u times the magnitudes in it, so all of them by (1 + u)^n - 1 times the sum of all magnitudes; a
clamp moves nothing apart; the last rounding adds 2^-11 of the result, or 2^-25 among subnormal
numbers. Weights that are no fp16 add what their rounding changes, times the inputs.

This holds for results that fp16 can hold. A result beyond 65504, or a sum of infinities, becomes
what IEEE 754 says: an infinity or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.lower.resolved import Convolution

_FP32_ROUNDING: Final = 2.0**-24
_FP16_ROUNDING: Final = 2.0**-11
_FP16_SUBNORMAL: Final = 2.0**-25


@dataclass(frozen=True, slots=True)
class HalfBound:
    """|result - exact| <= ``relative`` * (sum of the magnitudes of all terms, bias included) +
    ``per_input`` * (largest magnitude of an input) + ``absolute``.
    """

    relative: float
    per_input: float = 0.0
    absolute: float = 0.0

    @property
    def text(self) -> str:
        """As one line."""
        if self == HalfBound(0.0):
            return "exact"
        weights = f" and {self.per_input:.2g} of the largest input" if self.per_input else ""
        return f"within {self.relative:.2g} of the terms' magnitudes{weights}"


EXACT: Final = HalfBound(0.0)
"""Of what selects among values."""

ROUNDED: Final = HalfBound(
    (1 + _FP32_ROUNDING) * (1 + _FP16_ROUNDING) - 1, absolute=_FP16_SUBNORMAL
)
"""Of one operation: its own rounding and the result's."""


def mean_bound(conv: Convolution) -> HalfBound:
    """Of a mean: sums under a window times two factors, whose product is nearly one over their
    number. The terms are the means'.
    """
    taps = int(np.prod(conv.weights.shape[:2]))
    product = conv.factors[0] * conv.factors[1]  # exact: 22 bits
    factor = abs(product * taps - 1)
    sums = (1 + _FP32_ROUNDING) ** (2 * taps + 3) * (1 + factor)
    return HalfBound(sums * (1 + _FP16_ROUNDING) - 1, 0.0, _FP16_SUBNORMAL)


def convolution_bound(conv: Convolution, weights: npt.NDArray[np.generic]) -> HalfBound:
    """Of a convolution in fp16, whose model has ``weights`` (the layout is that of ``conv``)."""
    taps, channels = int(np.prod(conv.weights.shape[-3:-1])), conv.weights.shape[-1]
    groups = taps
    if not conv.is_depthwise:
        groups *= -(-channels // conv.chip.groups.input_lanes)
    # One rounding per group, one per addition of a group to the sum, one of the bias.
    sums = (1 + _FP32_ROUNDING) ** (2 * groups + 1) - 1
    relative = (1 + sums) * (1 + _FP16_ROUNDING) - 1
    if weights.dtype == np.float16:
        return HalfBound(relative, 0.0, _FP16_SUBNORMAL)
    changed = np.abs(weights.astype(np.float64) - conv.weights)
    axes = (0, 1) if conv.is_depthwise else (1, 2, 3)
    moved = float(changed.sum(axis=axes).max()) * (1 + relative)
    return HalfBound(relative, moved, _FP16_SUBNORMAL)
