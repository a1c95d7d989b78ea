"""How far the DPU's channels can be off, and where channels with too few bits are put right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from delegate.lower.multipliers import scale_accumulator
from delegate.lower.stages import INT8_MAX, INT8_MIN, AccumulatorBounds, FloatArray, Int64Array

# Centres of channels whose bias is changed stay below this accumulator: half of int32's range
# leaves room for what the inputs add.
CENTRE_LIMIT = 1 << 30


def wanted_centres(
    bounds: AccumulatorBounds,
    multipliers: FloatArray,
    coarse: npt.NDArray[np.bool_],
) -> FloatArray:
    """The result, in LSB, that channels with a ``coarse`` multiplier have at their centre; else
    NaN.

    Such a channel is mostly bias: its accumulator moves little around a large centre. Its bias is
    changed so that the result is exact there; where TFLite's result is the same for every input,
    the centre lies in the middle of what rounds to it.
    """
    wanted = np.full(len(multipliers), np.nan)
    for channel in np.flatnonzero(coarse):
        low, high = int(bounds.low[channel]), int(bounds.high[channel])
        real = float(multipliers[channel])
        first, last = scale_accumulator(low, real), scale_accumulator(high, real)
        wanted[channel] = first if first == last else (low + high) / 2.0 * real
    return wanted


def channel_errors(
    bounds: AccumulatorBounds,
    moved: Int64Array,
    multipliers: FloatArray,
    actual: FloatArray,
) -> FloatArray:
    """The largest distance to the real result, over the accumulators that do not saturate.

    Distances are linear in the accumulator, so the ends of the range decide. ``bounds`` include
    ``moved``.
    """
    reach = 2.0 * (INT8_MAX - INT8_MIN)
    worst = np.zeros(len(actual))
    for end in (bounds.low, bounds.high):
        ours = end * actual
        theirs = (end - moved) * multipliers
        # Beyond the reach both are saturated; the error grows no further than at its edge.
        scale = np.minimum(1.0, reach / np.maximum(np.abs(theirs), 1e-300))
        worst = np.maximum(worst, np.abs(ours - theirs) * scale)
    return worst
