"""Requantises without BN: one multiplier of 15 bits per channel in BS.

The plain way, which drivers take on silicon: one rounding, that of OUT_CVT. All channels share the
shift, so a channel whose scale is 2^n below the largest has n bits less.

Or BS rounds to the unit of TensorFlow Lite's N, 2^e LSB, and OUT_CVT rounds that, as it does: near
it as long as 15 bits of the multiplier tell N. Channels whose unit is another one begin each output
a little early or late; where no output is below the zero point, moved accumulators make up for it.
Or one rounding of two factors, BS's and OUT_CVT's scale, with which all channels come nearer to
their multipliers; one multiplier alone is told by 22 bits and more.
Which of these differs least is found by a sample, and how far it can be off by the prover.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from delegate.lower.numerics.factors import (
    FACTOR_BITS,
    KEPT_BITS,
    LARGEST_FACTOR,
    UNIT_SCALE,
    UNIT_SHIFT,
    Factors,
)
from delegate.lower.numerics.pipeline import FloatArray, Int64Array, Pipeline
from delegate.lower.numerics.tflite import Target

# OUT_CVT_SHIFT: six bits.
_MAX_SHIFT = 63 - UNIT_SHIFT
# Of a multiplier of 0, which has no range.
_LEAST_RATIO = 2.0**-31
# Results that pipelines are compared by: of 1 % that differ the count is off by a tenth.
_SAMPLES, _SAMPLED_CHANNELS = 1 << 13, 64
MOST_DIFFERING = 0.01
"""The contract: at least 99 % of the results of operators alone are equal."""
_NEIGHBOURS = 2
"""Scales to both sides of the nearest that are tried."""
MOST_DIFFERING_OF_DRIVERS = 0.1
"""Stages that drivers give every such layer are taken although more results differ, up to here.
Measured: .073 in the worst layer of the shared uint8 models, below .01 over each of the models."""
# Scales of OUT_CVT that are tried, times channels: what a node may cost to compile.
_SCALES_TRIED, _FEWEST_SCALES = 1 << 18, 64
# Of them at a time: what a core's cache holds.
_VALUES_AT_ONCE = 1 << 14
_GOLDEN = (math.sqrt(5) - 1) / 2


def propose(target: Target) -> Factors | None:
    """Return factors of one rounding; None: the shifts do not fit."""
    real = target.real
    bits = min(FACTOR_BITS - math.frexp(float(real.max()))[1], _MAX_SHIFT)
    first = np.minimum(np.rint(np.ldexp(real, bits)), LARGEST_FACTOR).astype(np.int64)
    bs_shift = _bs_shift(target, first)
    if bits < bs_shift:
        return None
    return Factors(first, 1, bs_shift, 0, bits - bs_shift)


def _bs_shift(target: Target, first: Int64Array) -> int:
    """Return the shift with which every product keeps within KEPT_BITS."""
    return max(0, int((target.magnitude * first).max()).bit_length() - KEPT_BITS)


def proposals(target: Target, *, for_all: bool) -> tuple[Factors, ...]:
    """Return factors of the plain way, and of the units of N that channels have. ``for_all``: the
    same factor for all of them; ``target`` has one channel then, the widest.
    """
    plain = propose(target)
    if plain is None:
        return ()
    found = [plain, *by_two_factors(target)]
    if np.min(plain.first) >= 1:  # a channel without a bit has none to spare for units
        found += _by_unit(target)
    if target.zero_point <= target.outputs[0]:
        found += [replace(factors, moved=_late(factors, target)) for factors in found]
    return tuple(one.for_all() if for_all else one for one in found)


def scales_alone(target: Target) -> tuple[Factors, ...]:
    """Return factors of OUT_CVT's scale alone, 15 bits, as Mesa's driver has it: the nearest to the
    channels' one multiplier and its neighbours. ``target`` has one channel, the widest.
    """
    real = float(target.real[0])
    if real <= 0:
        return ()
    bits = FACTOR_BITS - math.frexp(real)[1]
    nearest = round(math.ldexp(real, bits))
    if not UNIT_SHIFT <= bits <= _MAX_SHIFT + UNIT_SHIFT:
        return ()
    found = [
        Factors(1, 1, 0, 0, bits - UNIT_SHIFT, scale=scale)
        for scale in range(nearest - _NEIGHBOURS, nearest + _NEIGHBOURS + 1)
        if UNIT_SCALE <= scale <= LARGEST_FACTOR
    ]
    if target.zero_point <= target.outputs[0]:
        # TensorFlow Lite's first rounding makes results begin early; nothing does here.
        whole = round(float(target.early[0]) / real)
        found += [
            replace(factors, moved=whole + moved) for factors in found for moved in (-1, 0, 1)
        ]
    return tuple(found)


def by_two_factors(target: Target) -> Iterator[Factors]:
    """Yield the factors with the scale of OUT_CVT by which the channels' factors are the nearest to
    what they stand for, in proportion, on the whole.
    """
    real = target.real
    if real.min() <= 0:
        return
    tried = max(_SCALES_TRIED // real.size, _FEWEST_SCALES)
    scales = np.linspace(UNIT_SCALE, LARGEST_FACTOR, min(tried, UNIT_SCALE)).round()
    # Channels' factors with the least scale, 1; larger ones leave room for more bits.
    bits = FACTOR_BITS + 1 - math.frexp(float(real.max()))[1]
    whole, ratios = np.ldexp(real, bits), UNIT_SCALE / scales
    fits = (np.rint(whole.max() * ratios) <= LARGEST_FACTOR) & (np.rint(whole.min() * ratios) >= 1)
    if not fits.any():
        return
    scales, ratios = scales[fits], ratios[fits]
    parts = np.array_split(ratios, max(ratios.size * real.size // _VALUES_AT_ONCE, 1))
    best = int(np.argmin(np.concatenate([_mean_error(whole, part) for part in parts])))
    first = np.rint(whole * ratios[best]).astype(np.int64)
    bs_shift = _bs_shift(target, first)
    if bs_shift <= bits <= _MAX_SHIFT + bs_shift:
        yield Factors(first, 1, bs_shift, 0, bits - bs_shift, scale=int(scales[best]))


def _mean_error(wanted: FloatArray, ratios: FloatArray) -> FloatArray:
    """Return by which part whole factors are off on the average, for each of ``ratios``."""
    factors = wanted * ratios[:, np.newaxis]
    return np.asarray(np.abs(np.rint(factors) / factors - 1).mean(axis=1))


def _by_unit(target: Target) -> Iterator[Factors]:
    real = target.real
    units = -target.exponent[target.q > 0]
    for unit in np.unique(units[(units > 0) & (units <= _MAX_SHIFT)]).tolist():
        bs_shift = FACTOR_BITS - math.frexp(float(np.ldexp(real.max(), unit)))[1]
        first = np.minimum(np.rint(np.ldexp(real, bs_shift + unit)), LARGEST_FACTOR)
        if 0 <= bs_shift <= _MAX_SHIFT and first.min() >= 1:
            yield Factors(first.astype(np.int64), 1, bs_shift, 0, unit)


def _late(factors: Factors, target: Target) -> Int64Array:
    """Return by how many whole accumulators results above the zero point begin late. Two roundings
    begin half a unit of the first one early, which is N's unit there and BS's here. Only for nodes
    without results below the zero point: those would be off as much the other way.
    """
    late = target.early - 0.5 / factors.steps_per_lsb
    return np.asarray(np.rint(late / np.maximum(target.real, _LEAST_RATIO)), np.int64)


def share_differing(target: Target, samples: int = _SAMPLES) -> Callable[[Pipeline], float]:
    """Return what tells about how many of the results of a pipeline differ, by accumulators spread
    over the range of outputs. What the differences are at most is the prover's to say.
    """
    step = -(-target.q.size // _SAMPLED_CHANNELS)
    channels = np.arange(0, target.q.size, step)
    some = target if step == 1 else target.of(channels)
    ratios = some.real
    least, most = (
        (end - target.zero_point) / np.maximum(ratios, _LEAST_RATIO) for end in target.outputs
    )
    low, high = (
        np.asarray(end)[:, np.newaxis]
        for end in (np.maximum(some.low, least), np.minimum(some.high, most))
    )
    count = max(samples // channels.size, 1)
    # Each channel has places of its own: one near a tie would be so in all of them.
    places = (np.arange(1, channels.size * count + 1) * _GOLDEN).reshape(-1, count)
    places -= np.floor(places)
    # Results are the denser the nearer to the zero point.
    middle = np.clip(0.0, low, np.maximum(high, low))
    spread = 2 * places - 1
    extents = np.where(spread < 0, middle - low, np.maximum(high - middle, 0))
    accumulators = np.rint(middle + spread * np.abs(spread) * extents)
    results = some.results(accumulators.astype(np.int64))
    wanted = np.clip(results + target.zero_point, *target.outputs).astype(np.float64)

    def share(pipeline: Pipeline) -> float:
        sampled = pipeline if step == 1 else pipeline.of(slice(0, None, step))
        found = sampled.run(accumulators)
        return int(np.count_nonzero(found != wanted)) / wanted.size

    return share
