"""Compute a function of one int8 value without a table, where it is a line with ends.

    BS       t = x + add, from 0 to ``relux``, where the line has such ends
    OUT_CVT  round(t * scale >> shift) + offset, saturated to int8

QUANTIZE and RELU are such functions: they scale the distance from a zero point and round once. The
256 results say between which slopes the scale lies, from each value as the zero point; then they
are all computed and compared. So nothing here knows an operator.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

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
from delegate.lower.numerics.tflite import INT8_VALUES

_MOST_SHIFT = 63
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


def _slopes(results: Int64Array, *, relu: bool, relux: bool) -> tuple[FloatArray, FloatArray]:
    """Return, for each value as the zero point, the least and the largest slope with which the
    others round to their results. Where there are none the least is above the largest.
    """
    run = (INT8_VALUES - INT8_VALUES[:, np.newaxis]).astype(np.float64)
    rise = results - results[:, np.newaxis]
    below = np.where(results > INT8_MIN, rise - 0.5, -np.inf)
    above = np.where(results < INT8_MAX, rise + 0.5, np.inf)
    counts = run != 0
    is_possible = np.ones(results.size, np.bool_)
    if relu:
        counts &= run > 0
        is_possible &= results == results[0]
    if relux:
        counts &= INT8_VALUES[np.argmax(results == results[-1])] >= INT8_VALUES
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.where(run > 0, below / run, above / run)
        most = np.where(run > 0, above / run, below / run)
    largest = float(LARGEST_FACTOR)
    least = np.where(counts, least, 0.0).max(axis=1, initial=0.0)
    most = np.where(counts, most, largest).min(axis=1, initial=largest)
    return least, np.where(is_possible, most, -1.0)


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
