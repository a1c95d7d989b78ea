"""The form of a bound of results in fp16; ``delegate.lower.half.bound`` derives them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

_TOLD_FROM: Final = 1e-6
"""Smaller parts of a bound are those of subnormal numbers."""

_FP16_ROUNDING: Final = 2.0**-11
_SUBNORMAL_ROUNDING: Final = 2.0**-25
_FRACTION_BITS: Final = 11
"""The fraction's bits of an fp16, the hidden one included."""


def half_rounding(most: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """How far rounding to fp16 moves a number of at most this magnitude, at most: half of what is
    between the two fp16 above the power of two below ``most``.
    """
    _, exponent = np.frexp(np.asarray(most, np.float64))
    # A power of two itself is an fp16: what counts is below it.
    is_power = np.ldexp(0.5, exponent) == most
    found = np.ldexp(0.5, exponent - is_power - _FRACTION_BITS)
    return np.asarray(np.maximum(found, _SUBNORMAL_ROUNDING))


@dataclass(frozen=True, slots=True)
class HalfBound:
    """|result - exact| <= ``relative`` * (sum of the magnitudes of all terms, bias included) +
    ``per_input`` * (largest magnitude of an input) + ``absolute``.
    """

    relative: float
    per_input: float = 0.0
    absolute: float = 0.0

    def error(
        self,
        terms: npt.NDArray[np.float64],
        largest: float,
        result: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """The bound where the terms' magnitudes sum up to at most ``terms``, no input is larger
        than ``largest`` and no exact result than ``result``, behind the fused activation.

        ``relative`` takes the last rounding, that to fp16, of all terms; but it is one of the
        result.
        """
        beside = self.per_input * largest + self.absolute
        whole = self.relative * terms + beside
        if not self.relative:
            return whole
        before = ((1 + self.relative) / (1 + _FP16_ROUNDING) - 1) * terms + beside
        return np.minimum(whole, before + half_rounding(result + before))

    @property
    def text(self) -> str:
        """As one line."""
        if self == HalfBound(0.0):
            return "exact"
        parts = [f"{self.relative:.2g} of the terms' magnitudes"]
        if self.per_input:
            parts.append(f"{self.per_input:.2g} of the largest input")
        if self.absolute > _TOLD_FROM:
            parts.append(f"{self.absolute:.2g}")
        return "within " + " and ".join(parts)


EXACT: Final = HalfBound(0.0)
"""The bound of operators that select among values."""


def widest(bounds: Collection[HalfBound]) -> HalfBound:
    """One that holds where any of ``bounds``, of which there are some, does."""
    return HalfBound(
        max(bound.relative for bound in bounds),
        max(bound.per_input for bound in bounds),
        max(bound.absolute for bound in bounds),
    )
