"""Requantise one accumulator: the first of the proposed pipelines that the prover accepts.

Take the best of proposed pipelines: what the prover says decides.

TensorFlow Lite's last rounding goes half away from zero, and so does OUT_CVT's, but on boards that
round ties to even only. There a scale that is larger by 2^-14 moves every tie away from zero, on
both sides of it, and nothing else as long as values keep below 2^14 steps of what they come in:
then the results are the same. Elsewhere the plain scale may be nearer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.numerics import bounds, one_rounding, two_roundings
from delegate.lower.numerics.factors import Factors, pipeline_of, settled
from delegate.lower.numerics.pipeline import INT32_MAX, Pipeline
from delegate.lower.numerics.prover import Proof, prove
from delegate.lower.numerics.tflite import (
    AccumulatorBounds,
    PairTarget,
    Target,
    activation_range,
    quantize_multipliers,
    wraps,
)
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, WITHIN_ONE_LSB
from delegate.model.cached import cached_property
from delegate.model.graph import Activation

Group = tuple[Sequence[Factors], float]
"""Factors of one way, of which the nearest are taken, and the share of results that may differ
with which no other way is looked for.
"""


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways of requantising that are known."""

    rounds_twice: bool = True
    """BN makes the first of two roundings, and EW brings units together."""
    scales_alone: bool = False
    """OUT_CVT scales what BS only adds to."""
    multiplies: bool = True
    """BS multiplies."""
    ties_away: bool = True
    """OUT_CVT rounds ties away from zero."""


EVERY_WAY = Ways()


def requantize(
    node: int,
    target: Target,
    *,
    per_channel: bool,
    is_in_parts: bool = False,
    ways: Ways = EVERY_WAY,
) -> Requantization:
    """Return the stages of ``target``, whose multipliers are all equal if not ``per_channel``.
    ``is_in_parts``: the sum is made of several, whose ranges are checked on their own.
    ``ways``: of which the first is taken that rounds twice and is within one LSB, else the first
    of which few enough results differ, else the one of which the fewest do. Raises LoweringError
    where TensorFlow Lite's int32 could wrap, or no pipeline is within one LSB.
    """
    check_int32(node, target, is_in_parts=is_in_parts)
    found = _chosen(target, per_channel, ways)
    if isinstance(found, Requantization):
        return found
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"{found}; the ratios are {float(target.real.min()):.3g} to "
        f"{float(target.real.max()):.3g}: quantise the model with output scales nearer together",
    )


@functools.lru_cache(maxsize=1024)  # planning, splitting and lowering ask the same of a node
def _chosen(target: Target, per_channel: bool, ways: Ways) -> Requantization | str:
    """Return what ``requantize`` gives; a text says why there is nothing."""
    near, moved = settled(target)
    if not per_channel:
        near = near.widest()
    if not moved.any():
        target = near
    share_of = None if ways.rounds_twice else one_rounding.share_differing(target)
    worst = "no stages could be found"
    best: Requantization | None = None
    for factors, most_differing in _proposals(near, per_channel, ways):
        pipelines = [
            pipeline_of(replace(one, moved=one.moved + moved) if moved.any() else one, target)
            for one in factors
        ]
        found = _nearest(pipelines, target, share_of, has_ties_away=ways.ties_away)
        if found is None:
            continue
        if found.is_within_one_lsb:
            share = 0.0 if share_of is None else share_of(found.pipeline)
            if share <= most_differing:
                return replace(found, share=share)
            if best is None or share < best.share:
                best = replace(found, share=share, is_near=not ways.multiplies)
        elif found.proof.is_sound:
            off = found.proof.worst
            channel = int(np.argmax(off))
            place = f"output channel {channel}" if per_channel else "a result"
            worst = f"{place} could be off by {int(off[channel])} LSB"
    return best or worst


def _proposals(target: Target, per_channel: bool, ways: Ways) -> Iterator[Group]:
    """Yield groups, of which a later one is asked for only if none before it is near."""
    near_enough = one_rounding.MOST_DIFFERING
    if not ways.rounds_twice:
        if ways.scales_alone:
            yield one_rounding.scales_alone(target), one_rounding.MOST_DIFFERING_OF_DRIVERS
        if ways.multiplies:
            yield one_rounding.proposals(target, for_all=not per_channel), near_enough
        return
    several = two_roundings.propose, two_roundings.propose_with_usual_shifts, one_rounding.propose
    for propose in several if per_channel else (two_roundings.propose_for_all,):
        factors = propose(target)
        yield () if factors is None else (factors,), near_enough


