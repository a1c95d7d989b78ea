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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.numerics.last_rounding import last_roundings
from delegate.lower.numerics.pair_prover import ProductTarget, prove_best
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    Bn,
    Bs,
    Ew,
    EwOperation,
    FloatArray,
    OutCvt,
    Pipeline,
)
from delegate.lower.numerics.prover import Requantization
from delegate.lower.numerics.tflite import quantize_multiplier
from delegate.lower.rules import (
    ACCUMULATOR_FITS_INT32,
    FORM_IS_KNOWN,
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
    """``multiplier``: the operands' scales over the result's, as TensorFlow Lite computes it.
    int8 ``zero_points`` of first operand, second, result. ``outputs``: least and largest result,
    the least being that of int8 or the zero point. ``has_ties_away``: see ``last_roundings``.
    ``rounds_in_bn``: BN may make the first rounding and EW clamp; else OUT_CVT makes the only one.
    ``slopes``: see ``ProductTarget``.
    Raises LoweringError where it is not, where no factors are within one LSB, or TensorFlow Lite's
    int32 wraps.
    """
    if not rounds_in_bn and outputs != (INT8_MIN, INT8_MAX):
        problem = f"an activation from {outputs[0]} to {outputs[1]} behind a product"
        raise LoweringError(node, FORM_IS_KNOWN, problem)
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
    found = (
        _requantize(q, exponent, zero_points, outputs, has_ties_away, slopes)
        if rounds_in_bn
        else _rounded_once(ProductTarget(q, exponent, zero_points, outputs))
    )
    if found is not None and found.proof.is_within_one_lsb:
        return found
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"the product of the operands' scales is {multiplier:.6g} output LSBs; no factors give "
        "all products within one LSB: quantise the model with another output scale",
    )


@functools.lru_cache(maxsize=256)
def _requantize(
    q: int,
    exponent: int,
    zero_points: tuple[int, int, int],
    outputs: tuple[int, int],
    has_ties_away: bool,
    slopes: tuple[int, ...] | None,
) -> Requantization | None:
    """None: the multiplier is too small for any shift."""
    if not q:
        return None
    target = ProductTarget(q, exponent, zero_points, outputs, slopes)
    candidates = _candidates(target)
    if not candidates.first.size:
        return None
    pipeline = _pipeline(target, candidates, _search(target, candidates))
    return prove_best(last_roundings(pipeline, has_ties_away=has_ties_away), target)


def _rounded_once(target: ProductTarget) -> Requantization | None:
    """By OUT_CVT's 15 bits alone, ties to even: the nearest scale or its neighbours, of which a
    larger one moves ties away from zero.
    """
    zero_points = target.zero_points
    fraction, power = math.frexp(target.q * 2.0 ** (target.exponent - _MULTIPLIER_BITS))
    shift = _FACTOR_BITS - power
    if not target.q or not 0 <= shift <= _MOST_SHIFT:
        return None
    nearest = round(math.ldexp(fraction, _FACTOR_BITS))
    return prove_best(
        (
            Pipeline(
                Bs(-zero_points[0]),
                ew=Ew(EwOperation.MULTIPLY, offset=-zero_points[1]),
                out=OutCvt(scale, shift, zero_points[2], ties_away=False),
            )
            for scale in range(nearest - 1, nearest + 2)
            if _LEAST_FACTOR <= scale <= _LARGEST_FACTOR
        ),
        target,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """C, D and S of each; ``truncate``: T, the same for all."""

    first: FloatArray
    second: FloatArray
    shift: FloatArray
    truncate: int

    def values(self, row: int, a: FloatArray) -> FloatArray:
        """t of values counted from their zero point."""
        factor = self.first[row] * self.second[row] * 2.0 ** -self.shift[row]
        rounded: FloatArray = np.rint(a * factor)
        return rounded


def _candidates(target: ProductTarget) -> _Candidates:
    """Nearest to the real factor first."""
    zero_point = target.zero_points[0]
    largest = max(INT8_MAX - zero_point, zero_point - INT8_MIN)
    real = target.q * 2.0 ** (max(target.exponent, 0) - _MULTIPLIER_BITS)
    truncate = max(int(np.floor(np.log2(INT32_MAX / (largest * real)))), 0)
    wanted = real * 2.0**truncate
    first = np.arange(_LEAST_FACTOR, _LARGEST_FACTOR + 1, dtype=np.float64)
    shift = np.floor(np.log2(first * _LARGEST_FACTOR / wanted))
    second = np.rint(wanted * np.exp2(shift) / first)
    error = np.abs(first * second * np.exp2(-shift) / wanted - 1.0)
    error[(second > _LARGEST_FACTOR) | (largest * wanted > INT32_MAX)] = np.inf
    order = np.argsort(error, kind="stable")[:_CANDIDATES]
    order = order[np.isfinite(error[order])]
    return _Candidates(first[order], second[order], shift[order], truncate)


def _search(target: ProductTarget, candidates: _Candidates) -> int:
    """The first candidate without a different result, or with the fewest of those compared. Pairs
    that one gets wrong are asked of the others first.
    """
    a, b = (factor.astype(np.float64) for factor in target.factors)
    rounding = max(-target.exponent, 0)
    real = np.multiply.outer(a, b) * (target.q * 2.0 ** (target.exponent - _MULTIPLIER_BITS))
    to_tie = np.abs(real - np.floor(real) - 0.5)
    near = np.flatnonzero(to_tie.ravel() <= _NEAR_TIE * 2.0**-rounding)
    wanted = target.wanted.ravel()
    limits = target.outputs

    def wrong(row: int, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        values = candidates.values(row, a)[pairs // b.size]
        products = np.rint(values * b[pairs % b.size] * 2.0**-candidates.truncate)
        halves = products * 2.0**-rounding
        results = np.copysign(np.floor(np.abs(halves) + 0.5), halves) + target.zero_points[2]
        return np.asarray(pairs[np.clip(results, *limits) != wanted[pairs]])

    known = near[:0]
    best, fewest, compared = 0, near.size + 1, 0
    for row in range(candidates.first.size):
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


def _pipeline(target: ProductTarget, candidates: _Candidates, best: int) -> Pipeline:
    zero_points, outputs = target.zero_points, target.outputs
    rounding = max(-target.exponent, 0)
    # Clamps lie behind the product, in its units: exact, as multiples of the last shift.
    relu = outputs[0] > INT8_MIN and outputs[0] == zero_points[2]
    limit = (outputs[1] - zero_points[2]) << rounding
    relux = limit if outputs[1] < INT8_MAX and limit <= INT32_MAX else None
    # What is not below a PRELU's zero point is clamped away, so that signs change before and after.
    sign = 1 if target.slopes is None else -1
    return Pipeline(
        Bs(-zero_points[0], sign * int(candidates.first[best]), relu=target.slopes is not None),
        Bn(int(candidates.second[best]), 0, int(candidates.shift[best])),
        Ew(
            EwOperation.MULTIPLY,
            offset=-zero_points[1],
            scale=sign,
            shift=candidates.truncate,
            relu=relu or relux is not None,
            relux=relux,
        ),
        OutCvt(1, rounding, zero_points[2]),
    )
