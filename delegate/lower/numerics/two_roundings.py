"""The exact way: BS and BN multiply by two factors of 15 bits and make TensorFlow Lite's N.

N is BN's rounding, and OUT_CVT makes the second one. Channels have units of their own then, 2^-g
LSB with g = -e, but OUT_CVT one shift for all: EW brings them together by a power of two, exactly.

A channel whose scale is far below the others rounds to a coarser unit than TensorFlow Lite's. One
with hardly any bits left is mostly bias, as are channels whose result is the same for every input
(converters give dead channels scales a hundred million times below the largest, and biases of
2^30): their bias is moved, so that the result is right at the accumulator's centre.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics.factor_search import Rows, Units, count_wrong, search_factors
from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    KEPT_BITS,
    LARGEST_FACTOR,
    OUTPUT_LSB,
    Factors,
)
from delegate.lower.numerics.pipeline import FloatArray, Int64Array
from delegate.lower.numerics.tflite import Target

# The largest power of two in EW's signed 16-bit operand.
_MAX_EW_BITS = 14
# Two factors of 15 bits, the first not below 2^14: what any product below this can be made of.
_PRODUCT_BITS = 2 * FACTOR_BITS - 1
# Of BN: six bits.
_MAX_SHIFT = 63
# Of a kernel that rounds once, which has no N: channels with ratios so many powers of two above the
# smallest have its unit, larger ones a coarser unit instead of factors with fewer bits.
_SAME_UNIT_BITS = 4
# Moved centres stay below this accumulator: half of int32 leaves room for what the inputs add.
_CENTRE_LIMIT = 1 << 30
# More bits dropped by BS, and by BN, where outputs begin at another accumulator: first one more bit
# of the product, which leaves the largest factors less choice; then more bits that BS rounds away.
_OTHER_SHIFTS = ((0, 1), (1, 0), (2, -1), (2, 0), (1, -1), (2, -2), (3, -2), (3, -3), (4, -2))
# Channels with which they are tried first, and how many of them with all channels.
_SAMPLED = 8
_MOST_TRIED = 4


def propose(target: Target) -> Factors | None:
    """Return factors of two roundings; None: the channels' scales do not fit the stages."""
    return _proposed(target, has_other_shifts=True)


def propose_with_usual_shifts(target: Target) -> Factors | None:
    """Return factors with the shifts that suit most channels, whichever are wrong then."""
    return _proposed(target, has_other_shifts=False)


def _proposed(target: Target, *, has_other_shifts: bool) -> Factors | None:
    if not target.q.any():
        # Multipliers below TensorFlow Lite's least: every result is the zero point.
        nothing = np.zeros_like(target.q)
        return Factors(nothing, nothing, 0, 0, 0, ew_bits=nothing, moved=nothing)
    units = _units(target)
    shifts = _shifts(units)
    found = None if shifts is None else _with_shifts(target, units, shifts)
    if shifts is None or found is None:
        return None
    # A kernel that rounds once has no units in which every output could begin rightly.
    if has_other_shifts and target.ratios is None and found[1].any():
        found = _with_other_shifts(target, units, shifts, found)
    return found[0]


_Found = tuple[Factors, Int64Array]
"""Factors, and for each channel the outputs that begin at another accumulator; 0 of coarse ones."""


def _with_shifts(
    target: Target, units: Units, shifts: tuple[int, int], known: Factors | None = None
) -> _Found | None:
    """Return the factors with these shifts. ``known``: those with other shifts. Where its factors
    times powers of two give every output rightly, none are sought.
    """
    bs_shift, bn_shift = shifts
    products = units.products(shifts)
    is_live = target.q > 0
    is_coarse = is_live & (products < LARGEST_FACTOR)
    first, second, moved = _centred(target, units, products, is_coarse, shifts)
    wrong = np.zeros_like(first)
    fine = np.flatnonzero(is_live & ~is_coarse)
    largest = np.minimum(_largest_first(units.magnitude, bs_shift), LARGEST_FACTOR)
    if known is not None:
        rows, scaled_first, scaled_second = _scaled(known, shifts, fine, largest[fine])
        is_right = count_wrong(target, units, shifts, rows, scaled_first, scaled_second) == 0
        first[rows], second[rows] = scaled_first, scaled_second
        fine = np.setdiff1d(fine, rows[is_right], assume_unique=True)
    if fine.size:
        found = search_factors(target, units, shifts, fine, largest[fine])
        first[fine], second[fine], wrong[fine] = found
    if (second > LARGEST_FACTOR).any() or (is_live & ((first < 1) | (second < 1))).any():
        return None
    ew_bits = units.unit_bits - units.own_bits
    factors = Factors(first, second, bs_shift, bn_shift, units.unit_bits, ew_bits, moved)
    return factors, wrong


