"""Register stages of a per-channel node: multipliers C and D from memory, shifts for all channels.

TFLite: N = round(acc * q_c / 2^31), out = round_half_away(N / 2^g_c), per channel, with 2^30 <= q <
2^31 and g_c = -exponent. Two ways to make it, both with t = round(acc * C_c >> s1) in BS. The
first (``channel_exact``) makes N in BN from two factors and brings the channels to one unit in EW.
Where EW is taken, or a channel does not fit, C_c = q_c to 15 bits and s1 = 15: t is N itself, but
for the last bits of C, and BN brings the channels to one unit with D_c = 2^(R - g_c), exactly.

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
    return _finish(channels, c.astype(np.int64), d, drop > 0, bs_shift, unit_bits)


def _finish(
    channels: _Channels,
    c: Int64Array,
    d: Int64Array,
    is_coarse: npt.NDArray[np.bool_],
    bs_shift: int,
    unit_bits: int,
) -> Stages:
    """Moves the centres of coarse channels, and proves the bounds of all."""
    bounds, multipliers = channels.bounds, channels.multipliers
    is_live = channels.q > 0
    step = np.ldexp(d.astype(np.float64), -bs_shift - unit_bits)  # LSB per C
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
    reach = bounds.magnitude.astype(np.float64) * np.maximum(c / 2.0**bs_shift, 1)
    if (reach > INT32_MAX).any():
        channel = int(np.argmax(reach))
        raise LoweringError(
            channels.node,
            "accumulator_fits_int32",
            f"output channel {channel}: the product of accumulator and multiplier leaves int32",
        )
    error = channel_errors(bounds, moved, multipliers, actual)
    # A rounding that TFLite does not make: BS of coarse channels.
    error += np.where(is_coarse, 0.5 * step, 0.0)
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
        bn_shift=0,
        unit_bits=unit_bits,
        error_lsb=float(error[worst]),
        bias_change=moved,
    )


def _shifts(values: Int64Array) -> npt.NDArray[np.int32]:
    return values.astype(np.int32)
