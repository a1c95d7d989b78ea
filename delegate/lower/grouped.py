"""Grouped convolutions and depth multipliers as dense convolutions.

The MAC array multiplies every kernel with all input channels, or, depthwise, one channel with one
kernel. Groups in between become dense kernels whose foreign channels hold the weight zero point,
which contributes nothing: exact, at the price of the multiplications that a dense layer makes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int8Array = npt.NDArray[np.int8]


def widen_groups(weights: Int8Array, input_channels: int, zero_point: int) -> Int8Array:
    """OHWI weights of equal groups, in order, to OHWI weights over all input channels."""
    outputs, kh, kw, covered = weights.shape
    groups = input_channels // covered
    if groups == 1:
        return weights
    wide = np.full((groups, outputs // groups, kh, kw, groups, covered), zero_point, np.int8)
    split = weights.reshape(groups, outputs // groups, kh, kw, covered)
    for group in range(groups):
        wide[group, :, :, :, group] = split[group]
    return wide.reshape(outputs, kh, kw, input_channels)


def widen_multiplier(weights: Int8Array, input_channels: int, zero_point: int) -> Int8Array:
    """HWO weights of a depthwise convolution with depth multiplier O / input channels, to OHWI.

    TFLite's output channel c * multiplier + k reads input channel c: as many groups as channels.
    """
    return widen_groups(weights.transpose(2, 0, 1)[..., None], input_channels, zero_point)
