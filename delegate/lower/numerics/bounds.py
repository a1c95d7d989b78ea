"""Tell by a bound that stages are near TensorFlow Lite's, whatever the accumulator; where the bound
says nothing, the prover looks at every result.

TensorFlow Lite's result R, before its clamps, is within 1/2 + ``early`` of the real one, acc * m.
The stages make a value y with one rounding behind it. Clamps between rising stages are as good as
one clamp of the last result, and what very large accumulators give are its ends; as those are
TensorFlow Lite's, the results differ no more than R and y rounded. These are whole numbers, so a
distance below 2 is one of 1 at most: it is 1 + early + (what y is off by).

Up to OUTPUT_LSB from zero y is off by the error of its multiplier times the accumulator, by what is
added to that, and by what its own roundings cost. Beyond, both sides have long met a clamp.
"""

from __future__ import annotations

import numpy as np

from delegate.lower.numerics.factors import OUTPUT_LSB
from delegate.lower.numerics.pipeline import INDEX_STEP, FloatArray, Pipeline
from delegate.lower.numerics.tflite import Target

_LEAST_RATIO = 2.0**-40
_FAR = 2.0**200
"""An accumulator with which any stages reach their clamps."""
_SLACK = 2.0**-10
"""Far above the errors of doubles here, in LSB."""


def is_within_one_lsb(pipeline: Pipeline, target: Target) -> bool:
    """Return whether results of ``pipeline`` are known to be within one LSB of those of
    ``target``.
    """
    bs, bn, out = pipeline.bs, pipeline.bn, pipeline.out
    adds_nothing = not np.any(bn.add) and bn.shift == 0 and bool(np.all(bn.multiply == 1))
    is_alone = pipeline.ew is None and adds_nothing and out.offset == target.zero_point
    if not is_alone or target.divisor is not None:
        return False
    step = out.scale * 2.0**-out.shift
    slope = bs.multiply * (2.0**-bs.shift * step)
    off = _off(target, slope) + np.abs(bs.add) * slope + step / 2
    ends = pipeline.run(np.array([[-_FAR, _FAR]]))
    return (
        float((off + target.early).max()) < 1 - _SLACK
        and bool(np.all(ends == target.outputs))
        and pipeline.fits_int32(target.ends)
    )


def index_is_near(pipeline: Pipeline, target: Target) -> bool:
    """Return whether ``prover.index_is_near`` is known to hold."""
    bs, bn = pipeline.bs, pipeline.bn
    has_clamps = bs.relu or bn.relu or (bs.relux, bn.relux) != (None, None)
    if has_clamps or np.any(bs.add) or np.any(bn.add) or target.divisor is not None:
        return False
    step = bn.multiply * (2.0**-bn.shift / INDEX_STEP)
    off = _off(target, bs.multiply * (2.0**-bs.shift * step)) + step / 2 + 0.5 / INDEX_STEP
    is_near = float((off + target.early).max()) < 0.5 - _SLACK
    return is_near and pipeline.fits_int32(target.ends)


def _off(target: Target, slope: FloatArray | float) -> FloatArray:
    """Return what ``slope`` times an accumulator is off by, in LSB, where clamps do not decide."""
    real = target.real if target.ratios is None else target.ratios
    least = np.maximum(np.minimum(real, slope), _LEAST_RATIO)
    return np.asarray(np.abs(slope - real) * np.minimum(target.magnitude, OUTPUT_LSB / least))
