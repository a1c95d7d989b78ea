"""Prove that stages of the DPU may stand for what TensorFlow Lite computes, whatever chose them.

TensorFlow Lite's reference kernels compute, per output channel, with the channel's multiplier
m = sx * sw / sy = q * 2^(e - 31) (``tflite``):

    acc = sum((x - zx) * (w - zw)) + bias
    N   = round(acc * 2^max(e,0) * q / 2^31)            ties up
    out = clamp(round(N / 2^max(-e,0)) + zero point)    ties away from zero

A ``Pipeline`` makes something near it from the same accumulator: the array sums x * w, and BS adds
bias - zx * sum(w - zw) and the OW term -zw * sum(x), which together is acc, exactly.

**Theorem.** Both are functions of one whole number, acc, in a range known from the weights, and
both rise with it: a product with a number that is not negative rises, and so do shifts with
rounding, sums with constants, clamps and saturation. TensorFlow Lite gives the output k from
first(k) to first(k + 1) - 1. There it is constant and the pipeline rises, so the pipeline's largest
distance from k is at one of these two ends. The at most 2 * 256 ends inside the range tell the
largest distance over every input, exactly, without looking at any accumulator between.

first(k), the least accumulator whose output is k or more (``tflite.first_accumulators``), is the
inverse of the two roundings. Let d = k - zero point and Q = 2^max(e,0) * q, r = max(-e,0).
For d > 0: out >= k just where N >= n = d * 2^r - 2^(r-1) (d where r = 0), that is where
acc * Q + 2^30 >= n * 2^31. For d <= 0, with m = 1 - d >= 1: out < k just where
-N >= n = m * 2^r - 2^(r-1), that is where -acc * Q + 2^30 - 1 >= n * 2^31.

FULLY_CONNECTED of some runtimes computes round(acc * m) in double instead, half away from zero
(``Graph.rounds_once``). It rises with acc, too; first(k) is then the least acc with
acc * m >= d - 1/2 for d > 0, and with -acc * m < m' - 1/2 for the m' = 1 - d of d <= 0.

An average is round(acc / n), half away from zero: first(k) is n * d - floor(n / 2) for d > 0, and
1 - (n * m - floor(n / 2)) for d <= 0.

What the proof assumes is checked: int32 holds all of TensorFlow Lite's own steps (``wraps``, before
a node gets here), no multiplier of the pipeline is negative, no stage of it saturates.

A function of two int8 values has 65,536 pairs: they are all compared, so there is nothing to argue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.pipeline import INDEX_STEP, INT8_MIN, FloatArray, Int64Array, Pipeline
from delegate.lower.numerics.tflite import PairTarget, Target


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """The distance of stages from TensorFlow Lite over every input."""

    is_sound: bool
    """The stages rise, where that is needed, and fit int32; otherwise the rest means nothing."""
    worst: Int64Array
    """[channels]: the largest distance of a result, in LSB."""
    wrong: Int64Array
    """[channels]: outputs of TensorFlow Lite at an end of which the stages give another; pairs with
    another result.
    """

    @property
    def is_within_one_lsb(self) -> bool:
        return self.is_sound and int(self.worst.max()) <= 1

    @property
    def is_equal(self) -> bool:
        return self.is_sound and not self.wrong.any()

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Return a key, the less the better: unsound, largest distance, outputs that are wrong."""
        return not self.is_sound, int(self.worst.max()), int(self.wrong.sum())


def prove(pipeline: Pipeline, target: Target | PairTarget) -> Proof:
    """Compare ``pipeline`` with ``target`` for every accumulator, see the theorem above; or for
    every pair, the second operand in EW.
    """
    if isinstance(target, PairTarget):
        return prove_results(*pipeline.checked(*target.operands), target)
    worst, wrong = np.zeros_like(target.low), np.zeros_like(target.low)
    outputs = np.arange(target.outputs[0], target.outputs[1] + 1, dtype=np.float64)
    for part in target.parts:
        first, last = target.of(part).stretches()
        ends = np.stack([first, last]).astype(np.float64)
        off = np.abs(pipeline.of(part).run(ends) - outputs).max(axis=0)
        off[first > last] = 0.0
        worst[part] = off.max(axis=1)
        wrong[part] = np.count_nonzero(off, axis=1)
    return Proof(pipeline.fits_int32(target.ends), worst, wrong)


def prove_results(results: FloatArray, is_sound: bool, target: PairTarget) -> Proof:
    """Compare ``results``, of one pipeline or of several tasks, with ``target`` for every pair.
    ``is_sound``: no stage saturates, so that they are exact.
    """
    off = np.abs(results - target.wanted)
    return Proof(is_sound, np.array([int(off.max())]), np.array([int(np.count_nonzero(off))]))


def index_is_near(pipeline: Pipeline, target: Target) -> bool:
    """Return whether BN gives, of every accumulator that TensorFlow Lite rounds to k, an index of a
    table between those of k - 1 and k + 1. BN's result rises as well, so the ends of the stretch of
    k speak for all in it. Below the least result and above the largest all entries are the same.
    """
    if not pipeline.fits_int32(target.ends):
        return False
    least, largest = target.outputs
    results = np.arange(least, largest + 1, dtype=np.float64) - target.zero_point
    below, above = (results - 1) * INDEX_STEP, (results + 1) * INDEX_STEP
    below[0], above[-1] = -np.inf, np.inf
    for part in target.parts:
        stages, (first, last) = pipeline.of(part), target.of(part).stretches()
        is_within = (stages.index(first) >= below) & (stages.index(last) <= above)
        if not np.all(is_within | (first > last)):
            return False
    return True


def follows(pipeline: Pipeline, target: Target, function: Int64Array) -> bool:
    """Return whether every result lies between those that ``function``, which rises, gives of k - 1
    and k + 1, where TensorFlow Lite's result of ``target`` is k. ``function``: its results for -128
    to 127. The pipeline rises as well, so the ends of the stretch of k speak for all in it.
    """
    if not pipeline.fits_int32(target.ends):
        return False
    least, largest = target.outputs
    results = function[least - INT8_MIN : largest - INT8_MIN + 1]
    below, above = np.append(results[0], results[:-1]), np.append(results[1:], results[-1])
    for part in target.parts:
        stages, (first, last) = pipeline.of(part), target.of(part).stretches()
        lowest, highest = (stages.run(ends.astype(np.float64)) for ends in (first, last))
        if not np.all((lowest >= below) & (highest <= above) | (first > last)):
            return False
    return True
