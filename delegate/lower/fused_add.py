"""A convolution that adds a second feature map in the same task, as exactly as two nodes would.

TFLite rounds and clamps the convolution's output before it adds. Skipping that step would be closer
to the real numbers and further from TFLite, by up to one LSB of the intermediate; so the step is
made in the DPU:

    BS       t = clamp(round(acc * C >> s1))  in LSBs of the convolution's output, counted from low
    BN       v = (t + low) * Mt               Mt is the operand multiplier of the addition
    EW       v + (e - ze) * Me                the other operand
    OUT_CVT  scale, round half away, zero point of the sum

Legal only where this is exact enough: one output LSB of the convolution may not weigh more than one
of the sum, and the expected share of sums that change because BS rounds once where TFLite rounds
twice must be small. It cannot be none: two roundings need a shift each, BS and BN, and then no
stage is left to multiply by Mt before EW adds; a single rounding steps at evenly spaced
accumulators, and TFLite's two at ones that are 2^-r LSB further apart around zero than elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.graph import Activation
from delegate.lower.add_scales import AddScales, choose_add_scales, sum_clamp
from delegate.lower.multipliers import MULTIPLIER_BITS, quantize_multiplier
from delegate.lower.requantize import activation_range
from delegate.lower.stages import INT8_MAX, INT8_MIN, INT32_MAX, AccumulatorBounds, Int64Array
from delegate.lower.tensors import DeviceTensor

# A uniformly distributed int8 output is on average this far from its middle: what a relative error
# of the multiplier is weighed with.
MEAN_OUTPUT_LSB = (INT8_MAX - INT8_MIN) / 4.0
# Share of the sums that may differ, by estimate: what the numeric contract leaves per operator. An
# intermediate that is one LSB off moves the sum by its weight, so the sum's LSB changes that often.
MAX_EXPECTED_MISMATCH = 0.005


@dataclass(frozen=True, slots=True)
class FusedAdd:
    """The addition folded into a convolution: its other operand, result, and activation.

    ``intermediate_scale``/``intermediate_zero_point``: the convolution's own output, which never
    reaches memory.
    """

    node: int
    operand: DeviceTensor
    intermediate_scale: float
    intermediate_zero_point: int
    output_scale: float
    output_zero_point: int
    activation: Activation


@dataclass(frozen=True, slots=True, eq=False)
class FusedRequantization:
    """Operands and settings of all stages; see the module's text for the meaning."""

    bias: Int64Array
    multipliers: Int64Array
    bs_shift: int
    relux_max: int
    low: int
    scales: AddScales
    relu: bool
    sum_relux_max: int | None


def fuse_requantization(
    fused: FusedAdd,
    multipliers: npt.NDArray[np.float64],
    bias: Int64Array,
    bounds: AccumulatorBounds,
    activation: Activation,
) -> FusedRequantization | None:
    """Chooses the stages, or None where the fusion would not be exact enough.

    ``multipliers``: of the convolution's own requantisation. ``activation``: the convolution's.
    Raises LoweringError as ``choose_add_scales`` does.
    """
    first = fused.intermediate_scale / fused.output_scale
    if first > 1.0:
        return None
    low, high = activation_range(
        activation, fused.intermediate_scale, fused.intermediate_zero_point
    )
    low, high = low - fused.intermediate_zero_point, high - fused.intermediate_zero_point
    largest = float(multipliers.max())
    bs_shift = MULTIPLIER_BITS - math.frexp(largest)[1]
    if not 0 <= bs_shift <= 2 * MULTIPLIER_BITS + 1 or float(multipliers.min()) <= 0.0:
        return None
    power = 2.0**bs_shift
    c = np.minimum(np.rint(multipliers * power), (1 << MULTIPLIER_BITS) - 1).astype(np.int64)
    if int(c.min()) <= 0:
        return None
    # The lower clamp becomes zero; half an accumulator step of error, i.e. half a multiplier in
    # LSBs.
    moved = np.rint(-low / multipliers).astype(np.int64)
    bias = bias + moved
    reach = np.maximum(np.abs(bounds.low + moved), np.abs(bounds.high + moved))
    if int(np.maximum(reach, np.abs(bias)).max()) > INT32_MAX // 2:
        return None
    slope = np.abs(c / power - multipliers) / multipliers
    right = np.array([max(-quantize_multiplier(float(m))[1], 0) for m in multipliers])
    mismatch = slope * MEAN_OUTPUT_LSB + np.ldexp(0.5, -right)
    if low != 0:
        mismatch = mismatch + np.abs(moved * multipliers + low)
    if float(mismatch.mean()) * first > MAX_EXPECTED_MISMATCH:
        return None
    scales = choose_add_scales(fused.node, first, fused.operand.scale / fused.output_scale)
    relu, sum_relux_max = sum_clamp(
        scales, fused.activation, fused.output_scale, fused.output_zero_point
    )
    return FusedRequantization(
        bias=bias,
        multipliers=c,
        bs_shift=bs_shift,
        relux_max=high - low,
        low=low,
        scales=scales,
        relu=relu,
        sum_relux_max=sum_relux_max,
    )
