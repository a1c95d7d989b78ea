"""Scales of an addition or subtraction, with TensorFlow Lite's result for every pair of operands
where there are such.

    out = round_half_away((a * Ma + b * Mb) * SCALE / 2^SHIFT) + zero point

with a and b counted from their zero points, and a negative Ma or Mb where an operand is subtracted.
TensorFlow Lite's result is nearly always the real sum rounded half away, so what matters is how
near Ma * SCALE / 2^SHIFT comes to sa / so, and the same for b. One SCALE has to serve both: every
15-bit one is a candidate, nearest to the real ratios first.

Only pairs whose sum is near a tie can come out differently. A pair that one candidate gets wrong
rules out every other that gets it wrong too; so the best candidate is checked with all its pairs
and each finding removes many, until one has no difference (branch and bound: what the known pairs
weigh is the least that a candidate's differences can weigh). Where none is left, the one whose
differences are the rarest stays.
"""

from __future__ import annotations

import functools

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
from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget, activation_range, weighted_sum
from delegate.lower.rules import WITHIN_ONE_LSB
from delegate.model.graph import Activation

# Operand multipliers stay at or below 2^14: converted operands then reach 255 * 2^14, as in
# programs observed on silicon.
MAX_OPERAND_MULTIPLIER = 1 << 14
_MIN_SCALE, _MAX_SCALE = 1 << 14, (1 << 15) - 1
_MAX_OUT_SHIFT = 62
# |a| <= 255: both operands are int8 minus an int8 zero point.
_OPERAND_RANGE = INT8_MAX - INT8_MIN
# TensorFlow Lite's own sums are nearer to the real ones than this, in LSB: 20 bits, two operands,
# and as many whole LSB as outputs have.
TFLITE_ERROR = 2.0 ** (9 - 20)
# Pairs that are tried on the candidates at a time.
_PAIRS_AT_ONCE = 16


_Candidates = tuple[FloatArray, FloatArray, FloatArray, Int64Array, FloatArray]
"""Ma, Mb, SCALE and SHIFT of each, and how far a sum can be from the real one, in LSB."""


def requantize_sum(
    node: int,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    activation: Activation,
    signs: tuple[int, int] = (1, 1),
    *,
    has_ties_away: bool = True,
) -> Requantization:
    """Return the stages of a sum. ``scales`` and int8 ``zero_points`` of first operand, second,
    result; ``signs`` with which the operands count. ``has_ties_away``: see ``last_roundings``.
    Raises LoweringError where no scales are within one LSB.
    """
    found = find_sum(scales, zero_points, activation, signs, has_ties_away)
    if found is not None and found.proof.is_within_one_lsb:
        return found
    first, second = scales[0] / scales[2], scales[1] / scales[2]
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"the operand scales are {first:.6g} and {second:.6g} output LSBs; no 15-bit scales give "
        "their sum within one LSB: quantise the model with an output scale nearer to the inputs'",
    )


@functools.lru_cache(maxsize=256)
def find_sum(
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    activation: Activation,
    signs: tuple[int, int],
    has_ties_away: bool = True,
) -> Requantization | None:
    """Return the nearest stages, None where there are no scales; parameters as of
    ``requantize_sum``.
    """
    candidates = _candidates(scales[0] / scales[2], scales[1] / scales[2])
    if not candidates[0].size:
        return None
    whole = sum_target(scales, zero_points, signs)
    best = _search(whole, scales, zero_points, signs, candidates)
    outputs = activation_range(activation, scales[2], zero_points[2])
    target = PairTarget(np.clip(whole.wanted, *outputs))
    pipeline = _pipeline(candidates, best, zero_points, signs, activation, outputs)
    return nearest([pipeline], target, has_ties_away=has_ties_away)


def sum_target(
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    signs: tuple[int, int],
    outputs: tuple[int, int] = (INT8_MIN, INT8_MAX),
) -> PairTarget:
    """Return the specification of ADD or SUB; parameters as of ``requantize_sum``."""
    operands = INT8_VALUES[:, np.newaxis], INT8_VALUES
    results = weighted_sum(operands, scales, zero_points, signs)
    return PairTarget(np.clip(results + zero_points[2], *outputs))


