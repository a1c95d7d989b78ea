"""What the choice of register stages works with and gives; see ``requantize`` for the meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

INT32_MAX = (1 << 31) - 1
INT8_MIN, INT8_MAX = -128, 127

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class AccumulatorBounds:
    """Exact bounds of the accumulator per output channel over every possible input, bias
    included.
    """

    low: Int64Array
    high: Int64Array

    @property
    def magnitude(self) -> Int64Array:
        return np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), 1)


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """BS: (acc + bias_change) * multipliers >> bs_shift. BN: (t + bn_summand) * D >> bn_shift with
    D = bn_operands per channel or bn_multiplier. EW: u * ew_operands, if any. One output LSB is
    2^unit_bits then. ``wrong_steps``: places where an accumulator could give another output than
    TFLite's, None where they were not counted.
    """

    multipliers: Int64Array
    bs_shift: int
    bn_operands: Int64Array | None
    bn_multiplier: int
    bn_shift: int
    unit_bits: int
    error_lsb: float
    bn_summand: int = 0
    bias_change: Int64Array | int = 0
    ew_operands: Int64Array | None = None
    wrong_steps: int | None = None
