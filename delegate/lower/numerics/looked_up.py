"""A function of a convolution's result, looked up in the convolution's own task.

    BS       t = round((acc + bias) * C >> s1)     or the accumulator itself
    BN       u = round(t * D >> s2)                32 units per LSB, 0 at the zero point
    table    v = T(u)                              between entries the DPU interpolates
    OUT_CVT  out = round(v >> 8)

TensorFlow Lite rounds to int8 before it looks up: where it gives k, the operators one after the
other, each within one step, may give any result between f(k - 1) and f(k + 1). T has an entry at
every whole LSB, 256 * f of the clamped value there, so that what lies between two entries lies
between their results. A task is therefore within the bound if the accumulators that give k have u
between those of k - 1 and k + 1: this is what is proved, for every accumulator. The result is
nearer to the real numbers than TensorFlow Lite's, and differs from it where f rises.

Beyond the tables their ends hold, and beyond the convolution's least and largest result the
entries repeat: so clamps need no stage. In runs of equal entries boards were seen to read up to 128
units more: there entries are 64 less, and any error from -63 to +128 gives the same result.

PRELU with several slopes, in two pipelines: products below the zero point, the rest above.

    below    the product of what is below the zero point with its slope, requantised; elsewhere the
             result's zero point
    above    what is above the input's zero point, requantised, and the first one's result in EW

One of both is the zero point, so that the sum is the other one, and is not rounded: EW adds in
units of what OUT_CVT takes for one LSB.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics import bounds
from delegate.lower.numerics.factors import FACTOR_BITS, KEPT_BITS, LARGEST_FACTOR, UNIT_SHIFT
from delegate.lower.numerics.image_sums import requantize_image, sum_target
from delegate.lower.numerics.multiplication import requantize_product
from delegate.lower.numerics.pipeline import (
    ENTRY_OFFSET,
    ENTRY_SCALE,
    INDEX_STEP,
    INT8_MAX,
    INT8_MIN,
    Difference,
    Ew,
    EwOperation,
    FloatArray,
    Int64Array,
    Joined,
    MultiplyStage,
    OutConvert,
    Pipeline,
)
from delegate.lower.numerics.prover import index_is_near, prove_results
from delegate.lower.numerics.tflite import PairTarget, Target
from delegate.lower.rules import WITHIN_ONE_LSB

CURVE_STEPS = 1024
"""The steps from the first entry of both tables to the last; the middle one is at 0."""
_INDEX_BITS = INDEX_STEP.bit_length() - 1
_MOST_SHIFT = 63
_INT16_MIN = -(1 << 15)
# A multiplier of the index keeps so many bits of BS's result below an index unit.
_BITS_BELOW = 10
# How often results differ is counted at so many accumulators of each result, in so many channels.
_SAMPLES, _CHANNELS = 16, 8
_GOLDEN = (math.sqrt(5) - 1) / 2


@functools.lru_cache(maxsize=1024)  # rounds of refusals ask the same of a node
def looked_up(
    target: Target, function: tuple[int, ...], *, per_channel: bool, multiplies: bool
) -> Joined | None:
    """Look a function up behind a convolution. ``target``: the convolution alone. ``function``: its
    results for -128 to 127. ``multiplies``: BS does, per channel; else BN has the only multiplier,
    which serves channels of one scale. None where no stages are within the bound.
    """
    near = target if per_channel else target.widest()
    steps = near.outputs[0], near.outputs[1], near.zero_point
    results = np.array(function)
    entries = _entries(results, *steps)
    for bs, bn in _by_record(near, per_channel) if multiplies else _by_index(near):
        pipeline = Pipeline(
            bs, bn, out=OutConvert(1, ENTRY_SCALE.bit_length() - 1, ties_away=False)
        )
        if bounds.index_is_near(pipeline, near) or index_is_near(pipeline, near):
            found = partial(_found, entries)
            differs = partial(differences, pipeline, near, results, found)
            return Joined(pipeline, entries, differs)
    return None


def _entries(function: Int64Array, least: int, largest: int, zero_point: int) -> Int64Array:
    """Return the entries: at every whole LSB around the zero point the nearest one's result."""
    places = np.arange(-CURVE_STEPS // 2, CURVE_STEPS // 2 + 1) + zero_point
    results = function[np.clip(places, least, largest) - INT8_MIN]
    is_flat = np.zeros(results.size, np.bool_)
    is_equal = results[1:] == results[:-1]
    is_flat[1:] |= is_equal
    is_flat[:-1] |= is_equal
    entries: Int64Array = results * ENTRY_SCALE + np.where(is_flat, ENTRY_OFFSET, 0)
    return np.maximum(entries, _INT16_MIN)


def _by_record(target: Target, per_channel: bool) -> Iterator[tuple[MultiplyStage, MultiplyStage]]:
    """Yield stages: BS brings channels to one unit, BN shifts it to the index."""
    ratios = target.real
    bits = FACTOR_BITS - math.frexp(float(ratios.max()))[1]
    factors = np.minimum(np.rint(np.ldexp(ratios, bits)), LARGEST_FACTOR).astype(np.int64)
    least = max(0, int((target.magnitude * factors).max()).bit_length() - KEPT_BITS)
    bs_shift = max(least, bits - _INDEX_BITS - _BITS_BELOW, 0)
    bn_shift = bits - bs_shift - _INDEX_BITS
    if 0 <= bn_shift <= _MOST_SHIFT and bs_shift <= _MOST_SHIFT:
        yield (
            MultiplyStage(factors if per_channel else int(factors[0]), shift=bs_shift),
            MultiplyStage(1, shift=bn_shift),
        )


def _by_index(target: Target) -> Iterator[tuple[MultiplyStage, MultiplyStage]]:
    """Yield stages: BN makes the index of the accumulator itself."""
    units = float(target.real[0]) * INDEX_STEP
    bits = FACTOR_BITS - math.frexp(units)[1] if units > 0 else -1
    if 0 <= bits <= _MOST_SHIFT:
        factor = min(round(math.ldexp(units, bits)), LARGEST_FACTOR)
        yield MultiplyStage(), MultiplyStage(factor, shift=bits)


def found_at(entries: Int64Array, index: FloatArray) -> Int64Array:
    """Return the task's results at ``index``."""
    reach = CURVE_STEPS // 2 * INDEX_STEP
    place, rest = np.divmod(np.clip(index, -reach, reach) + reach, INDEX_STEP)
    at = place.astype(np.int64)
    start = entries[at]
    rise = entries[np.minimum(at + 1, CURVE_STEPS)] - start
    values = start + np.rint(rise * (rest / INDEX_STEP))
    return np.asarray(np.rint(values / ENTRY_SCALE), np.int64)


def _found(entries: Int64Array, stages: Pipeline, accumulators: Int64Array) -> Int64Array:
    return found_at(entries, stages.index(accumulators))


def differences(
    pipeline: Pipeline,
    target: Target,
    function: Int64Array,
    run: Callable[[Pipeline, Int64Array], FloatArray | Int64Array],
) -> Difference:
    """Return the bound, and about how many results differ. ``run``: the results of a channel's
    stages for accumulators [1, values].
    """
    least, largest = target.outputs
    results = function[least - INT8_MIN : largest - INT8_MIN + 1]
    worst = int(np.abs(np.diff(results)).max(initial=0))
    channels = np.unique(np.linspace(0, target.q.size - 1, _CHANNELS).astype(np.intp))
    some = target.of(channels)
    first, last = (ends[:, :, np.newaxis] for ends in some.stretches())
    counts = last + 1 - first
    places = np.arange(1, counts.size * _SAMPLES + 1) * _GOLDEN % 1.0
    inside = np.floor(places.reshape(*counts.shape[:2], _SAMPLES) * counts).astype(np.int64)
    accumulators = first + inside
    differing = counted = 0
    for number, channel in enumerate(channels.tolist()):
        one = pipeline.of(slice(channel, channel + 1))
        rows = counts[number, :, 0] > 0
        found = run(one, accumulators[number, rows].reshape(1, -1)).reshape(-1, _SAMPLES)
        differing += int(np.count_nonzero(found != results[rows, np.newaxis]))
        counted += found.size
    return Difference(worst, differing / max(counted, 1))


def requantize_slopes(
    node: int,
    target: PairTarget,
    factors: tuple[float, float],
    zero_points: tuple[int, int, int],
    *,
    has_ties_away: bool,
) -> tuple[Pipeline, Pipeline]:
    """Return the stages below and above. ``target``: values and slopes, each once. ``factors``: to
    the result from a value, and from its product with a slope, as TensorFlow Lite computes them.
    int8 ``zero_points`` of input, slopes, result. ``has_ties_away``: see ``last_roundings``. Raises
    LoweringError where no pipelines are within one LSB, or TensorFlow Lite's int32 wraps.
    """
    source, _, result = zero_points
    ties, slopes = {"has_ties_away": has_ties_away}, tuple(target.seconds.tolist())
    outputs = INT8_MIN, INT8_MAX
    below = requantize_product(node, factors[1], zero_points, outputs, slopes=slopes, **ties)
    plain = requantize_image(node, sum_target(1, (factors[0], 1.0), (source, result)), **ties)
    above = replace(
        plain,
        bs=replace(plain.bs, add=-source),
        bn=replace(plain.bn, relu=True),
        ew=Ew(EwOperation.ADD, offset=-result, scale=1 << max(plain.out.shift - UNIT_SHIFT, 0)),
    )
    x, e = target.operands
    products, is_sound = below.pipeline.checked(x, e)
    results, fits = above.checked(x, products)
    proof = prove_results(results, is_sound and fits, target)
    if not proof.is_within_one_lsb:
        problem = f"results with {len(slopes)} slopes are up to {int(proof.worst[0])} LSB off"
        raise LoweringError(node, WITHIN_ONE_LSB, problem)
    return below.pipeline, above
