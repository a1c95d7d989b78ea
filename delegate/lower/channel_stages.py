"""Register stages of a per-channel node: multipliers C and D from memory, shifts for all channels.

TFLite: N = round(acc * q_c / 2^31), out = round_half_away(N / 2^g_c), per channel, with 2^30 <= q <
2^31 and g_c = -exponent. Three ways to make it, all with t = round(acc * C_c >> s1) in BS. The
first (``channel_exact``) makes N in BN from two factors and brings the channels to one unit in EW.
Where EW is taken, or a channel does not fit:

Any sign.  C_c = q_c to 15 bits and s1 = 15: t is N itself, but for the last bits of C. BN brings
           the channels to one unit with D_c = 2^(R - g_c), exactly.
Positive.  Where only results above the zero point count (ReLU), N's rounding is a summand: out >= k
           just where acc * q / 2^31 + 1/2 >= (k - 1/2) * 2^g. s1 is as small as int32 allows, BN
           adds that half (the same number for all channels, as C_c / q_c is), and D_c need not be a
           power of two: C_c * D_c meets q_c to some 20 to 29 bits.

A channel whose scale lies too far below the others gives up low bits of C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.lower.channel_bounds import CENTRE_LIMIT, channel_errors, wanted_centres
from delegate.lower.channel_exact import exact_channel_stages
from delegate.lower.multipliers import MULTIPLIER_BITS, quantize_multiplier
from delegate.lower.stages import (
    INT32_MAX,
    AccumulatorBounds,
    FloatArray,
    Int64Array,
    Stages,
)

# q has 31 bits, C 15.
C_BITS = 31 - MULTIPLIER_BITS
# The largest power of two in the signed 16-bit BN operand.
MAX_D_BITS = 14
# D of the positive way is sought this far around its power of two. It moves BN's summand by the
# same share, at most 1/64 of a rounding error at 2^14; channels with a small D have fewer choices.
D_REACH = 1 << 8
BLOCK_CHANNELS = 64
LARGEST_FACTOR = (1 << MULTIPLIER_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Channels:
    """TFLite's (q, g) per channel; q = 0: the result is the zero point whatever the input."""

    node: int
    multipliers: FloatArray
    q: Int64Array
    unit: Int64Array
    bounds: AccumulatorBounds

    @property
    def headroom(self) -> int:
        """The largest unit_bits with which no result behind BN leaves int32."""
        largest = float((self.bounds.magnitude * self.multipliers).max())
        return 31 - 1 - math.frexp(largest + 1.0)[1]


def channel_stages(
    node: int,
    multipliers: FloatArray,
    bounds: AccumulatorBounds,
    outputs: tuple[int, int],
    *,
    is_ew_free: bool,
) -> Stages:
    """``outputs``: the activation's range, counted from the zero point. Raises LoweringError."""
    pairs = [quantize_multiplier(float(m)) for m in multipliers]
    q = np.array([pair[0] for pair in pairs], np.int64)
    exponent = np.array([pair[1] if pair[0] else -31 for pair in pairs], np.int64)
    channels = _Channels(node, multipliers, q, -exponent, bounds)
    if is_ew_free:
        stages = exact_channel_stages(multipliers, q, exponent, bounds, outputs)
        if stages is not None:
            return stages
    if outputs[0] >= 0:
        stages = _positive_stages(channels)
        if stages is not None:
            return stages
    return _signed_stages(channels)


def _signed_stages(channels: _Channels) -> Stages:
    lift = max(-int(channels.unit.min()), 0)  # multipliers of one and more: BS shifts less
    bs_shift = MULTIPLIER_BITS - lift
    if bs_shift < 0:
        raise LoweringError(
            channels.node,
            "multiplier_in_range",
            f"the multiplier {float(channels.multipliers.max()):.6g} is too large for the DPU's "
            "shifts",
        )
    unit = lift + channels.unit  # BS gives channel c in units of 2^-unit LSB
    # No coarser than the finest channel needs, D within 16 bits, no channel beyond int32 in BN.
    unit_bits = max(0, min(int(unit.max()), int(unit.min()) + MAX_D_BITS, channels.headroom))
    drop = np.maximum(unit - unit_bits, 0)
    exponents = np.maximum(unit_bits - unit, 0)
    if int(exponents.max()) > MAX_D_BITS:
        raise LoweringError(
            channels.node,
            "channel_scales_in_range",
            "the per-channel scales differ too much for the DPU",
        )
    d = np.left_shift(np.int64(1), exponents)
    c = np.minimum(np.rint(np.ldexp(channels.q, _shifts(-C_BITS - drop))), LARGEST_FACTOR)
    return _finish(channels, c.astype(np.int64), d, drop > 0, bs_shift, 0, unit_bits)


