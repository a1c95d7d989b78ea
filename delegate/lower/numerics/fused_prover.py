"""What a convolution's task computes that also looks up a table, or adds another tensor, and how
far that is from TensorFlow Lite, which rounds the convolution's result before.

TensorFlow Lite gives the convolution's result k on one stretch of accumulators (``prover``). What
BN gives rises with the accumulator, so on that stretch, in every channel, it lies between what it
gives at the ends. The least and the largest of all channels bound it; a table's values between them
are all looked at; EW and OUT_CVT rise, too. So the largest distance over the ends, for every k and
every value of the other tensor, is a bound for every input. How a product between two entries of a
table is rounded is not known: one unit more and less are allowed for.

How often the results differ depends on the inputs. The model: every result of the convolution is as
frequent, every accumulator that gives it, and every value of the other tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics.pair_prover import INT8_VALUES, SumTarget
from delegate.lower.numerics.pipeline import FloatArray, Int64Array, Pipeline
from delegate.lower.numerics.prover import Target

_INTERPOLATION_ERROR = 1
# Of the model: channels, every so many values of the other tensor, and how many results are looked
# at for a channel and a result of the convolution, at accumulators as far from one another. Where
# the first one is goes by the golden ratio, which is even over all of them.
_CHANNELS = 8
_OTHER_STEP = 5
_SAMPLES = 128
_GOLDEN = (5.0**0.5 - 1.0) / 2.0


@dataclass(frozen=True, eq=False)
class LookedUp:
    """``results`` for -128 to 127."""

    results: Int64Array

    def wanted(self, firsts: Sequence[int] | Int64Array) -> Int64Array:
        """[firsts, 1]: the reference kernels' results of int8 values."""
        return self.results[np.asarray(firsts) - int(INT8_VALUES[0]), np.newaxis]

    @property
    def others(self) -> FloatArray:
        """Values of the other tensor: there is none."""
        return np.zeros(1)


@dataclass(frozen=True, eq=False)
class Added:
    """The convolution's result is the first operand."""

    target: SumTarget

    def wanted(self, firsts: Sequence[int] | Int64Array) -> Int64Array:
        """[firsts, 256]: the reference kernels' results with every value of the other tensor."""
        return np.asarray(self.target.wanted[np.asarray(firsts) - int(INT8_VALUES[0])])

    @property
    def others(self) -> FloatArray:
        """Values of the other tensor."""
        return INT8_VALUES.astype(np.float64)


@dataclass(frozen=True, eq=False)
class LookedUpAndAdded:
    """The result of ``function`` is the first operand of ``total``."""

    function: LookedUp
    total: Added

    def wanted(self, firsts: Sequence[int] | Int64Array) -> Int64Array:
        """[firsts, 256]: as ``Added``."""
        return self.total.wanted(self.function.wanted(firsts)[:, 0])

    @property
    def others(self) -> FloatArray:
        """Values of the other tensor."""
        return self.total.others


Following = LookedUp | Added | LookedUpAndAdded


@dataclass(frozen=True, slots=True)
class FusedProof:
    """``worst``: the largest distance to TensorFlow Lite's result over every input, in LSB.
    ``is_sound``: all stages rise and fit int32, and only the function's own entries are looked up;
    otherwise the rest means nothing.
    """

    is_sound: bool
    worst: int


def prove_fused(pipeline: Pipeline, target: Target, following: Following) -> FusedProof:
    """``target``: the convolution alone, one channel where all share its multiplier."""
    low, high = target.low[:, np.newaxis], target.high[:, np.newaxis]
    limits = np.concatenate([low, high], axis=1).astype(np.float64)
    if not pipeline.rises_but_for_table() or not _fits(pipeline, limits, following):
        return FusedProof(False, 0)
    first, last = _stretches(target)
    wanted = _wanted(target, following)
    is_reached = first <= last
    below = np.where(is_reached, _before_table(pipeline, first), np.inf).min(axis=0)
    above = np.where(is_reached, _before_table(pipeline, last), -np.inf).max(axis=0)
    rows = np.flatnonzero(is_reached.any(axis=0))
    least, largest = _looked_up(_entries(pipeline), below[rows], above[rows])
    others = following.others
    off = np.maximum(
        np.abs(pipeline.finish(least[:, np.newaxis], others) - wanted[rows]),
        np.abs(pipeline.finish(largest[:, np.newaxis], others) - wanted[rows]),
    )
    return FusedProof(True, int(off.max()))


