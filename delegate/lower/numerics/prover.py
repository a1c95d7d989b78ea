"""Specify a node's requantisation, and prove that a pipeline of DPU stages may stand for it.

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

What the proof assumes is checked: int32 holds all of TensorFlow Lite's own steps (``wraps``, before
a node gets here), no multiplier of the pipeline is negative, no stage of it saturates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.lower.numerics import tflite
from delegate.lower.numerics.pipeline import FloatArray, Int64Array, Pipeline
from delegate.model.cached import cached_property

# Channels at a time: what a core's cache holds of their outputs.
_CHANNELS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Target:
    """The specification, [channels]: the multiplier (``q``, ``exponent``) and the range ``low`` to
    ``high`` of the accumulator over every input, bias included. ``outputs``: least and largest int8
    result (the activation), around ``zero_point``. ``ratios``: of a kernel that multiplies by them
    in double and rounds once; ``q`` and ``exponent`` are near them then.
    """

    q: Int64Array
    exponent: Int64Array
    low: Int64Array
    high: Int64Array
    zero_point: int
    outputs: tuple[int, int]
    ratios: FloatArray | None = None

    @cached_property
    def firsts(self) -> Int64Array:
        """[channels, outputs but the least]: the least accumulator that gives each or more."""
        outputs = np.arange(self.outputs[0] + 1, self.outputs[1] + 1, dtype=np.int64)
        return self.first(outputs - self.zero_point)

    def first(self, distances: Int64Array) -> Int64Array:
        """[channels, distances]: the least accumulator whose result is ``distances`` from the zero
        point or more; +-2^33 where int32 has none.
        """
        if self.ratios is not None:
            return tflite.first_products(self.ratios, distances)
        return tflite.first_accumulators(self.q, self.exponent, distances)

    def results(self, accumulators: Int64Array) -> Int64Array:
        """[channels]: of an accumulator each, before the zero point is added."""
        if self.ratios is not None:
            return tflite.rounded_products(accumulators, self.ratios)
        return tflite.scaled(accumulators, self.q, self.exponent)

    def of(self, channels: npt.NDArray[np.intp] | slice) -> Target:
        """Return the specification of some channels."""
        each = {name: getattr(self, name) for name in ("q", "exponent", "low", "high", "ratios")}
        return replace(self, **{n: v[channels] for n, v in each.items() if v is not None})

    def widest(self) -> Target:
        """Return the specification of channels that share one multiplier: one channel with the
        accumulators of all. What is true for each of its accumulators is true in every channel.
        """
        low, high = self.low.min(keepdims=True), self.high.max(keepdims=True)
        return replace(self.of(slice(1)), low=low, high=high)


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """``worst`` [channels]: the largest distance to TensorFlow Lite's result over every input, in
    LSB. ``wrong`` [channels]: outputs of TensorFlow Lite at an end of which the pipeline gives
    another. ``is_sound``: the pipeline rises and fits int32; otherwise the rest means nothing.
    """

    is_sound: bool
    worst: Int64Array
    wrong: Int64Array

    @property
    def is_within_one_lsb(self) -> bool:
        return self.is_sound and int(self.worst.max()) <= 1

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The less the better: unsound, the largest distance, outputs that are wrong somewhere."""
        return not self.is_sound, int(self.worst.max()), int(self.wrong.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Requantization:
    """Stages of a node and their proof; one for all channels of a per-tensor node. About which
    ``share`` of the results differs from TensorFlow Lite's: 0 where two roundings make them, whose
    differences the proof counts. ``is_near``: no more than may differ.
    """

    pipeline: Pipeline
    proof: Proof
    share: float = 0.0
    is_near: bool = True


def prove(pipeline: Pipeline, target: Target) -> Proof:
    """Compares ``pipeline`` with ``target`` for every accumulator; see the theorem above."""
    worst, wrong = np.zeros_like(target.q), np.zeros_like(target.q)
    is_sound = pipeline.rises()
    least, largest = target.outputs
    outputs = np.arange(least, largest + 1, dtype=np.float64)
    for start in range(0, target.q.size, _CHANNELS_AT_ONCE):
        part = slice(start, start + _CHANNELS_AT_ONCE)
        stages = pipeline.of(part)
        low, high = target.low[part, np.newaxis], target.high[part, np.newaxis]
        ends = np.concatenate([low, high], axis=1).astype(np.float64)
        is_sound = is_sound and stages.fits_int32(ends)
        inside = np.clip(target.firsts[part], low, high + 1)
        begins = np.concatenate([low, inside, high + 1], axis=1)
        first, last = begins[:, :-1], begins[:, 1:] - 1
        off = np.maximum(_off(stages, first, outputs), _off(stages, last, outputs))
        off = np.where(first <= last, off, 0.0)
        worst[part] = off.max(axis=1)
        wrong[part] = np.count_nonzero(off, axis=1)
    return Proof(is_sound, worst, wrong)


def _off(stages: Pipeline, accumulators: Int64Array, outputs: FloatArray) -> FloatArray:
    return np.asarray(np.abs(stages.run(accumulators.astype(np.float64)) - outputs), np.float64)