def _positive_stages(channels: _Channels) -> Stages | None:
    """None where a multiplier of one half or more makes the summand differ between channels."""
    is_live = channels.q > 0
    if not is_live.any() or int(channels.unit[is_live].min()) < 1:
        return None
    finest = int(channels.unit[is_live].min())
    span = np.where(is_live, channels.unit - finest, 0)
    drop = np.maximum(span - MAX_D_BITS, 0)
    # C * D ~ q / 2^C_BITS * 2^(MAX_D_BITS - span): D is 2^14 for the largest scale.
    product = np.ldexp(channels.q.astype(np.float64), _shifts(MAX_D_BITS - C_BITS - span))
    c, d = _nearest_factors(product, np.maximum(MAX_D_BITS - span, 0))
    reach = int((channels.bounds.magnitude * c).max()).bit_length()
    bs_shift = max(0, reach - 30)
    if bs_shift > MULTIPLIER_BITS - 1:
        return None
    # u = t * D >> bn_shift in units of 2^-unit_bits LSB.
    total = MULTIPLIER_BITS + MAX_D_BITS + finest - bs_shift
    unit_bits = min(channels.headroom, total)
    if unit_bits < int(channels.unit[is_live & (drop == 0)].max(initial=1)):
        return None
    half = 1 << (MULTIPLIER_BITS - 1 - bs_shift)
    return _finish(channels, c, d, drop > 0, bs_shift, total - unit_bits, unit_bits, summand=half)


def _nearest_factors(product: FloatArray, d_bits: Int64Array) -> tuple[Int64Array, Int64Array]:
    """C and D with C * D nearest to ``product``, D near 2^d_bits, both of 15 bits."""
    # By blocks: all candidates of all channels would take more memory than the rest of a model.
    blocks = [
        _nearest_in_block(product[i : i + BLOCK_CHANNELS], d_bits[i : i + BLOCK_CHANNELS])
        for i in range(0, len(product), BLOCK_CHANNELS)
    ]
    c, d = (np.concatenate([block[k] for block in blocks]) for k in range(2))
    return c, d


def _nearest_in_block(product: FloatArray, d_bits: Int64Array) -> tuple[Int64Array, Int64Array]:
    power = np.left_shift(np.int64(1), d_bits)[:, np.newaxis]
    d = np.maximum(power + np.arange(-D_REACH, D_REACH + 1), 1)
    # Around a small power the reach would be a multiple of it: keep within 1/64.
    d = np.where(np.abs(d - power) * 64 <= power, d, power)
    c = np.rint(product[:, np.newaxis] / d)
    error = np.abs(c * d - product[:, np.newaxis])
    error[c > LARGEST_FACTOR] = np.inf
    best = np.argmin(error, axis=1)
    rows = np.arange(len(product))
    nearest = np.minimum(c[rows, best], LARGEST_FACTOR)
    return nearest.astype(np.int64), d[rows, best]


def _finish(
    channels: _Channels,
    c: Int64Array,
    d: Int64Array,
    is_coarse: npt.NDArray[np.bool_],
    bs_shift: int,
    bn_shift: int,
    unit_bits: int,
    summand: int = 0,
) -> Stages:
    """Moves the centres of coarse channels, and proves the bounds of all."""
    bounds, multipliers = channels.bounds, channels.multipliers
    is_live = channels.q > 0
    step = np.ldexp(d.astype(np.float64), -bs_shift - bn_shift - unit_bits)  # LSB per C
    wanted = wanted_centres(bounds, multipliers, is_coarse & is_live)
    # A multiplier so small that the centre would need an accumulator beyond int32 is raised.
    least = np.ceil(np.nan_to_num(np.abs(wanted)) / (step * CENTRE_LIMIT)).astype(np.int64)
    c = np.where(is_live, np.maximum(c, np.maximum(least, 1)), 0)
    d = np.where(is_live, d, 0)
    actual = c * step
    is_moved = ~np.isnan(wanted)
    moved = np.zeros(len(c), np.int64)
    centre = (bounds.low + bounds.high) / 2.0
    moved[is_moved] = np.rint(wanted[is_moved] / actual[is_moved] - centre[is_moved])
    bounds = AccumulatorBounds(bounds.low + moved, bounds.high + moved)
    reach = bounds.magnitude.astype(np.float64) * np.maximum(c / 2.0**bs_shift, 1) + summand
    if (reach > INT32_MAX).any():
        channel = int(np.argmax(reach))
        raise LoweringError(
            channels.node,
            "accumulator_fits_int32",
            f"output channel {channel}: the product of accumulator and multiplier leaves int32",
        )
    error = channel_errors(bounds, moved, multipliers, actual)
    # Roundings that TFLite does not make: BS in the positive way, and of coarse channels; BN.
    extra = np.where(is_coarse | (summand > 0), 0.5 * step, 0.0)
    error += extra + (0.5 * 2.0**-unit_bits if bn_shift else 0.0)
    worst = int(np.argmax(error))
    if error[worst] >= 0.5:
        raise LoweringError(
            channels.node,
            "error_below_half_lsb",
            f"output channel {worst} could be off by {float(error[worst]):.3g} LSB before "
            f"rounding: its scale is {float(multipliers.max() / multipliers[worst]):.3g} times "
            "below the largest",
        )
    return Stages(
        multipliers=c,
        bs_shift=bs_shift,
        bn_operands=d,
        bn_multiplier=0,
        bn_shift=bn_shift,
        unit_bits=unit_bits,
        error_lsb=float(error[worst]),
        bn_summand=summand,
        bias_change=moved,
    )


def _shifts(values: Int64Array) -> npt.NDArray[np.int32]:
    return values.astype(np.int32)
