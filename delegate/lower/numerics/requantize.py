"""Requantisation of a node: the first pipeline of the choosers that the prover accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

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
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, MULTIPLIERS_KEEP_BITS, WITHIN_ONE_LSB
from delegate.model.graph import Activation

Chooser = Callable[[Target], Factors | None]

PER_TENSOR: tuple[Chooser, ...] = (two_roundings.propose_for_all,)
PER_CHANNEL: tuple[Chooser, ...] = (
    two_roundings.propose,
    two_roundings.propose_with_usual_shifts,
    one_rounding.propose,
)


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
    rounds_in_bn: bool = True,
    is_sampled: bool = False,
    has_ties_away: bool = True,
    most_differing: float = one_rounding.MOST_DIFFERING,
) -> Requantization:
    """``ratios``: real sx * sw_c / sy, one per output channel (all equal if not ``per_channel``);
    ``rounds_once``: the kernel takes them as they are. ``output_zero_point`` in int8.
    ``is_in_parts``: the sum is made of several, whose ranges are checked on their own.
    ``rounds_in_bn``: BN may make the first of two roundings, and EW bring units together;
    ``is_sampled``: where it may not, BS may, and what differs least in a sample is taken, if no
    more than ``most_differing`` of the results do.
    ``has_ties_away``: see ``last_roundings``. Raises LoweringError where TensorFlow Lite's int32
    could wrap, or no pipeline is within one LSB.
    """
    outputs = activation_range(activation, output_scale, output_zero_point)
    target = target_of(ratios, bounds, output_zero_point, outputs, rounds_once=rounds_once)
    _check_int32(node, bounds, target.exponent, is_in_parts=is_in_parts)
    near, moved = settled(target)
    if not per_channel:
        near = near.widest()
    if not moved.any():
        target = near
    worst = "no stages could be found"
    for group in _proposals(near, per_channel, rounds_in_bn, is_sampled):
        pipelines: list[Pipeline] = []
        for factors in group:
            one = replace(factors, moved=factors.moved + moved) if moved.any() else factors
            whole = pipeline_of(one, activation, outputs, output_zero_point)
            pipelines += last_roundings(whole, has_ties_away=has_ties_away)
        found = _nearest(pipelines, target)
        if found is None:
            continue
        proof = found.proof
        if proof.is_within_one_lsb:
            if is_sampled and not rounds_in_bn:
                _check_share(node, found.pipeline, target, most_differing)
            return found
        if proof.is_sound:
            channel = int(np.argmax(proof.worst))
            place = f"output channel {channel}" if per_channel else "a result"
            worst = f"{place} could be off by {int(proof.worst[channel])} LSB"
    raise LoweringError(
        node,
        WITHIN_ONE_LSB,
        f"{worst}; the ratios are {float(ratios.min()):.3g} to "
        f"{float(ratios.max()):.3g}: quantise the model with output scales nearer together",
    )


def _check_share(node: int, pipeline: Pipeline, target: Target, most: float) -> None:
    """No more results may differ than a factor of 15 bits explains."""
    share = one_rounding.share_differing(pipeline, target)
    if share > most:
        raise LoweringError(
            node,
            MULTIPLIERS_KEEP_BITS,
            f"about {share:.1%} of the results would differ: quantise the model with output scales "
            "nearer together",
        )


def _proposals(
    target: Target, per_channel: bool, rounds_in_bn: bool, is_sampled: bool
) -> Iterator[Sequence[Factors]]:
    """Groups of factors, the nearest of which is taken; a later group only if none is near."""
    if not rounds_in_bn and is_sampled:
        yield one_rounding.proposals(target, for_all=not per_channel)
        return
    choosers = PER_CHANNEL if per_channel else PER_TENSOR
    if not rounds_in_bn:
        choosers = (one_rounding.propose if per_channel else one_rounding.propose_for_all,)
    for propose in choosers:
        factors = propose(target)
        yield () if factors is None else (factors,)


def _nearest(pipelines: Sequence[Pipeline], target: Target) -> Requantization | None:
    """One within one LSB, if there is any: of two the one with the better proof, of more the one
    that by a sample differs least.
    """
    if len(pipelines) <= 2:
        found = [Requantization(one, prove(one, target)) for one in pipelines]
        return min(found, key=lambda one: one.proof.rank, default=None)
    first = None
    samples = one_rounding.COMPARED_SAMPLES
    for one in sorted(
        pipelines, key=lambda one: one_rounding.share_differing(one, target, samples)
    ):
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
    """What TensorFlow Lite computes; see ``requantize``."""
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
