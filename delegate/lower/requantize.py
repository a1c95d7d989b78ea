"""From TFLite's requantisation to the DPU's register stages.

In: the weights' sums, bias and scales of a convolution or fully connected node. Out: per-channel
operands and the stages BS, BN, OUT_CVT. Refuses (LoweringError) what cannot be proven to stay
within one LSB.

TFLite's reference kernels compute, per output channel, with m = sx * sw / sy = q * 2^(e - 31), 2^30
<= q < 2^31:

    N   = round(acc * 2^max(e,0) * q / 2^31)             a whole number of 2^min(e,0) output LSBs
    out = round_half_away(N / 2^max(-e,0)) + zero_point, clamped

The first rounding is visible: with e = -1 it moves a quarter of all results. A single exact
rounding therefore disagrees with TFLite on up to several per cent of the elements, so the same two
steps are made in the DPU:

    BS       t = round(acc * C >> s1)      C / 2^s1 ~ q / 2^31, C of 15 bits
    BN       u = round(t * D >> s2)        brings every channel to the same unit of 2^-R LSB
    OUT_CVT  out = round_half_away(u >> R) + zero_point, saturated

Per tensor both multipliers are free registers: C * D has 30 bits, and BN's rounding is TFLite's
first one (``factors``). Per channel see ``channel_stages``. The activation clamps in BN, where zero
is the output zero point and one LSB is exactly 2^R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.graph import Activation
from delegate.lower.channel_stages import channel_stages
from delegate.lower.factors import choose_factors
from delegate.lower.multipliers import MULTIPLIER_BITS, quantize_multiplier
from delegate.lower.stages import (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    AccumulatorBounds,
    Int64Array,
    Stages,
)

# OUT_CVT_SCALE as the vendor normalises it (0x4000..0x7fff); a pure shift is 2^14 >> 14.
UNIT_SCALE = 1 << 14
UNIT_SHIFT = 14

# Weights that are summed at a time: what a core's cache holds, instead of copies of all of them.
BLOCK_TERMS = 1 << 18


@dataclass(frozen=True, slots=True)
class Clamp:
    """The activation in BN's unit, where zero is the output zero point.

    ``relu``/``relux_max``: max(u, 0), min(u, relux_max). ``low`` not None: the lower bound is not
    the zero point; EW subtracts it (it is ``low_lsb`` whole output LSBs), clamps at 0 and
    ``relux_max``, and OUT_CVT's offset puts it back.
    """

    relu: bool = False
    relux_max: int | None = None
    low: int | None = None
    low_lsb: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Requantization:
    """Operands and settings of BS, BN and OUT_CVT for one node. Arrays have one element per output
    channel.

    ``bias`` int32 for the BS ALU; ``multipliers`` for BS MUL; ``bn_operands`` None for a per-tensor
    node, which has one ``bn_multiplier``. ``ew_operands`` are multiplied in EW. ``unit_bits`` is R:
    one output LSB is 2^R before OUT_CVT.
    ``error_lsb`` bounds the distance to TFLite's value before its last rounding, over every
    possible input.
    """

    bias: Int64Array
    multipliers: Int64Array
    bs_shift: int
    bn_operands: Int64Array | None
    bn_multiplier: int
    bn_summand: int
    bn_shift: int
    ew_operands: Int64Array | None
    unit_bits: int
    output_zero_point: int
    clamp: Clamp
    error_lsb: float

    @property
    def is_per_channel(self) -> bool:
        return self.bn_operands is not None


def accumulator_bounds(
    weights: npt.NDArray[np.integer[Any]], bias: Int64Array, input_zero_point: int
) -> AccumulatorBounds:
    """Bounds of sum(w * (x - zero_point)) + bias for int8 x. ``weights``: [channels, terms],
    zero point taken off.
    """
    total, magnitude = np.empty(len(weights), np.int64), np.empty(len(weights), np.int64)
    step = max(1, BLOCK_TERMS // max(weights.shape[1], 1))
    for first in range(0, len(weights), step):
        part = weights[first : first + step]
        total[first : first + step] = part.sum(axis=1, dtype=np.int64)
        magnitude[first : first + step] = np.abs(part).sum(axis=1, dtype=np.int64)
    positive, negative = (total + magnitude) // 2, (total - magnitude) // 2
    x_low, x_high = INT8_MIN - input_zero_point, INT8_MAX - input_zero_point
    low = bias + positive * x_low + negative * x_high
    high = bias + positive * x_high + negative * x_low
    # Padding contributes x = zero point, i.e. nothing, so a window at the border can also leave
    # terms out.
    return AccumulatorBounds(np.minimum(low, bias), np.maximum(high, bias))


def activation_range(activation: Activation, scale: float, zero_point: int) -> tuple[int, int]:
    """The clamp TFLite applies, in int8 (uint8 tensors: zero point - 128)."""
    low, high = INT8_MIN, INT8_MAX
    if activation in (Activation.RELU, Activation.RELU6):
        low = max(low, zero_point)
    if activation is Activation.RELU6:
        high = min(high, zero_point + _steps(6.0, scale))
    if activation is Activation.RELU_N1_TO_1:
        low = max(low, zero_point - _steps(1.0, scale))
        high = min(high, zero_point + _steps(1.0, scale))
    return low, high


def _steps(value: float, scale: float) -> int:
    """TFLite quantises a clamp as round(value / scale), in float32, half away from zero."""
    return math.floor(float(np.float32(value) / np.float32(scale)) + 0.5)


def requantize(
    node: int,
    multipliers: npt.NDArray[np.float64],
    bias: Int64Array,
    bounds: AccumulatorBounds,
    per_channel: bool,
    activation: Activation,
    output_scale: float,
    output_zero_point: int,
) -> Requantization:
    """Chooses every stage for one node.

    ``multipliers``: real sx * sw_c / sy, one per output channel (all equal if not ``per_channel``).
    ``bias``: what the BS ALU adds, i.e. bias - zero_point * sum(weights). ``bounds`` of the true
    accumulator. Raises LoweringError if a bound of one LSB cannot be proven.
    """
    bias, bounds = _tame_bias(node, multipliers, bias, bounds)
    low, high = activation_range(activation, output_scale, output_zero_point)
    if per_channel:
        outputs = low - output_zero_point, high - output_zero_point
        is_ew_free = activation is not Activation.RELU_N1_TO_1
        chosen = channel_stages(node, multipliers, bounds, outputs, is_ew_free=is_ew_free)
    else:
        chosen = _per_tensor_stages(node, multipliers, bounds)
    clamp = _clamp(activation, low - output_zero_point, high - output_zero_point, chosen.unit_bits)
    return Requantization(
        bias=bias + chosen.bias_change,
        multipliers=chosen.multipliers,
        bs_shift=chosen.bs_shift,
        bn_operands=chosen.bn_operands,
        bn_multiplier=chosen.bn_multiplier,
        bn_summand=chosen.bn_summand,
        bn_shift=chosen.bn_shift,
        ew_operands=chosen.ew_operands,
        unit_bits=chosen.unit_bits,
        output_zero_point=output_zero_point,
        clamp=clamp,
        error_lsb=chosen.error_lsb,
    )


def _clamp(activation: Activation, low: int, high: int, unit_bits: int) -> Clamp:
    """``low`` and ``high`` in LSBs from the zero point, already within int8."""
    if activation is Activation.NONE:
        return Clamp()
    if activation is Activation.RELU_N1_TO_1:
        limit, shifted = (high - low) << unit_bits, low << unit_bits
        if max(limit, -shifted) <= INT32_MAX:
            return Clamp(relu=True, relux_max=limit, low=shifted, low_lsb=low)
        # One LSB is 2^unit_bits and no accumulator reaches even the bound: nothing to clamp.
        return Clamp()
    limit = high << unit_bits
    saturated_anyway = limit > INT32_MAX
    return Clamp(relu=True, relux_max=None if saturated_anyway else limit)


def _tame_bias(
    node: int,
    multipliers: npt.NDArray[np.float64],
    bias: Int64Array,
    bounds: AccumulatorBounds,
) -> tuple[Int64Array, AccumulatorBounds]:
    """Keeps the accumulator inside int32.

    A channel that would leave int32 but whose output is saturated for every input gets a smaller
    bias that still saturates it; any other channel is refused (TFLite's own accumulator would
    overflow).
    """
    spread = np.maximum(np.abs(bounds.low - bias), np.abs(bounds.high - bias))
    # Whatever the order in which the hardware adds the parts, no partial sum exceeds this.
    worst = np.maximum(np.abs(bias) + spread, np.maximum(np.abs(bounds.low), np.abs(bounds.high)))
    over = worst > INT32_MAX
    if not over.any():
        return bias, bounds
    bias, low, high = bias.copy(), bounds.low.copy(), bounds.high.copy()
    saturating = 4.0 * (INT8_MAX - INT8_MIN)  # LSB: beyond any zero point, with room for rounding
    for c in np.flatnonzero(over):
        room = INT32_MAX - 2 * int(spread[c])
        # As small as still saturates: the other channels keep more bits of their products.
        needed = 2.0 * saturating / float(multipliers[c]) + 2 * int(spread[c])
        target = int(np.sign(bias[c])) * min(room, math.ceil(min(needed, INT32_MAX)))
        shift = target - int(bias[c])
        new_low, new_high = int(low[c]) + shift, int(high[c]) + shift
        nearest = min(abs(new_low), abs(new_high)) if new_low * new_high > 0 else 0
        if room <= 0 or nearest * multipliers[c] < saturating:
            raise LoweringError(
                node,
                "accumulator_fits_int32",
                f"output channel {c} can reach an accumulator of {int(worst[c])}, beyond int32; "
                "quantise the model with a smaller bias",
            )
        bias[c], low[c], high[c] = target, new_low, new_high
    return bias, AccumulatorBounds(low, high)


def _per_tensor_stages(
    node: int, multipliers: npt.NDArray[np.float64], bounds: AccumulatorBounds
) -> Stages:
    """C and D are registers: of all 15-bit pairs, the one with which fewest results differ."""
    q, exponent = quantize_multiplier(float(multipliers[0]))
    magnitude = int(bounds.magnitude.max())
    if q == 0:
        q, exponent = (
            1 << 30,
            -31,
        )  # TFLite's result is 0 whatever the input; so is this: |acc| * 2^-32 < 1/2
    # acc * c needs magnitude bits + 15; keep 30 of them, so that rounding cannot reach 2^31.
    bs_shift = max(0, magnitude.bit_length() + MULTIPLIER_BITS - 30)
    factors = choose_factors(q, exponent, bs_shift, magnitude)
    if factors is None or magnitude * float(multipliers[0]) > INT32_MAX:
        raise LoweringError(
            node,
            "multiplier_in_range",
            f"the multiplier {float(multipliers[0]):.6g} with an accumulator of {magnitude} "
            "does not fit the DPU's shifts",
        )
    unit_bits = max(-exponent, 0)
    bn_shift = factors.bits - max(exponent, 0) - bs_shift
    range_lsb = min(magnitude * float(multipliers[0]), 2.0 * (INT8_MAX - INT8_MIN))
    # Besides the product's error, BS drops half a unit of 2^bs_shift.
    dropped = 0.5 * factors.second * 2.0 ** (-bn_shift - unit_bits) if factors.drops_bits else 0.0
    error_lsb = range_lsb * factors.error + dropped
    if error_lsb >= 0.5:
        raise LoweringError(
            node,
            "error_below_half_lsb",
            f"a result could be off by {error_lsb:.3g} LSB before rounding: the multiplier "
            f"{float(multipliers[0]):.6g} leaves too few bits for an accumulator of {magnitude}",
        )
    channels = len(multipliers)
    return Stages(
        multipliers=np.full(channels, factors.first, np.int64),
        bs_shift=bs_shift,
        bn_operands=None,
        bn_multiplier=factors.second,
        bn_shift=bn_shift,
        unit_bits=unit_bits,
        error_lsb=error_lsb,
    )
