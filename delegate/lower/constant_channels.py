"""Channels that give one result for every input, as biases without weights.

Training and converters leave channels whose scale is a millionth of the others'. Where one
multiplier of 15 bits per channel has to tell all of them, with a shift that they share, such a
channel would have no bits left; its result, which no input changes, needs none of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.lower.conv_stages import target_of_sums, term_sums_of
from delegate.lower.numerics.pipeline import INT32_MAX, Int64Array
from delegate.lower.numerics.tflite import wraps
from delegate.lower.resolved import Convolution

_LEAST_RATIO: Final = 2.0**-22
"""With which the bias of any result fits int32."""
_LARGEST_RATIO: Final = 0.5
"""Up to which the nearest bias gives the very result: it is a quarter of a step off at most."""


def with_constant_channels(conv: Convolution) -> Convolution:
    """``conv`` with its constant channels as biases of the largest scale that others have. As it
    is where one scale stands for all channels, and channels where TensorFlow Lite's int32 could
    wrap.
    """
    if not conv.per_channel or conv.element is not Element.INT8:
        return conv
    target = target_of_sums(conv, term_sums_of(conv))
    low, high, zero_point = target.low, target.high, target.zero_point
    over = wraps(low, target.exponent) | wraps(high, target.exponent) | (high - low > INT32_MAX)
    least, most = (
        np.clip(target.results(end) + zero_point, *target.outputs) - zero_point
        for end in (low, high)
    )
    constant = (least == most) & ~over
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
