"""Grouped convolutions and depth multipliers as dense convolutions.

The MAC array multiplies every kernel with all input channels, or, depthwise, one channel with one
kernel. Groups in between become dense kernels whose foreign channels hold the weight zero point,
which contributes nothing: exact, at the price of the multiplications that a dense layer makes.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def widen_groups(
    weights: npt.NDArray[Number], input_channels: int, zero_point: int
) -> npt.NDArray[Number]:
    """OHWI weights of equal groups, in order, to OHWI weights over all input channels."""
    outputs, kh, kw, covered = weights.shape
    groups = input_channels // covered
    if groups == 1:
        return weights
    wide = np.full((groups, outputs // groups, kh, kw, groups, covered), zero_point, weights.dtype)
    split = weights.reshape(groups, outputs // groups, kh, kw, covered)
    for group in range(groups):
        wide[group, :, :, :, group] = split[group]
    return wide.reshape(outputs, kh, kw, input_channels)


def widen_multiplier(
    weights: npt.NDArray[Number], input_channels: int, zero_point: int
) -> npt.NDArray[Number]:
    """HWO weights of a depthwise convolution with depth multiplier O / input channels, to OHWI.

    TFLite's output channel c * multiplier + k reads input channel c: as many groups as channels.
    """
    return widen_groups(weights.transpose(2, 0, 1)[..., None], input_channels, zero_point)