def _scaled(
    known: Factors, shifts: tuple[int, int], rows: Rows, largest: Int64Array
) -> tuple[Rows, Int64Array, Int64Array]:
    """Return those of ``rows`` whose factors, times powers of two, have the product that other
    shifts need, and these; C as large as it can be.
    """
    bits = sum(shifts) - known.bs_shift - known.bn_shift
    first, second = np.asarray(known.first)[rows], np.asarray(known.second)[rows]
    scaled_first, scaled_second = np.zeros_like(first), np.zeros_like(second)
    for more in range(bits + 1):
        is_possible = (first << more <= largest) & (second << bits - more <= LARGEST_FACTOR)
        scaled_first[is_possible] = first[is_possible] << more
        scaled_second[is_possible] = second[is_possible] << bits - more
    found = scaled_first > 0
    return rows[found], scaled_first[found], scaled_second[found]


def _with_other_shifts(
    target: Target, units: Units, shifts: tuple[int, int], found: _Found
) -> _Found:
    """Try other shifts. BS's rounding and the bits of the product decide where outputs begin that
    begin within thousandths of a tie; other shifts decide otherwise. They are those of all
    channels, so the whole layer has to have fewer wrong outputs with them.
    """
    factors, wrong = found
    tried = 0
    for bs_more, bn_more in _OTHER_SHIFTS:
        other = shifts[0] + bs_more, shifts[1] + bn_more
        rows = np.flatnonzero(wrong)
        if not rows.size or tried == (1 if rows.size > _SAMPLED else _MOST_TRIED):
            break
        rows = rows[:_SAMPLED]
        if not (0 <= other[1] <= _MAX_SHIFT and _have_room(units, other)):
            continue
        sample = _with_shifts(target.of(rows), units.of(rows), other)
        if sample is None or sample[1].sum() >= wrong[rows].sum():
            continue
        again = _with_shifts(target, units, other, factors)
        tried += 1
        if again is not None and again[1].sum() < wrong.sum():
            factors, wrong = again
    return factors, wrong


def _have_room(units: Units, shifts: tuple[int, int]) -> bool:
    """Return whether two factors can make every channel's product."""
    largest = np.minimum(_largest_first(units.magnitude, shifts[0]), LARGEST_FACTOR)
    return bool((units.products(shifts) <= largest * float(LARGEST_FACTOR)).all())


def propose_for_all(target: Target) -> Factors | None:
    """Return factors that serve all channels, in registers; EW is free. ``target`` has one channel,
    the widest.
    """
    found = propose(target)
    if found is None or (found.ew_bits is not None and found.ew_bits.any()):
        return None
    return found.for_all()


def _units(target: Target) -> Units:
    """Choose the units. Channels with one result for every input have no say in the units, unless
    all are so.
    """
    q, exponent = target.q, target.exponent
    ratios = target.real
    magnitude = np.maximum(target.magnitude, 1)
    is_constant = (q > 0) & (target.results(target.low) == target.results(target.high))
    is_varying = (q > 0) & ~is_constant
    if not is_varying.any():
        is_varying, is_constant = is_constant, is_varying
    headroom = KEPT_BITS - math.frexp(float((magnitude * ratios).max()) + 1.0)[1]
    unit = -exponent
    if target.ratios is not None:
        unit = _finest(ratios, exponent, magnitude, is_varying, headroom)
    finest, coarsest = int(unit[is_varying].max()), max(int(unit[is_varying].min()), 0)
    unit_bits = max(0, min(finest, coarsest + _MAX_EW_BITS, headroom))
    own_bits = np.clip(unit, max(0, unit_bits - _MAX_EW_BITS), unit_bits)
    own_bits[is_constant] = max(0, unit_bits - _MAX_EW_BITS)
    slope = np.where(is_varying, np.ldexp(ratios, own_bits.astype(np.int32)), 0.0)
    return Units(unit_bits, own_bits, slope, ratios, magnitude, is_varying, target.firsts)


