"""Powers of a number in fp16, such as its reciprocal, over as many powers of two as fp16 has.

The DPU takes the number's pattern of bits as an int16. Patterns rise with the number, with as many
of them between any two powers of two, and so do those of results: a table with an entry every 32
patterns has 32 entries for each power of two, and what is linear between two of them is off by less
than the last place, wherever in the range it is. A power whose factor is a power of two, too, has
its own powers of two at entries, so that results between two entries have one exponent. The index
is the pattern itself, so that it is exact.

Certainty: others ran tables in tasks of the DPU alone of int8 and fp16, and element-wise tasks of
int16, not both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.pipeline import INDEX_STEP
from delegate.lower.task import CURVE_ENTRIES, BnStage, Source, Stages, TableUse

Real = npt.NDArray[np.float64]

_MIDDLE: Final = CURVE_ENTRIES // 2 * INDEX_STEP
"""The pattern that is in the middle of the tables, which have all of positive numbers."""
_NAN: Final = 0x7E00


@dataclass(frozen=True, slots=True)
class Power:
    """``factor * x ** exponent`` of normal numbers from ``least`` to ``most``; of all others NaN,
    at the latest 32 patterns on.
    """

    factor: float
    exponent: float
    least: float
    most: float

    @property
    def entries(self) -> npt.NDArray[np.int64]:
        """Return the tables' content: patterns of results."""
        patterns = np.arange(CURVE_ENTRIES) * INDEX_STEP
        first, last = (int(np.float16(end).view(np.int16)) for end in (self.least, self.most))
        within = patterns[(patterns > first - INDEX_STEP) & (patterns < last + INDEX_STEP)]
        found = np.full(CURVE_ENTRIES, _NAN)
        results = self.factor * _numbers(within) ** self.exponent
        found[within // INDEX_STEP] = results.astype(np.float16).view(np.int16)
        return found

    @property
    def stages(self) -> Stages:
        """Return the stages of the task that looks it up, of int16."""
        use = TableUse((self.entries.astype("<i2").tobytes(),), 0)
        return Stages(bn=BnStage(-_MIDDLE, Source.REGISTER, 1), table=use)

    @property
    def relative(self) -> float:
        """Return how far results are off at most, of every number, whichever way a chip rounds what
        lies between two entries; infinite: fp16 does not hold them.
        """
        first, last = (int(np.float16(end).view(np.int16)) for end in (self.least, self.most))
        patterns = np.arange(first, last + 1)
        exact = self.factor * _numbers(patterns) ** self.exponent
        step, rest = np.divmod(patterns, INDEX_STEP)
        entries = self.entries
        whole, part = np.divmod((entries[step + 1] - entries[step]) * rest, INDEX_STEP)
        ends = (entries[step] + whole, entries[step] + whole + (part > 0))
        return max(float(np.abs(_numbers(end) / exact - 1).max()) for end in ends)


def _numbers(patterns: npt.NDArray[np.int64]) -> Real:
    return patterns.astype(np.int16).view(np.float16).astype(np.float64)
