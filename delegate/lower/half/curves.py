"""Functions of a number in fp16: BN makes the index, the DPU's tables have the function, linear
between entries.

The tables reach over 2^15 units of the index around 0, with an entry every 32; beyond them their
ends hold. What leaves them is an integer over 2^15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.lower.half.bound import ROUNDED
from delegate.lower.half.stages import half_bits
from delegate.lower.half_bound import HalfBound
from delegate.lower.numerics.pipeline import INDEX_STEP
from delegate.lower.task import CURVE_ENTRIES, BnStage, OutConvert, Source, Stages, TableUse

RESULT_BITS = 15
_MOST_ENTRY = (1 << RESULT_BITS) - 1
_REACH = CURVE_ENTRIES // 2 * INDEX_STEP
"""Units of the index from 0 to the tables' ends."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``function`` within -1 to 1, of slopes up to ``slope`` and second derivatives up to ``bend``,
    which rises or falls throughout, to ``ends`` at infinity. ``units``: of the index per unit of
    the number, an fp16.
    """

    function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
    slope: float
    bend: float
    ends: tuple[float, float]
    units: float

    @property
    def entries(self) -> npt.NDArray[np.int64]:
        """The tables' content. Their ends are in the middle of all that the function has there
        and beyond, where they hold, too.
        """
        index = np.arange(-_REACH, _REACH + 1, INDEX_STEP)
        values = self.function(index / self.units)
        values[[0, -1]] = (values[[0, -1]] + np.array(self.ends)) / 2
        found = np.rint(values * 2.0**RESULT_BITS).astype(np.int64)
        return np.asarray(np.minimum(found, _MOST_ENTRY))

    @property
    def stages(self) -> Stages:
        """Return the stages of the task that looks the curve up."""
        use = TableUse((self.entries.astype("<i2").tobytes(),), 0)
        return Stages(
            bn=BnStage(mul=Source.REGISTER, mul_operand=half_bits(self.units)),
            table=use,
            out_convert=OutConvert(exponent=RESULT_BITS),
        )

    @property
    def bound(self) -> HalfBound:
        """An index is off by half a unit, and by an fp32's rounding, which is less than another
        2^-8; a chord leaves the function by an eighth of its bend times the step's square; entries
        are off by half a unit of the result, the largest by one; interpolation rounds, or
        truncates, once more; beyond the tables the function goes on.
        """
        units = self.units
        index = self.slope * (0.5 + 2.0**-8) / units
        chord = self.bend * (INDEX_STEP / units) ** 2 / 8
        reach = np.array([-_REACH, _REACH]) / units
        tails = float(np.abs(self.function(reach) - np.array(self.ends)).max())
        absolute = max(index + chord, tails) + 2 * 2.0**-RESULT_BITS
        return HalfBound(
            ROUNDED.relative, absolute=absolute * (1 + ROUNDED.relative) + ROUNDED.absolute
        )
