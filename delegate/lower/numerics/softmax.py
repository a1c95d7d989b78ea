"""SOFTMAX of int8 as tables, one sum and one product, and the proof of the whole chain.

    distance      the row's largest value - x; or 127 - x, where the input's range is small enough
    planes        tables of exp(-step * distance): digits of 8 bits
    sum           the planes' digits over all classes, by one convolution with their weights
    reciprocal    a curve behind that sum, of 8 bits
    result        the coarse plane times the reciprocal

The coarse plane has steps of 1/255, the sum as many more as its planes hold: errors of the sum add
up, those of the factors do not. With a class of 1 the product hands the reciprocal on as it is.

Where sums differ by too much for one curve, its two halves have steps of their own. Lanes whose
index follows the fine steps run into the half of the coarse ones behind their end, and the other
way round: either then stands for a sum that is larger than it is, so that the larger of both
reciprocals is right everywhere.

Proposed here, proven in ``softmax_proof``.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics.factors import FACTOR_BITS, LARGEST_FACTOR
from delegate.lower.numerics.multiplication import requantize_product
from delegate.lower.numerics.pipeline import (
    ENTRY_OFFSET,
    ENTRY_SCALE,
    INDEX_STEP,
    INT8_MAX,
    INT8_MIN,
    FloatArray,
    Int64Array,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.softmax_proof import (
    COARSE_WEIGHT,
    LEVELS,
    OUTPUT_STEPS,
    REACH,
    Chain,
    Planes,
    Reciprocal,
    exponentials_of,
    is_proven,
    least_sum,
    unit_of,
)
from delegate.lower.rules import WITHIN_ONE_LSB

MOST_CLASSES = 511
"""Sums of 512 and more the kernel shifts by 32 bits and more, which C leaves open."""
_MOST_COARSE = 3
"""Coarse planes: with so many, 511 classes of any scale are proven."""
_LEAST_SUM = 0.5
"""The least sum of rows for which a chain without the row's maximum is tried."""


def softmax(
    node: int,
    classes: int,
    step: float,
    *,
    has_ties_away: bool,
    rounds_in_bn: bool,
    may_split: bool,
) -> Chain:
    """Return the chain with the fewest tasks of known stages: those of products, see
    ``requantize_product``, and with ``may_split`` a multiplier per channel before a curve.
    ``step``: by what logarithms of exponentials differ whose values differ by one. Raises
    LoweringError where none is proven.
    """
    found = _proven(classes, step, has_ties_away, rounds_in_bn, may_split)
    if found is None:
        problem = f"no chain of tables is for {classes} classes whose steps are {step:.6g}"
        raise LoweringError(node, WITHIN_ONE_LSB, problem)
    return found


@functools.lru_cache(maxsize=64)
def _proven(
    classes: int, step: float, has_ties_away: bool, rounds_in_bn: bool, may_split: bool
) -> Chain | None:
    for has_maximum, coarse, is_split in _ways(classes):
        least = least_sum(classes, step, has_maximum=has_maximum)
        if least < _LEAST_SUM or (is_split and not may_split):
            continue
        product = _product(unit_of(least), has_ties_away, rounds_in_bn)
        if product is None:
            continue
        planes = _planes(exponentials_of(step), coarse)
        reciprocal = _reciprocal(
            classes, unit_of(least), planes, has_maximum=has_maximum, is_split=is_split
        )
        chain = Chain(classes, step, has_maximum, planes, reciprocal, product)
        if is_proven(chain):
            return chain
    return None


def _product(unit: float, has_ties_away: bool, rounds_in_bn: bool) -> Pipeline | None:
    """Return the stages of a coarse digit times a reciprocal, of which 256 are ``unit``; None:
    there are none.
    """
    try:
        return requantize_product(
            *(0, 1 / (LEVELS * unit), (INT8_MIN,) * 3, (INT8_MIN, INT8_MAX)),
            has_ties_away=has_ties_away,
            rounds_in_bn=rounds_in_bn,
        ).pipeline
    except LoweringError:
        return None


