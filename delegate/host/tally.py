"""Counts, element by element, how far results are from others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError


@dataclass(slots=True)
class Tally:
    """Elements compared so far; ``max_abs_diff`` in steps (LSB) for integers, real for floats."""

    max_abs_diff: float = 0
    equal: int = 0
    elements: int = 0

    def add(self, ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> None:
        """Counts two arrays of the same shape and type. NaN equals NaN."""
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise ModelError(
                f"outputs differ in form: {ours.dtype} {list(ours.shape)} from the delegate, "
                f"{theirs.dtype} {list(theirs.shape)} from TensorFlow Lite"
            )
        same = ours == theirs
        if np.issubdtype(ours.dtype, np.floating):
            same |= np.isnan(ours) & np.isnan(theirs)
        self.elements += ours.size
        self.equal += int(np.count_nonzero(same))
        differing = ~same
        if not differing.any():
            return
        if np.issubdtype(ours.dtype, np.floating):
            worst = float(np.abs(ours[differing] - theirs[differing]).max())
            worst = worst if np.isfinite(worst) else float("inf")
            self.max_abs_diff = max(self.max_abs_diff, worst)
        else:
            wide = ours[differing].astype(np.int64) - theirs[differing].astype(np.int64)
            self.max_abs_diff = max(self.max_abs_diff, int(np.abs(wide).max()))

    def merge(self, other: Tally) -> None:
        """Adds another tally to this one."""
        self.max_abs_diff = max(self.max_abs_diff, other.max_abs_diff)
        self.equal += other.equal
        self.elements += other.elements

    def reaches(self, share: tuple[int, int]) -> bool:
        """Return whether at least ``share`` (numerator, denominator) of the elements are equal;
        exact.
        """
        return self.equal * share[1] >= self.elements * share[0]