def _finest(
    ratios: FloatArray,
    exponent: Int64Array,
    magnitude: Int64Array,
    is_varying: npt.NDArray[np.bool_],
    headroom: int,
) -> Int64Array:
    """Return the units for which BS and BN still find factors: of a kernel that rounds once, the
    finer the nearer.
    """
    above = exponent - int(exponent[is_varying].min())
    coarser = np.maximum(above - _SAME_UNIT_BITS, 0)
    slope = np.ldexp(ratios, -coarser.astype(np.int32))[is_varying]
    bs_shift = _bs_shift(ratios[is_varying], magnitude[is_varying])
    room = _product_bits(slope, magnitude[is_varying], bs_shift) - bs_shift
    return np.asarray(min(headroom, room) - coarser)


def _bs_shift(ratios: FloatArray, magnitude: Int64Array) -> int:
    """Return how many bits BS drops: as few as int32 allows for accumulators that are not saturated
    anyway, with all bits of C; channels that can leave this range (by a large bias) take a smaller
    C.
    """
    relevant = np.minimum(magnitude, np.ceil(OUTPUT_LSB / ratios))
    return max(0, int(relevant.max()).bit_length() + FACTOR_BITS - KEPT_BITS)


def _product_bits(slope: FloatArray, magnitude: Int64Array, bs_shift: int) -> int:
    """Return the powers of two by which two factors can multiply ``slope`` in every channel."""
    largest = np.minimum(_largest_first(magnitude, bs_shift), LARGEST_FACTOR)
    room = largest * float(LARGEST_FACTOR) / slope
    # One bit of room: at the very limit only a few pairs fit.
    bits = int(np.floor(np.log2(room.min()))) - 1
    return min(bits, _PRODUCT_BITS - math.frexp(float(slope.max()))[1])


def _largest_first(magnitude: Int64Array, bs_shift: int) -> Int64Array:
    """Return the largest C with which BS stays within 30 bits; at least 1."""
    return np.maximum((1 << (KEPT_BITS + bs_shift)) // magnitude, 1)


def _shifts(units: Units) -> tuple[int, int] | None:
    """Return s1, and the s2 with which products are as large as two factors can make them."""
    varying = units.is_varying
    bs_shift = _bs_shift(units.ratios[varying], units.magnitude[varying])
    bits = _product_bits(units.slope[varying], units.magnitude[varying], bs_shift)
    bits = min(bits, bs_shift + _MAX_SHIFT)
    if bits < bs_shift:
        return None
    return bs_shift, bits - bs_shift


def _centred(
    target: Target,
    units: Units,
    products: FloatArray,
    is_coarse: npt.NDArray[np.bool_],
    shifts: tuple[int, int],
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return C, D and how far the bias is moved of ``is_coarse`` channels; zeros elsewhere."""
    first, second, moved = (np.zeros(len(products), np.int64) for _ in range(3))
    rows = np.flatnonzero(is_coarse)
    if not rows.size:
        return first, second, moved
    centre = (target.low[rows] + target.high[rows]) / 2.0
    # Where the result is the same for every input, the centre lies in the middle of what rounds
    # to it.
    wanted = np.where(
        units.is_varying[rows], centre * units.ratios[rows], target.results(target.low)[rows]
    )
    lsb = np.ldexp(1.0, (-sum(shifts) - units.own_bits[rows]).astype(np.int32))
    # A product so small that the centre would need an accumulator beyond int32 is raised.
    least = np.ceil(np.abs(wanted) / (lsb * _CENTRE_LIMIT))
    whole = np.maximum(np.maximum(np.rint(products[rows]), least), 1)
    # Centres reach half of int32, and BS is to stay within 30 bits.
    largest = max(1, min(1 << shifts[0] >> 1, LARGEST_FACTOR))
    second[rows] = np.ceil(whole / largest).astype(np.int64)
    first[rows] = np.ceil(whole / second[rows]).astype(np.int64)
    moved[rows] = np.rint(wanted / (first[rows] * second[rows] * lsb) - centre).astype(np.int64)
    return first, second, moved