def _candidates(first: float, second: float) -> _Candidates:
    """Return the candidates with an error below half an LSB, best first."""
    scale = np.arange(_MIN_SCALE, _MAX_SCALE + 1, dtype=np.float64)
    # The largest shift with which the larger multiplier still fits.
    room = np.floor(np.log2((MAX_OPERAND_MULTIPLIER + 0.49) * scale / max(first, second)))
    shift = np.clip(room, 0, _MAX_OUT_SHIFT).astype(np.int64)
    power = np.ldexp(1.0, shift.astype(np.int32))
    a, b = np.rint(first * power / scale), np.rint(second * power / scale)
    error = np.abs(a * scale / power - first) + np.abs(b * scale / power - second)
    error[np.maximum(a, b) > MAX_OPERAND_MULTIPLIER] = np.inf
    error *= _OPERAND_RANGE
    order = np.argsort(error, kind="stable")
    order = order[error[order] < 0.5]
    return a[order], b[order], scale[order], shift[order], error[order]


def _search(
    target: PairTarget,
    scales: tuple[float, float, float],
    zero_points: tuple[int, int, int],
    signs: tuple[int, int],
    candidates: _Candidates,
) -> int:
    """Return the first candidate without a different result, or with those that weigh least: small
    operands weigh more, because feature maps have more of them.
    """
    limits = INT8_MIN - zero_points[2], INT8_MAX - zero_points[2]
    a, b = (
        sign * (INT8_VALUES - zero_point)
        for sign, zero_point in zip(signs, zero_points[:2], strict=True)
    )
    real = np.add.outer(a * (scales[0] / scales[2]), b * (scales[1] / scales[2]))
    to_tie = np.abs(real - np.floor(real) - 0.5).ravel()
    wanted = (target.wanted - zero_points[2]).ravel()

    firsts, seconds, scale, shift, error_lsb = candidates

    def is_wrong(rows: Int64Array, pairs: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        factor = np.ldexp(scale[rows], -shift[rows].astype(np.int32))[:, np.newaxis]
        first, second = firsts[rows, np.newaxis], seconds[rows, np.newaxis]
        exact = (a[pairs // a.size] * first + b[pairs % a.size] * second) * factor
        results = np.copysign(np.floor(np.abs(exact) + 0.5), exact)
        return np.asarray(np.clip(results, *limits) != wanted[pairs])

    weights = 1.0 / np.multiply.outer(1.0 + np.abs(a), 1.0 + np.abs(b)).ravel()
    rows = np.arange(error_lsb.size)
    least = np.zeros(rows.size)  # what the known pairs that a candidate gets wrong weigh
    known = np.zeros(wanted.size, np.bool_)
    best, lightest = 0, np.inf
    while rows.size:
        at = int(np.argmin(least))
        near = np.flatnonzero(to_tie <= error_lsb[rows[at]] + TFLITE_ERROR)
        wrong = near[is_wrong(rows[at : at + 1], near)[0]]
        total = float(weights[wrong].sum())
        if total < lightest:
            best, lightest = int(rows[at]), total
        new = wrong[~known[wrong]][:_PAIRS_AT_ONCE]
        known[new] = True
        least += is_wrong(rows, new) @ weights[new]
        is_open = least < lightest
        is_open[at] = False
        rows, least = rows[is_open], least[is_open]
    return best


def _pipeline(
    candidates: _Candidates,
    best: int,
    zero_points: tuple[int, int, int],
    signs: tuple[int, int],
    activation: Activation,
    outputs: tuple[int, int],
) -> Pipeline:
    first, second, scale, shift = (int(values[best]) for values in candidates[:4])
    steps_per_lsb = 2.0**shift / scale
    relu, relux, low = False, None, 0
    if activation is not Activation.NONE:
        relu = True
        if activation is Activation.RELU_N1_TO_1:
            low = outputs[0] - zero_points[2]
        # The sum that is nearest to the clamp gives it exactly.
        limit = round((outputs[1] - zero_points[2] - low) * steps_per_lsb)
        if outputs[1] < INT8_MAX or activation is Activation.RELU_N1_TO_1:
            relux = limit if limit <= INT32_MAX else None
    return Pipeline(
        MultiplyStage(signs[0] * first, -zero_points[0]),
        # A lower bound off the zero point: BN takes it off, OUT_CVT puts it back.
        MultiplyStage(add=-round(low * steps_per_lsb)),
        Ew(
            EwOperation.ADD,
            offset=-zero_points[1],
            scale=signs[1] * second,
            relu=relu,
            relux=relux,
        ),
        OutConvert(scale, shift, zero_points[2] + low, ties_away=True),
    )