def _nearest(
    pipelines: Sequence[Pipeline],
    target: Target,
    share_of: Callable[[Pipeline], float] | None,
    *,
    has_ties_away: bool,
) -> Requantization | None:
    """Return one within one LSB, if there is any: that with the best proof, or the one of which
    the smallest share differs.
    """
    if share_of is None:
        return nearest(pipelines, target, has_ties_away=has_ties_away)
    several = (last_roundings(one, has_ties_away=has_ties_away) for one in pipelines)
    first = None
    for one in sorted(chain.from_iterable(several), key=share_of):
        found = Requantization(one, target)
        if found.is_within_one_lsb:
            return found
        first = first or found
    return first


def target_of(
    ratios: npt.NDArray[np.float64],
    sums: AccumulatorBounds,
    scale: float,
    zero_point: int,
    activation: Activation = Activation.NONE,
    *,
    rounds_once: bool = False,
) -> Target:
    """Return the specification of a requantisation. ``ratios``: real sx * sw_c / sy, one per output
    channel; ``rounds_once``: the kernel takes them as they are. ``sums``: the least and the
    largest. ``scale`` and ``zero_point`` (int8) of the output.
    """
    q, exponent = quantize_multipliers(ratios)
    outputs = activation_range(activation, scale, zero_point)
    return Target(
        *(q, exponent, *sums),
        zero_point=zero_point,
        outputs=outputs,
        ratios=ratios if rounds_once else None,
        activation=activation,
    )


def leaves_int32(target: Target, *, is_in_parts: bool = False) -> npt.NDArray[np.bool_]:
    """Return for each channel whether TensorFlow Lite's int32 could wrap, or the DPU's while it
    adds bias and zero points: the array's sum without bias reaches no further than the range is
    wide.
    """
    over = wraps(target.low, target.exponent) | wraps(target.high, target.exponent)
    return over if is_in_parts else over | (target.high - target.low > INT32_MAX)


def check_int32(node: int, target: Target, *, is_in_parts: bool = False) -> None:
    """Raise LoweringError where a channel leaves int32; see ``leaves_int32``."""
    over = leaves_int32(target, is_in_parts=is_in_parts)
    if not over.any():
        return
    channel = int(np.argmax(over))
    raise LoweringError(
        node,
        ACCUMULATOR_FITS_INT32,
        f"output channel {channel} can reach accumulators from {int(target.low[channel])} to "
        f"{int(target.high[channel])} (shifted left by {max(int(target.exponent[channel]), 0)}), "
        "beyond int32; quantise the model with a smaller bias",
    )


_LEAST_SCALE, _LARGEST_SCALE = 1 << 14, (1 << 15) - 1
_MOST_SHIFT = 63


@dataclass(frozen=True, eq=False)
class Requantization:
    """Stages of a node, which stand for ``target``; one for all channels of a per-tensor node."""

    pipeline: Pipeline
    target: Target | PairTarget
    share: float = 0.0
    """About which share of the results differs from TensorFlow Lite's: 0 where two roundings make
    them, whose differences the proof counts.
    """
    is_near: bool = True
    """True if no more results differ than may, or than they do on a chip that can only scale."""

    @cached_property
    def proof(self) -> Proof:
        """Return how far every result is off."""
        return prove(self.pipeline, self.target)

    @cached_property
    def is_within_one_lsb(self) -> bool:
        """Return whether every result is: mostly a bound tells enough."""
        pipeline, target = self.pipeline, self.target
        has_bound = isinstance(target, Target) and bounds.is_within_one_lsb(pipeline, target)
        return has_bound or self.proof.is_within_one_lsb


def nearest(
    pipelines: Iterable[Pipeline], target: Target | PairTarget, *, has_ties_away: bool = True
) -> Requantization | None:
    """Return the first of ``pipelines`` that is equal, else the first with the best proof. None:
    there are none. ``has_ties_away``: see ``last_roundings``.
    """
    best: Requantization | None = None
    for pipeline in pipelines:
        for one in last_roundings(pipeline, has_ties_away=has_ties_away):
            found = Requantization(one, target)
            if found.proof.is_equal:
                return found
            if best is None or found.proof.rank < best.proof.rank:
                best = found
    return best


def last_roundings(pipeline: Pipeline, *, has_ties_away: bool) -> Iterator[Pipeline]:
    """Yield ``pipeline`` where the board ``has_ties_away``; else the pipelines that may stand for
    it.
    """
    if has_ties_away:
        yield pipeline
        return
    out = replace(pipeline.out, ties_away=False)
    if out.shift == 0:
        yield replace(pipeline, out=out)  # there is nothing to round
        return
    scale, shift = out.scale, out.shift
    while scale < _LEAST_SCALE and shift < _MOST_SHIFT:
        scale, shift = 2 * scale, shift + 1
    if _LEAST_SCALE <= scale < _LARGEST_SCALE:
        yield replace(pipeline, out=replace(out, scale=scale + 1, shift=shift))
    yield replace(pipeline, out=out)
