"""The DPU stages of tasks in fp16: what BS, BN and EW do to numbers, which are fp32 in there.

Bounds how far results in fp16 are from exact ones, by how the hardware rounds.

The array's products are exact; sums of 32 are rounded to fp32 and added in fp32, then the bias;
OUT_CVT rounds to fp16. With u = 2^-24, each of n roundings to fp32 moves a sum of terms by at most
u times the magnitudes in it, so all of them by (1 + u)^n - 1 times the sum of all magnitudes; a
clamp moves nothing apart; the last rounding adds 2^-11 of the result, or 2^-25 among subnormal
numbers. Weights that are no fp16 add what their rounding changes, times the inputs.

This holds for results that fp16 can hold. A result beyond 65504, or a sum of infinities, becomes
what IEEE 754 says: an infinity or NaN.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.lower.conv_spec import Convolution, operand_channels
from delegate.lower.half.rounding import shares
from delegate.lower.lowered import HalfBound
from delegate.lower.operation import ConstantPool
from delegate.lower.task import BnStage, BsStage, Source, Stages, TaskKind
from delegate.lower.weights import padded_operands
from delegate.model.graph import Activation

RELU6_MOST = 6.0

HALF_MOST = float(np.finfo(np.float16).max)
"""The largest fp16."""


_FRACTION = 1 << 10
"""Numbers of fp16 from 1 to 2."""


def float_bits(value: float) -> int:
    """Return the bits of ``value`` as fp32, as an int32."""
    return int(np.float32(value).view(np.int32))


def half_bits(value: float) -> int:
    """Return the bits of ``value`` as fp16, as an int16."""
    return int(np.float16(value).view(np.int16))


def factors_of(count: int) -> tuple[float, float]:
    """Return two fp16 whose product is nearest to one over ``count``."""
    first = 1 + np.arange(_FRACTION) / _FRACTION
    second = (1 / (count * first)).astype(np.float16).astype(np.float64)
    best = int(np.abs(first * second * count - 1).argmin())
    return float(first[best]), float(second[best])


def half_clamp(activation: Activation) -> BnStage:
    """Return BN as the fused activation; what RELU leaves ends where fp16 does."""
    if activation is Activation.NONE:
        return BnStage()
    most = RELU6_MOST if activation is Activation.RELU6 else HALF_MOST
    return BnStage(relu=True, relux_max=float_bits(most))


def half_conv_stages(conv: Convolution, constants: ConstantPool) -> Stages:
    """Return the stages: BS adds the bias in fp32, BN clamps. OUT_CVT rounds to the nearest fp16,
    ties to even. Depthwise convolutions whose pixels lie apart are not known with a bias.
    """
    bn = half_clamp(conv.activation)
    if conv.kind is TaskKind.SPREAD and not conv.bias.any():
        return Stages(bn=bn)
    bias = padded_operands(conv.bias, operand_channels(conv), "<f4")
    return Stages(BsStage(alu=Source.MEMORY, operands=constants.add(bias.tobytes())), bn)


_FP32_ROUNDING: Final = 2.0**-24
_FP16_ROUNDING: Final = 2.0**-11
_FP16_SUBNORMAL: Final = 2.0**-25


ROUNDED: Final = HalfBound(
    (1 + _FP32_ROUNDING) * (1 + _FP16_ROUNDING) - 1, absolute=_FP16_SUBNORMAL
)
"""The bound of one operation: its own rounding and the result's."""


def moved_bound(exact: npt.NDArray[np.generic]) -> HalfBound:
    """Return the bound of a product with one of ``exact``, which is rounded to fp16."""
    numbers = exact.astype(np.float64)
    moved = float(np.abs(numbers - numbers.astype(np.float16)).max())
    return replace(ROUNDED, per_input=moved * (1 + ROUNDED.relative))


def moved_and_back_bound(number: float) -> HalfBound:
    """Return the bound of a value from which ``number`` is taken before it is added again."""
    twice = (1 + _FP32_ROUNDING) ** 2
    relative = twice * (1 + _FP16_ROUNDING) - 1
    moved = (twice - 1) * abs(number) * (1 + _FP16_ROUNDING)
    return HalfBound(relative, absolute=moved + _FP16_SUBNORMAL)


def hard_swish_bound(factor: float) -> HalfBound:
    """Return the bound of a sum, two multiplications and a product, the former by ``factor``, which
    is nearly 1.
    """
    relative = (1 + _FP32_ROUNDING) ** 4 * (1 + abs(factor - 1)) * (1 + _FP16_ROUNDING) - 1
    return HalfBound(relative, absolute=_FP16_SUBNORMAL)


def mean_bound(*convs: Convolution, counts: Collection[int] = ()) -> HalfBound:
    """Return the bound of a mean: sums of ``shares`` under a window, of means of that kind before.
    The terms are the means'; what becomes of a subnormal number before is at most its rounding
    again. ``counts``: numbers of pixels within the image, where they differ.
    """
    relative = 1.0
    for conv in convs:
        taps = int(np.prod(conv.weights.shape[:2]))
        off = max(float(np.abs(shares(n).astype(float) * n - 1).max()) for n in counts or (taps,))
        sums = (1 + _FP32_ROUNDING) ** (2 * taps + 1) * (1 + off)
        relative *= sums * (1 + _FP16_ROUNDING)
    return HalfBound(relative - 1, 0.0, _FP16_SUBNORMAL * len(convs) * relative)


def sum_bound(groups: int) -> HalfBound:
    """Return the bound of a sum of ``groups`` of products: a rounding of each, one of its addition
    to the sum, one of the bias.
    """
    sums = (1 + _FP32_ROUNDING) ** (2 * groups + 1)
    return HalfBound(sums * (1 + _FP16_ROUNDING) - 1, 0.0, _FP16_SUBNORMAL)


def convolution_bound(conv: Convolution, weights: npt.NDArray[np.generic]) -> HalfBound:
    """Return the bound of a convolution in fp16, whose model has ``weights`` (the layout is that of
    ``conv``).
    """
    taps, channels = int(np.prod(conv.weights.shape[-3:-1])), conv.weights.shape[-1]
    groups = taps
    if not conv.is_depthwise:
        groups *= -(-channels // conv.chip.groups.input_lanes)
    found = sum_bound(groups)
    relative = found.relative
    if weights.dtype == np.float16:
        return found
    changed = np.abs(weights.astype(np.float64) - conv.weights)
    axes = (0, 1) if conv.is_depthwise else (1, 2, 3)
    moved = float(changed.sum(axis=axes).max()) * (1 + relative)
    return HalfBound(relative, moved, _FP16_SUBNORMAL)
