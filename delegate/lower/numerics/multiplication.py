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
from delegate.lower.numerics.pipeline import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    Bn,
    Bs,
    Ew,
    EwOperation,
    FloatArray,
    Int64Array,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.requantize import Requantization, nearest
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget, quantize_multiplier, scaled
from delegate.lower.rules import (
    ACCUMULATOR_FITS_INT32,
    FORM_IS_KNOWN,
    PRODUCT_CLAMPED_AT_ZERO,
    WITHIN_ONE_LSB,
)
from delegate.model.cached import cached_property

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
    makes the only one. ``slopes``: see ``_Product``. Raises LoweringError where it is not, where no
    factors are within one LSB, or TensorFlow Lite's int32 wraps.
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
    product = _Product(q, exponent, zero_points, outputs, slopes)
    found = _rounded_twice(product, has_ties_away) if rounds_in_bn else _rounded_once(product)
    if found is not None and found.proof.is_within_one_lsb:
        return found
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"the product of the operands' scales is {multiplier:.6g} output LSBs; no factors give "
        "all products within one LSB: quantise the model with another output scale",
    )


@dataclass(frozen=True)
class _Product:
    """Specify TensorFlow Lite's MUL, or PRELU below zero, of two int8 operands."""

    q: int
    exponent: int
    zero_points: tuple[int, int, int]
    """Zero points of first operand, second, result."""
    outputs: tuple[int, int]
    slopes: tuple[int, ...] | None = None
    """The values that PRELU's second operand has; its first one counts only where it is negative.
    None: any.
    """

    @property
    def factors(self) -> tuple[Int64Array, Int64Array]:
        """Return all values of first and second operands without zero points."""
        seconds = INT8_VALUES if self.slopes is None else np.array(self.slopes, np.int64)
        first, second = INT8_VALUES - self.zero_points[0], seconds - self.zero_points[1]
        return (first if self.slopes is None else np.minimum(first, 0)), second

    @cached_property
    def target(self) -> PairTarget:
        """Return the specification."""
        first, second = self.factors
        results = scaled(np.multiply.outer(first, second), self.q, self.exponent)
        wanted = np.clip(results + self.zero_points[2], *self.outputs)
        return PairTarget(wanted, second + self.zero_points[1])


@functools.lru_cache(maxsize=256)
def _rounded_twice(product: _Product, has_ties_away: bool) -> Requantization | None:
    """Return stages with two roundings; None: the multiplier is too small for any shift."""
    candidates = _candidates(product) if product.q else None
    if candidates is None or not candidates.first.size:
        return None
    pipeline = _pipeline(product, candidates, _search(product, candidates))
    return nearest([pipeline], product.target, has_ties_away=has_ties_away)


def _rounded_once(product: _Product) -> Requantization | None:
    """Return stages with one rounding, by OUT_CVT's 15 bits alone, ties to even: the nearest scale
    or its neighbours, of which a larger one moves ties away from zero.
    """
    zero_points = product.zero_points
    fraction, power = math.frexp(product.q * 2.0 ** (product.exponent - _MULTIPLIER_BITS))
    shift = _FACTOR_BITS - power
    if not product.q or not 0 <= shift <= _MOST_SHIFT:
        return None
    middle = round(math.ldexp(fraction, _FACTOR_BITS))
    return nearest(
        (
            Pipeline(
                Bs(-zero_points[0]),
                ew=Ew(EwOperation.MULTIPLY, offset=-zero_points[1]),
                out=OutConvert(scale, shift, zero_points[2], ties_away=False),
            )
            for scale in range(middle - 1, middle + 2)
            if _LEAST_FACTOR <= scale <= _LARGEST_FACTOR
        ),
        product.target,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """C, D and S of each; ``truncate``: T, the same for all."""

    first: FloatArray
    second: FloatArray
    shift: FloatArray
    truncate: int

    def values(self, row: int, a: FloatArray) -> FloatArray:
        """Return t of values counted from their zero point."""
        factor = self.first[row] * self.second[row] * 2.0 ** -self.shift[row]
        rounded: FloatArray = np.rint(a * factor)
        return rounded


def _candidates(product: _Product) -> _Candidates:
    """Return the candidates, those nearest to the real factor first."""
    zero_point = product.zero_points[0]
    largest = max(INT8_MAX - zero_point, zero_point - INT8_MIN)
    real = product.q * 2.0 ** (max(product.exponent, 0) - _MULTIPLIER_BITS)
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


def _search(product: _Product, candidates: _Candidates) -> int:
    """Return the first candidate without a different result, or with the fewest of those compared.
    Pairs that one gets wrong are asked of the others first.
    """
    a, b = (factor.astype(np.float64) for factor in product.factors)
    rounding = max(-product.exponent, 0)
    real = np.multiply.outer(a, b) * (product.q * 2.0 ** (product.exponent - _MULTIPLIER_BITS))
    to_tie = np.abs(real - np.floor(real) - 0.5)
    near = np.flatnonzero(to_tie.ravel() <= _NEAR_TIE * 2.0**-rounding)
    wanted = product.target.wanted.ravel()
    limits = product.outputs

    def wrong(row: int, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        values = candidates.values(row, a)[pairs // b.size]
        products = np.rint(values * b[pairs % b.size] * 2.0**-candidates.truncate)
        halves = products * 2.0**-rounding
        results = np.copysign(np.floor(np.abs(halves) + 0.5), halves) + product.zero_points[2]
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


def _pipeline(product: _Product, candidates: _Candidates, best: int) -> Pipeline:
    zero_points, outputs = product.zero_points, product.outputs
    rounding = max(-product.exponent, 0)
    # Clamps lie behind the product, in its units: exact, as multiples of the last shift.
    relu = outputs[0] > INT8_MIN and outputs[0] == zero_points[2]
    limit = (outputs[1] - zero_points[2]) << rounding
    relux = limit if outputs[1] < INT8_MAX and limit <= INT32_MAX else None
    # What is not below a PRELU's zero point is clamped away, so that signs change before and after.
    sign = 1 if product.slopes is None else -1
    return Pipeline(
        Bs(-zero_points[0], sign * int(candidates.first[best])),
        Bn(
            int(candidates.second[best]),
            shift=int(candidates.shift[best]),
            relu=product.slopes is not None,
        ),
        Ew(
            EwOperation.MULTIPLY,
            offset=-zero_points[1],
            scale=sign,
            shift=candidates.truncate,
            relu=relu or relux is not None,
            relux=relux,
        ),
        OutConvert(1, rounding, zero_points[2], ties_away=True),
    )