def _ways(classes: int) -> list[tuple[bool, int, bool]]:
    """Return whether there is a maximum, the coarse planes with a fine one (0: one without), and
    whether the curve is split, the fewest tasks first.
    """
    ways = [
        (has_maximum, coarse, is_split)
        for has_maximum in (False, True)
        for coarse in range(_MOST_COARSE + 1)
        for is_split in (False, True)
    ]
    steps = (classes - 1).bit_length() + 1  # of the maximum, and the distances

    def tasks(way: tuple[bool, int, bool]) -> int:
        has_maximum, coarse, is_split = way
        return has_maximum * steps + coarse + 2 * is_split

    return sorted(ways, key=tasks)


def _planes(exponentials: FloatArray, coarse: int) -> Planes:
    if not coarse:
        return Planes((np.rint(exponentials * LEVELS).astype(np.int64),), None, LEVELS)
    unit = LEVELS * COARSE_WEIGHT * coarse
    whole = np.rint(exponentials * unit).astype(np.int64)
    digits = (2 * whole + COARSE_WEIGHT) // (2 * COARSE_WEIGHT)
    parts = tuple((digits + number) // coarse for number in range(coarse))
    return Planes(parts, whole - digits * COARSE_WEIGHT, unit)


def _reciprocal(
    classes: int, unit: float, planes: Planes, *, has_maximum: bool, is_split: bool
) -> Reciprocal:
    """Return the curve from the least sum to the largest one, or to where results are next to 0."""
    sums = planes.sums
    least = classes * int(sums[-1])
    if has_maximum:
        least += int(sums[0] - sums[-1])
    held = max(OUTPUT_STEPS * planes.unit, 4 * least)
    most = min(classes * int(sums[0]), held)
    if not is_split:
        centre = (least + most) // 2
        factor, shift = _factor(REACH / max(most - centre, 1))
        bn = MultiplyStage(factor, shift=shift)
        units = [math.ldexp(factor, -shift)] * 2
        index = Pipeline(bn=bn)
    else:
        # Where an index of one step stands for as much of a result on either side.
        centre = round(least * (most / max(least, 1)) ** (1 / 3)) if most > least else least
        ends = max(centre - least, 1), max(most - centre, 1)
        largest, shift = _factor(REACH / min(ends))
        factors = [round(math.ldexp(REACH / end, shift)) for end in ends]
        multiply = np.clip(factors, 1, largest)
        units = [math.ldexp(int(factor), -shift) for factor in multiply]
        index = Pipeline(MultiplyStage(multiply=multiply, shift=shift), MultiplyStage(1))
    places = np.arange(-REACH, REACH + 1, INDEX_STEP)
    there = centre + np.where(places < 0, places / units[0], places / units[1])
    real = np.clip(there, max(least, 1), most) / planes.unit
    results = OUTPUT_STEPS * unit / real + INT8_MIN
    index = Pipeline(index.bs, index.bn, out=OutConvert(1, ENTRY_SCALE.bit_length() - 1))
    return Reciprocal(centre, index, _entries(results))


def _factor(real: float) -> tuple[int, int]:
    """Return 15 bits, and how far they are shifted to the right, for no more than ``real``."""
    shift = max(FACTOR_BITS - math.frexp(real)[1], 0)
    return min(math.floor(math.ldexp(real, shift)), LARGEST_FACTOR), shift


def _entries(results: FloatArray) -> Int64Array:
    """Return the entries. From where two are equal they are those of whole results: in runs of
    equal entries boards were seen to read up to 128 units more, which changes none of these.
    """
    limits = np.iinfo(np.int16)
    entries = np.rint(results * ENTRY_SCALE).astype(np.int64)
    is_flat = np.maximum.accumulate(np.append(entries[1:] == entries[:-1], False))
    whole = np.rint(results).astype(np.int64) * ENTRY_SCALE + ENTRY_OFFSET
    return np.clip(np.where(is_flat, whole, entries), limits.min, limits.max)
