"""Requantisation of a node: the first pipeline of the choosers that the prover accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.numerics import one_rounding, two_roundings
from delegate.lower.numerics.bounds import AccumulatorBounds
from delegate.lower.numerics.factors import Factors, pipeline_of
from delegate.lower.numerics.last_rounding import last_roundings
from delegate.lower.numerics.pipeline import INT32_MAX, Pipeline
from delegate.lower.numerics.prover import Requantization, Target, prove
from delegate.lower.numerics.saturation import settled
from delegate.lower.numerics.tflite import activation_range, quantize_multipliers, wraps
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, WITHIN_ONE_LSB
from delegate.model.graph import Activation

Chooser = Callable[[Target], Factors | None]

PER_TENSOR: tuple[Chooser, ...] = (two_roundings.propose_for_all,)
PER_CHANNEL: tuple[Chooser, ...] = (
    two_roundings.propose,
    two_roundings.propose_with_usual_shifts,
    one_rounding.propose,
)


@dataclass(frozen=True, slots=True)
class Ways:
    """Which ways of requantising are known. ``rounds_twice``: BN makes the first of two roundings,
    and EW brings units together. ``scales_alone``: OUT_CVT scales what BS only adds to.
    ``multiplies``: BS multiplies. ``ties_away``: OUT_CVT rounds ties away from zero.
    """

    rounds_twice: bool = True
    scales_alone: bool = False
    multiplies: bool = True
    ties_away: bool = True


EVERY_WAY = Ways()


def requantize(
    node: int,
    ratios: npt.NDArray[np.float64],
    bounds: AccumulatorBounds,
    *,
    per_channel: bool,
    rounds_once: bool = False,
    activation: Activation,
    output_scale: float,
    output_zero_point: int,
    is_in_parts: bool = False,
    ways: Ways = EVERY_WAY,
) -> Requantization:
    """``ratios``: real sx * sw_c / sy, one per output channel (all equal if not ``per_channel``);
    ``rounds_once``: the kernel takes them as they are. ``output_zero_point`` in int8.
    ``is_in_parts``: the sum is made of several, whose ranges are checked on their own.
    ``ways``: of which the first is taken that rounds twice and is within one LSB, else the first
    of which few enough results differ, else the one of which the fewest do. Raises LoweringError
    where TensorFlow Lite's int32 could wrap, or no pipeline is within one LSB.
    """
    outputs = activation_range(activation, output_scale, output_zero_point)
    target = target_of(ratios, bounds, output_zero_point, outputs, rounds_once=rounds_once)
    _check_int32(node, bounds, target.exponent, is_in_parts=is_in_parts)
    content = (ratios, bounds.low, bounds.high)
    key = (
        *(np.ascontiguousarray(array).tobytes() for array in content),
        *(rounds_once, per_channel, activation, outputs, output_zero_point, ways),
    )
    # Planning, splitting and lowering ask the same of a node, and so do other rounds of refusals.
    found = _known.get(key)
    if found is None:
        found = _chosen(target, activation, per_channel, ways)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    if isinstance(found, Requantization):
        return found
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"{found}; the ratios are {float(ratios.min()):.3g} to "
        f"{float(ratios.max()):.3g}: quantise the model with output scales nearer together",
    )


_MOST_KNOWN = 1024
_known: dict[tuple[object, ...], Requantization | str] = {}
"""The result found before for the same numbers; a text says why nothing was."""


def _chosen(
    target: Target, activation: Activation, per_channel: bool, ways: Ways
) -> Requantization | str:
    near, moved = settled(target)
    if not per_channel:
        near = near.widest()
    if not moved.any():
        target = near
    sample = None if ways.rounds_twice else one_rounding.Sample(target)
    worst = "no stages could be found"
    best: Requantization | None = None
    for group in _proposals(near, per_channel, ways):
        pipelines: list[Pipeline] = []
        for factors in group.factors:
            one = replace(factors, moved=factors.moved + moved) if moved.any() else factors
            whole = pipeline_of(one, activation, target.outputs, target.zero_point)
            pipelines += last_roundings(whole, has_ties_away=group.ties_away)
        found = _nearest(pipelines, target, sample)
        if found is None:
            continue
        proof = found.proof
        if proof.is_within_one_lsb:
            share = 0.0 if sample is None else sample.share_differing(found.pipeline)
            if share <= group.most_differing:
                return replace(found, share=share)
            if best is None or share < best.share:
                best = replace(found, share=share, is_near=False)
        elif proof.is_sound:
            channel = int(np.argmax(proof.worst))
            place = f"output channel {channel}" if per_channel else "a result"
            worst = f"{place} could be off by {int(proof.worst[channel])} LSB"
    return best or worst


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Factors of one way, of which the nearest are taken. ``most_differing``: the share of results
    with which no other way is looked for.
    """

    factors: Sequence[Factors]
    ties_away: bool
    most_differing: float = one_rounding.MOST_DIFFERING


def _proposals(target: Target, per_channel: bool, ways: Ways) -> Iterator[_Group]:
    """Groups, of which a later one is asked for only if none before it is near."""
    if ways.rounds_twice:
        for propose in PER_CHANNEL if per_channel else PER_TENSOR:
            factors = propose(target)
            yield _Group(() if factors is None else (factors,), ways.ties_away)
        return
    if ways.scales_alone:
        alone = one_rounding.scales_alone(target)
        yield _Group(alone, ways.ties_away, one_rounding.MOST_DIFFERING_OF_DRIVERS)
    if ways.multiplies:
        yield _Group(one_rounding.proposals(target, for_all=not per_channel), ways.ties_away)


def _nearest(
    pipelines: Sequence[Pipeline], target: Target, sample: one_rounding.Sample | None
) -> Requantization | None:
    """One within one LSB, if there is any: that with the best proof, or the one that differs least
    in ``sample``.
    """
    if sample is None:
        found = [Requantization(one, prove(one, target)) for one in pipelines]
        return min(found, key=lambda one: one.proof.rank, default=None)
    first = None
    for one in sorted(pipelines, key=sample.share_differing):
        proven = Requantization(one, prove(one, target))
        if proven.proof.is_within_one_lsb:
            return proven
        first = first or proven
    return first


def target_of(
    ratios: npt.NDArray[np.float64],
    bounds: AccumulatorBounds,
    zero_point: int,
    outputs: tuple[int, int],
    *,
    rounds_once: bool,
) -> Target:
    """Return the specification: what TensorFlow Lite computes; see ``requantize``."""
    q, exponent = quantize_multipliers(ratios)
    return Target(
        q,
        exponent,
        bounds.low,
        bounds.high,
        zero_point,
        outputs,
        ratios if rounds_once else None,
    )


def _check_int32(
    node: int, bounds: AccumulatorBounds, exponent: npt.NDArray[np.int64], *, is_in_parts: bool
) -> None:
    """TensorFlow Lite's int32 must not wrap, nor the DPU's while it adds bias and zero points: the
    array's sum without bias reaches no further than the range is wide.
    """
    over = wraps(bounds.low, exponent) | wraps(bounds.high, exponent)
    if not is_in_parts:
        over |= bounds.high - bounds.low > INT32_MAX
    if not over.any():
        return
    channel = int(np.argmax(over))
    raise LoweringError(
        node,
        ACCUMULATOR_FITS_INT32,
        f"output channel {channel} can reach accumulators from {int(bounds.low[channel])} to "
        f"{int(bounds.high[channel])} (shifted left by {max(int(exponent[channel]), 0)}), beyond "
        "int32; quantise the model with a smaller bias",
    )
