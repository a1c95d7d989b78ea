"""Compute a function of int8 values without a table, where it is a line with ends.

    BS       t = x + add, from 0 to ``relux``, where the line has such ends
    OUT_CVT  round(t * scale >> shift) + offset, saturated to int8

QUANTIZE and RELU are such functions: they scale the distance from a zero point and round once. The
256 results say between which slopes the scale lies, from each value as the zero point; then they
are all computed and compared. So nothing here knows an operator.

Behind a convolution such a line is one more scale: the convolution is requantised by both at once,
with the line's ends as its clamps. TensorFlow Lite rounds twice, and where the convolution alone
gives k, a result lies between those of k - 1 and k + 1 (``prover.follows``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from delegate.lower.numerics.factors import FACTOR_BITS, LARGEST_FACTOR
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    FloatArray,
    Int64Array,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.tflite import INT8_VALUES, Target, quantize_multipliers
from delegate.model.graph import Activation

_MOST_SHIFT = 63
# Of a channel that hardly varies: half a step is 2^21 of its accumulators, which int32 holds.
_LEAST_RATIO = 2.0**-22
_FAR = 2.0**16
"""Beyond all results."""
_NEIGHBOURS = 4
"""Scales to both sides of the middle that are tried: ties to the even side may rule out some."""


@functools.lru_cache(maxsize=1024)  # planning and lowering ask the same of a node
def lines_of(function: bytes) -> tuple[Pipeline, ...]:
    """Return the pipelines without and with clamps in BS that give ``function``, the int8 results
    for -128 to 127; those that exist.
    """
    results = np.frombuffer(function, np.int8).astype(np.int64)
    if np.any(results[1:] < results[:-1]) or results[0] == results[-1]:
        return ()
    found = (_line(results, relu=relu, relux=relux) for relu, relux in _CLAMPS)
    return tuple(pipeline for pipeline in found if pipeline is not None)


_CLAMPS = (False, False), (True, False), (True, True)


def _line(results: Int64Array, *, relu: bool, relux: bool) -> Pipeline | None:
    """Return a pipeline whose BS clamps at 0 if ``relu``, and above if ``relux``."""
    least, most = _slopes(results, relu=relu, relux=relux)
    zero = int(np.argmax(most - least))
    if most[zero] < least[zero]:
        return None
    top = int(np.argmax(results == results[-1])) - zero if relux else None
    bs = MultiplyStage(add=-int(INT8_VALUES[zero]), relu=relu, relux=top)
    for out in _scales(float(least[zero]), float(most[zero]), int(results[zero])):
        pipeline = Pipeline(bs, out=out)
        if np.array_equal(pipeline.run(INT8_VALUES.astype(np.float64)), results):
            return pipeline
    return None


def composed(target: Target, function: Int64Array) -> tuple[Target, Int64Array] | None:
    """Return the specification of a convolution with a line behind it, and what its accumulators
    are moved by. ``target``: the convolution alone; ``function``: the results for -128 to 127.
    None: they are no line.
    """
    least, largest = target.outputs
    values = np.arange(least, largest + 1)
    results = function[values - INT8_MIN]
    ends = int(results[0]), int(results[-1])
    if np.any(results[1:] < results[:-1]) or ends[0] == ends[1] or target.divisor is not None:
        return None
    line = _line_through(values - target.zero_point, results, ends)
    if line is None:
        return None
    slope, start = line
    middle = min(max(round(start), ends[0]), ends[1])
    real = target.real * slope
    moved = np.rint((start - middle) / np.maximum(real, _LEAST_RATIO)).astype(np.int64)
    q, exponent = quantize_multipliers(real)
    clamps = Activation.RELU6 if ends[0] == middle else Activation.RELU_N1_TO_1
    both = replace(
        target,
        q=q,
        exponent=exponent,
        low=target.low + moved,
        high=target.high + moved,
        ratios=None,
        zero_point=middle,
        outputs=ends,
        activation=Activation.NONE if ends == (INT8_MIN, INT8_MAX) else clamps,
    )
    return both, moved


def _line_through(
    values: Int64Array, results: Int64Array, ends: tuple[int, int]
) -> tuple[float, float] | None:
    """Return slope and start of a line that half a value and half a result around each of
    ``values`` keeps between its neighbours' results: the slope with which these rise, and the
    middle of where it may start. Kernels that round twice begin results early. None: there is no
    start.
    """
    rises = results[1:] > results[:-1]
    inner = rises & (results[:-1] > ends[0]) & (results[1:] < ends[1])
    rises = inner if np.count_nonzero(inner) > 1 else rises
    if np.count_nonzero(rises) < 2:
        return None
    places, heights = (values[1:] + values[:-1]) / 2, (results[1:] + results[:-1]) / 2
    slope = float(np.polyfit(places[rises], heights[rises], 1)[0])
    # Not the prover's: what judges shares nothing with what chooses.
    below, above = np.pad(results, (1, 0), "edge")[:-1], np.pad(results, (0, 1), "edge")[1:]
    least = (below - 0.5 - slope * (values - 0.5))[below > ends[0]].max(initial=-_FAR)
    most = (above + 0.5 - slope * (values + 0.5))[above < ends[1]].min(initial=_FAR)
    return (slope, float(least + most) / 2) if slope > 0 and least < most else None


def _slopes(results: Int64Array, *, relu: bool, relux: bool) -> tuple[FloatArray, FloatArray]:
    """Return, for each value as the zero point, the least and the largest slope with which the
    others round to their results. Where there are none the least is above the largest.
    """
    run, rise = (values - values[:, np.newaxis] for values in (INT8_VALUES, results))
    counts = run > 0 if relu else run != 0
    if relux:
        counts &= INT8_VALUES[np.argmax(results == results[-1])] >= INT8_VALUES
    below = np.where(results > INT8_MIN, rise - 0.5, -np.inf)
    above = np.where(results < INT8_MAX, rise + 0.5, np.inf)
    steps = np.where(run == 0, 1, run)
    least = np.where(counts, np.where(run > 0, below, above) / steps, 0.0).max(axis=1)
    most = np.where(counts, np.where(run > 0, above, below) / steps, LARGEST_FACTOR).min(axis=1)
    # Below a clamp at 0 there is one result.
    return least, np.where(results == results[0], most, -1.0) if relu else most


def _scales(least: float, most: float, offset: int) -> Iterator[OutConvert]:
    """Yield OUT_CVT with scales between two slopes, those in the middle first."""
    middle = (least + most) / 2
    shift = min(FACTOR_BITS - math.frexp(middle)[1], _MOST_SHIFT)
    if middle <= 0 or shift < 0:
        return
    first = max(math.ceil(math.ldexp(least, shift)), 1)
    last = min(math.floor(math.ldexp(most, shift)), LARGEST_FACTOR)
    nearest = round(math.ldexp(middle, shift))
    near = range(max(first, nearest - _NEIGHBOURS), min(last, nearest + _NEIGHBOURS) + 1)
    for scale in sorted(near, key=lambda scale: abs(scale - nearest)):
        yield OutConvert(scale, shift, offset)