def _stretches(target: Target) -> tuple[Int64Array, Int64Array]:
    """[channels, outputs]: the first and last accumulator that gives each."""
    low, high = target.low[:, np.newaxis], target.high[:, np.newaxis]
    begins = np.concatenate([low, np.clip(target.firsts, low, high + 1), high + 1], axis=1)
    return begins[:, :-1], begins[:, 1:] - 1


def _wanted(target: Target, following: Following) -> Int64Array:
    """[outputs, values of the other tensor]"""
    return following.wanted(np.arange(target.outputs[0], target.outputs[1] + 1))


def _before_table(pipeline: Pipeline, accumulators: Int64Array) -> FloatArray:
    stages = pipeline.before_table(accumulators.astype(np.float64))
    while True:
        try:
            next(stages)
        except StopIteration as end:
            return np.asarray(end.value)


def _fits(pipeline: Pipeline, limits: FloatArray, following: Following) -> bool:
    if not pipeline.fits_int32(limits):
        return False
    found = _before_table(pipeline, limits.astype(np.int64))
    if pipeline.table is not None and (found.min() < 0 or found.max() > pipeline.table.end):
        return False
    ends = following.others[[0, -1]]
    return all(pipeline.fits_int32(limits, e) for e in ends)


def _entries(pipeline: Pipeline) -> FloatArray | None:
    """What is found for every value that can be looked up; None: there is no table."""
    table = pipeline.table
    return None if table is None else table.of(np.arange(table.end + 1, dtype=np.float64))


def _looked_up(
    found: FloatArray | None, below: FloatArray, above: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The least and the largest that EW gets of what lies between ``below`` and ``above``."""
    if found is None:
        return below, above
    parts = [found[int(first) : int(last) + 1] for first, last in zip(below, above, strict=True)]
    least = np.array([part.min() for part in parts], np.float64)
    largest = np.array([part.max() for part in parts], np.float64)
    return least - _INTERPOLATION_ERROR, largest + _INTERPOLATION_ERROR


def differing_share(pipeline: Pipeline, target: Target, following: Following) -> float:
    """Of the results of a sound ``pipeline`` those that are not TensorFlow Lite's, by the model
    above: of some channels, of every result some accumulators.
    """
    first, last = _stretches(target)
    wanted, found = _wanted(target, following), _entries(pipeline)
    channels = np.unique(np.linspace(0, len(first) - 1, _CHANNELS).astype(np.int64))
    first, last = first[channels], last[channels]
    others = following.others[::_OTHER_STEP]
    count_of_places = -(-_SAMPLES // others.size)
    differing, count = 0, 0
    for number, channel in enumerate(channels):
        stages = pipeline.of(slice(int(channel), int(channel) + 1))
        rows = np.flatnonzero(first[number] <= last[number])
        starts = ((rows + number * wanted.shape[0]) * _GOLDEN % 1.0)[:, np.newaxis]
        places = (np.arange(count_of_places) + starts) / count_of_places
        start = first[number, rows, np.newaxis]
        inside = np.floor((last[number, rows, np.newaxis] - start + 1) * places).astype(np.int64)
        x = _before_table(stages, (start + inside).reshape(1, -1))
        if found is not None:
            x = found[x.astype(np.int64)]
        x = x.reshape(rows.size, -1, 1)
        results = pipeline.finish(x, others)
        off = results != wanted[rows, np.newaxis, ::_OTHER_STEP]
        differing, count = differing + int(np.count_nonzero(off)), count + off.size
    return differing / count
