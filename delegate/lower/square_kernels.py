"""Kernels of as many rows as columns, for a chip of which only such programs are known.

Taps that are added, behind the others, count as zero: sums are the same. What keeps its sides
unequal is refused later.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from delegate.lower.resolved import Convolution


def square_kernel(conv: Convolution) -> Convolution:
    """``conv`` with equal sides, where taps alone make them so."""
    if not conv.chip.forms.equal_sides:
        return conv
    first = 0 if conv.is_depthwise else 1
    sides = conv.weights.shape[first : first + 2]
    output = conv.output_view
    strides = conv.strides
    if output.height == 1:  # it leads nowhere
        strides = (strides[1], strides[1])
    elif output.width == 1:
        strides = (strides[0], strides[0])
    # So does the dilation of a single tap.
    pairs = zip(sides, conv.dilations, strict=True)
    steps = [dilation if side > 1 else 0 for side, dilation in pairs]
    dilation = gcd(*steps) or 1
    apart = [step // dilation or 1 for step in steps]
    side = max((count - 1) * step + 1 for count, step in zip(sides, apart, strict=True))
    if side > conv.chip.limits.kernel_size:
        return conv
    weights = conv.weights
    if sides != (side, side):
        shape = (*weights.shape[:first], side, side, *weights.shape[first + 2 :])
        weights = np.full(shape, conv.weight_zero_point, weights.dtype)
        rows, columns = (
            slice(0, (count - 1) * step + 1, step) for count, step in zip(sides, apart, strict=True)
        )
        weights[(slice(None),) * first + (rows, columns)] = conv.weights
    return replace(conv, weights=weights, strides=strides, dilations=(dilation, dilation))
