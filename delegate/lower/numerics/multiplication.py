"""Scales of a multiplication, with TensorFlow Lite's result for every pair of operands where there
are such.

TensorFlow Lite rounds the product twice: to N, with the multiplier's 31 bits, then N shifted right
by g. So does the DPU here:

    BS       (a - za) * C                      15 bits
    BN       ... * D >> S                      t, near (a - za) * q * 2^(e - T)
    EW       t * (b - zb) >> 31 - T            N, but for the error of t
    OUT_CVT  N >> g, half away

t has as many bits as int32 holds, so that N is nearly always TensorFlow Lite's. It need not always
be: what counts is on which side of a tie of the second rounding it lies. Every C with its best D is
a candidate, nearest to q first; pairs whose N is near a tie judge them, then the prover all pairs.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    Ew,
    EwOperation,
    FloatArray,
    Int64Array,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.requantize import Requantization, nearest
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget, quantize_multiplier, scaled
from delegate.lower.rules import (
    ACCUMULATOR_FITS_INT32,
    PRODUCT_CLAMPED_AT_ZERO,
    WITHIN_ONE_LSB,
)

_LEAST_FACTOR, _LARGEST_FACTOR = 1 << 14, (1 << 15) - 1
_FACTOR_BITS = 15
_MULTIPLIER_BITS = 31
_MOST_SHIFT = 63
# Of factors, nearest to q first; a hundred are enough for 37 of 40 scales, where enough there are.
_CANDIDATES = 1024
# Candidates that are compared in all pairs near a tie: what an unlucky node may cost to compile.
_MOST_COMPARED = 128
# How far N may be off, in its own units: half for each rounding, and what t is off times b.
_NEAR_TIE = 2


def requantize_product(
    node: int,
    multiplier: float,
    zero_points: tuple[int, int, int],
    outputs: tuple[int, int],
    *,
    has_ties_away: bool = True,
    rounds_in_bn: bool = True,
    slopes: tuple[int, ...] | None = None,
) -> Requantization:
    """Return the stages of a product. ``multiplier``: the operands' scales over the result's, as
    TensorFlow Lite computes it. int8 ``zero_points`` of first operand, second, result. ``outputs``:
    least and largest result, the least being that of int8 or the zero point. ``has_ties_away``: see
    ``last_roundings``. ``rounds_in_bn``: BN may make the first rounding and EW clamp; else OUT_CVT
    makes the only one, and nothing clamps. ``slopes``: see ``_Product``. Raises LoweringError where
    the least result is another, where no factors are within one LSB, or TensorFlow Lite's int32
    wraps.
    """
    if outputs[0] not in (INT8_MIN, zero_points[2]):
        raise LoweringError(
            node, PRODUCT_CLAMPED_AT_ZERO, f"it is {outputs[0] - zero_points[2]} from there"
        )
    q, exponent = quantize_multiplier(multiplier)
    largest = [max(INT8_MAX - z, z - INT8_MIN) for z in zero_points[:2]]
    if largest[0] * largest[1] << max(exponent, 0) > INT32_MAX:
        raise LoweringError(
            node, ACCUMULATOR_FITS_INT32, f"the product is shifted left by {exponent}"
        )
    product = q, exponent, zero_points, outputs, slopes
    found = _rounded_twice(product, has_ties_away) if rounds_in_bn else _rounded_once(product)
    if found is not None and found.proof.is_within_one_lsb:
        return found
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"the product of the operands' scales is {multiplier:.6g} output LSBs; no factors give "
        "all products within one LSB: quantise the model with another output scale",
    )


_Product = tuple[int, int, tuple[int, int, int], tuple[int, int], tuple[int, ...] | None]
"""TensorFlow Lite's MUL, or PRELU below zero, of two int8 operands: q and exponent, zero points of
first operand, second, result, the least and the largest result, and the values that PRELU's second
operand has; its first one counts only where it is negative. None: any.
"""


def _factors(product: _Product) -> tuple[Int64Array, Int64Array]:
    """Return all values of first and second operands without zero points."""
    _, _, zero_points, _, slopes = product
    seconds = INT8_VALUES if slopes is None else np.array(slopes, np.int64)
    first, second = INT8_VALUES - zero_points[0], seconds - zero_points[1]
    return (first if slopes is None else np.minimum(first, 0)), second


def _target(product: _Product) -> PairTarget:
    q, exponent, zero_points, outputs, _ = product
    first, second = _factors(product)
    results = scaled(np.multiply.outer(first, second), q, exponent)
    return PairTarget(np.clip(results + zero_points[2], *outputs), second + zero_points[1])


@functools.lru_cache(maxsize=256)
def _rounded_twice(product: _Product, has_ties_away: bool) -> Requantization | None:
    """Return stages with two roundings; None: the multiplier is too small for any shift."""
    candidates = _candidates(product) if product[0] else None
    if candidates is None or not candidates[0].size:
        return None
    target = _target(product)
    pipeline = _pipeline(product, candidates, _search(product, candidates, target))
    return nearest([pipeline], target, has_ties_away=has_ties_away)


def _rounded_once(product: _Product) -> Requantization | None:
    """Return stages with one rounding, by OUT_CVT's 15 bits alone, ties to even: the nearest scale
    or its neighbours, of which a larger one moves ties away from zero.
    """
    q, exponent, zero_points, _, _ = product
    fraction, power = math.frexp(q * 2.0 ** (exponent - _MULTIPLIER_BITS))
    shift = _FACTOR_BITS - power
    if not q or not 0 <= shift <= _MOST_SHIFT:
        return None
    middle = round(math.ldexp(fraction, _FACTOR_BITS))
    return nearest(
        (
            Pipeline(
                MultiplyStage(add=-zero_points[0]),
                ew=Ew(EwOperation.MULTIPLY, offset=-zero_points[1]),
                out=OutConvert(scale, shift, zero_points[2], ties_away=False),
            )
            for scale in range(middle - 1, middle + 2)
            if _LEAST_FACTOR <= scale <= _LARGEST_FACTOR
        ),
        _target(product),
    )


_Candidates = tuple[FloatArray, FloatArray, FloatArray, int]
"""C, D and S of each; and T, the same for all."""


def _candidates(product: _Product) -> _Candidates:
    """Return the candidates, those nearest to the real factor first."""
    q, exponent, (zero_point, *_), _, _ = product
    largest = max(INT8_MAX - zero_point, zero_point - INT8_MIN)
    real = q * 2.0 ** (max(exponent, 0) - _MULTIPLIER_BITS)
    truncate = max(int(np.floor(np.log2(INT32_MAX / (largest * real)))), 0)
    wanted = real * 2.0**truncate
    first = np.arange(_LEAST_FACTOR, _LARGEST_FACTOR + 1, dtype=np.float64)
    shift = np.floor(np.log2(first * _LARGEST_FACTOR / wanted))
    second = np.rint(wanted * np.exp2(shift) / first)
    error = np.abs(first * second * np.exp2(-shift) / wanted - 1.0)
    error[(second > _LARGEST_FACTOR) | (largest * wanted > INT32_MAX)] = np.inf
    order = np.argsort(error, kind="stable")[:_CANDIDATES]
    order = order[np.isfinite(error[order])]
    return first[order], second[order], shift[order], truncate


def _search(product: _Product, candidates: _Candidates, target: PairTarget) -> int:
    """Return the first candidate without a different result, or with the fewest of those compared.
    Pairs that one gets wrong are asked of the others first.
    """
    q, exponent, zero_points, limits, _ = product
    a, b = (factor.astype(np.float64) for factor in _factors(product))
    rounding = max(-exponent, 0)
    real = np.multiply.outer(a, b) * (q * 2.0 ** (exponent - _MULTIPLIER_BITS))
    to_tie = np.abs(real - np.floor(real) - 0.5)
    near = np.flatnonzero(to_tie.ravel() <= _NEAR_TIE * 2.0**-rounding)
    wanted = target.wanted.ravel()
    first, second, shift, truncate = candidates

    def wrong(row: int, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        values = np.rint(a * (first[row] * second[row] * 2.0 ** -shift[row]))[pairs // b.size]
        products = np.rint(values * b[pairs % b.size] * 2.0**-truncate)
        halves = products * 2.0**-rounding
        results = np.copysign(np.floor(np.abs(halves) + 0.5), halves) + zero_points[2]
        return np.asarray(pairs[np.clip(results, *limits) != wanted[pairs]])

    known = near[:0]
    best, fewest, compared = 0, near.size + 1, 0
    for row in range(first.size):
        if wrong(row, known).size >= fewest:
            continue
        found = wrong(row, near)
        compared += 1
        if found.size < fewest:
            best, fewest = row, int(found.size)
        if fewest == 0 or compared == _MOST_COMPARED:
            break
        known = np.union1d(known, found)
    return best


def _pipeline(product: _Product, candidates: _Candidates, best: int) -> Pipeline:
    first, second, shift, truncate = candidates
    _, exponent, zero_points, outputs, slopes = product
    rounding = max(-exponent, 0)
    # Clamps lie behind the product, in its units: exact, as multiples of the last shift.
    relu = outputs[0] > INT8_MIN and outputs[0] == zero_points[2]
    limit = (outputs[1] - zero_points[2]) << rounding
    relux = limit if outputs[1] < INT8_MAX and limit <= INT32_MAX else None
    # What is not below a PRELU's zero point is clamped away, so that signs change before and after.
    sign = 1 if slopes is None else -1
    return Pipeline(
        MultiplyStage(sign * int(first[best]), -zero_points[0]),
        MultiplyStage(
            int(second[best]),
            shift=int(shift[best]),
            relu=slopes is not None,
        ),
        Ew(
            EwOperation.MULTIPLY,
            offset=-zero_points[1],
            scale=sign,
            shift=truncate,
            relu=relu or relux is not None,
            relux=relux,
        ),
        OutConvert(1, rounding, zero_points[2], ties_away=True),
    )
