"""The form of a bound of results in fp16; ``delegate.lower.half.bound`` derives them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_TOLD_FROM: Final = 1e-6
"""Smaller parts of a bound are those of subnormal numbers."""


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
        parts = [f"{self.relative:.2g} of the terms' magnitudes"]
        if self.per_input:
            parts.append(f"{self.per_input:.2g} of the largest input")
        if self.absolute > _TOLD_FROM:
            parts.append(f"{self.absolute:.2g}")
        return "within " + " and ".join(parts)


def widest(bounds: Collection[HalfBound]) -> HalfBound:
    """One that holds where any of ``bounds``, of which there are some, does."""
    return HalfBound(
        max(bound.relative for bound in bounds),
        max(bound.per_input for bound in bounds),
        max(bound.absolute for bound in bounds),
    )
