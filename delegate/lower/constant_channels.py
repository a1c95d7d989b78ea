"""Channels that give one result for every input, as biases without weights.

A quantiser gives a channel whose weights vanish a tiny scale, and its bias then saturates at the
ends of int32. TensorFlow Lite's sum wraps there, but neither end is worth a step.

Training and converters leave channels whose scale is a millionth of the others'. Where one
multiplier of 15 bits per channel has to tell all of them, with a shift that they share, such a
channel would have no bits left; its result, which no input changes, needs none of its own.

Kernels whose taps lie next to one another, where no task is known whose taps lie apart.

Taps that are put between count as zero: sums are the same. A depthwise task takes a cycle for each
tap of 64 channels: with more than 64 the CPU is faster, which takes about 1 ns a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import target_of_sums
from delegate.lower.numerics.pipeline import INT32_MAX, INT32_MIN, Int64Array
from delegate.lower.numerics.requantize import leaves_int32
from delegate.lower.numerics.tflite import wraps
from delegate.lower.task import Pair

_LEAST_RATIO: Final = 2.0**-22
"""The least ratio of scales with which the bias of any result fits int32."""
_LARGEST_RATIO: Final = 0.5
"""Up to which the nearest bias gives the very result: it is a quarter of a step off at most."""


_MOST_PRODUCT: Final = 255 * 255
"""The largest product of two numbers of 8 bits without their zero points."""


def with_settled_channels(conv: Convolution) -> Convolution:
    """``conv`` with the channels as biases in which TensorFlow Lite's int32 may wrap, but that give
    one result for every number of int32. As it is where one scale stands for all channels.
    """
    terms = conv.weights.size // max(conv.bias.size, 1)
    is_far = np.abs(conv.bias).max(initial=0) + terms * _MOST_PRODUCT > INT32_MAX
    if not (conv.per_channel and conv.element is Element.INT8 and is_far):
        return conv
    target = target_of_sums(conv)
    over = wraps(target.low, target.exponent) | wraps(target.high, target.exponent)
    least, most = (
        np.clip(target.results(np.full_like(conv.bias, end)) + target.zero_point, *target.outputs)
        - target.zero_point
        for end in (INT32_MIN, INT32_MAX)
    )
    # Kernels shift left before they multiply, and wrap there.
    settled = over & (target.exponent <= 0) & (least == most)
    return with_results(conv, settled, least) if settled.any() else conv


def with_constant_channels(conv: Convolution) -> Convolution:
    """``conv`` with its constant channels as biases of the largest scale that others have. As it
    is where one scale stands for all channels, and channels where TensorFlow Lite's int32 could
    wrap.
    """
    if not conv.per_channel or conv.element is not Element.INT8:
        return conv
    target = target_of_sums(conv)
    low, high, zero_point = target.low, target.high, target.zero_point
    least, most = (
        np.clip(target.results(end) + zero_point, *target.outputs) - zero_point
        for end in (low, high)
    )
    constant = (least == most) & ~leaves_int32(target)
    return with_results(conv, constant, least) if constant.any() else conv


def with_results(
    conv: Convolution, channels: npt.NDArray[np.bool_], results: Int64Array
) -> Convolution:
    """``conv``, per channel, whose ``channels`` give ``results``, from the zero point, for every
    input.
    """
    ratio = float(conv.ratios[~channels].max(initial=_LEAST_RATIO))
    ratio = min(ratio, _LARGEST_RATIO)
    weights, bias, ratios = conv.weights.copy(), conv.bias.copy(), conv.ratios.copy()
    weights[(..., channels) if conv.is_depthwise else channels] = conv.weight_zero_point
    bias[channels] = np.rint(results[channels] / ratio).astype(np.int64)
    ratios[channels] = ratio
    return replace(conv, weights=weights, bias=bias, ratios=ratios)


_MOST_TAPS: Final = 64


def close_size(chip: Chip, kernel: Pair, dilations: Pair, *, is_depthwise: bool) -> Pair | None:
    """Return the sides of a kernel with the taps in between; None: it would be too large."""
    rows, columns = (
        (count - 1) * apart + 1 for count, apart in zip(kernel, dilations, strict=True)
    )
    if max(rows, columns) > chip.limits.kernel_size:
        return None
    return None if is_depthwise and rows * columns > _MOST_TAPS else (rows, columns)


def with_known_taps(conv: Convolution) -> Convolution:
    """Return ``conv`` with zeros between taps, where dilations such as its are not known."""
    chip, (kh, kw) = conv.chip, conv.kernel
    apart = tuple(d if k > 1 else 1 for d, k in zip(conv.dilations, (kh, kw), strict=True))
    if apart == (1, 1) or chip.evidence is None:
        return conv
    if chip.evidence.knows_dilations(conv.kind, conv.dilations, conv.element):
        return conv
    size = close_size(chip, (kh, kw), conv.dilations, is_depthwise=conv.is_depthwise)
    if size is None:
        return conv
    first = 0 if conv.is_depthwise else 1
    shape = (*conv.weights.shape[:first], *size, *conv.weights.shape[first + 2 :])
    weights = np.full(shape, conv.weight_zero_point, conv.weights.dtype)
    taps = tuple(slice(None, None, step) for step in conv.dilations)
    weights[(slice(None),) * first + taps] = conv.weights
    return replace(conv, weights=weights, dilations=(1, 1))
