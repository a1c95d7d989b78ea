"""What the stages of the hardware compute, in whole numbers, for the expected bytes of proofs.

Written from docs/hardware.md for this purpose alone: nothing here is used by, or uses, the compiler
or the simulator, so that the three can disagree. Arrays are [channels, height, width] of int64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

_INT8 = np.iinfo(np.int8)


def whole(values: npt.ArrayLike) -> Whole:
    """``values`` as int64."""
    return np.asarray(values, np.int64)


def column(values: npt.ArrayLike) -> Whole:
    """A value per channel, to meet [channels, height, width]."""
    return whole(values).reshape(-1, 1, 1)


def half_even(values: Whole, shift: int) -> Whole:
    """``values / 2**shift``, ties to the even neighbour."""
    if shift == 0:
        return values
    below = values >> shift
    rest, half = values - (below << shift), 1 << (shift - 1)
    up = (rest > half) | ((rest == half) & (below % 2 == 1))
    return whole(below + up)


def half_away(values: Whole, shift: int) -> Whole:
    """``values / 2**shift``, ties away from zero."""
    if shift == 0:
        return values
    return whole(np.sign(values) * ((np.abs(values) + (1 << (shift - 1))) >> shift))


def by_sign(values: Whole, shift: int, shift_of_negatives: int) -> Whole:
    """``half_even`` with another shift below 0."""
    return np.where(values < 0, half_even(values, shift_of_negatives), half_even(values, shift))


def int8(values: Whole) -> npt.NDArray[np.int8]:
    """Saturated to 8 bits, as the last step of a task."""
    return np.clip(values, _INT8.min, _INT8.max).astype(np.int8)


def padded(x: Whole, top: int, left: int, bottom: int, right: int, value: int) -> Whole:
    """``x`` with a border of ``value``."""
    return np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=value)


def dense(x: Whole, kernels: Whole, dilation: tuple[int, int] = (1, 1)) -> Whole:
    """Sums of products under the window of [outputs, height, width, inputs] ``kernels``, stride 1,
    only where the window lies within ``x``.
    """
    total = whole(0)
    for row, col, part in _taps(x, kernels.shape[1:3], dilation):
        total = total + whole(np.einsum("ihw,oi->ohw", part, kernels[:, row, col, :]))
    return total


def depthwise(x: Whole, kernels: Whole) -> Whole:
    """As ``dense``, with one kernel [height, width, channels] per channel."""
    total = whole(0)
    for row, col, part in _taps(x, kernels.shape[:2], (1, 1)):
        total = total + part * column(kernels[row, col])
    return total


def _taps(
    x: Whole, size: tuple[int, ...], dilation: tuple[int, int]
) -> Iterator[tuple[int, int, Whole]]:
    """Every place of a kernel, and the inputs that meet it at all places of the result."""
    height = x.shape[1] - (size[0] - 1) * dilation[0]
    width = x.shape[2] - (size[1] - 1) * dilation[1]
    for row in range(size[0]):
        for col in range(size[1]):
            top, left = row * dilation[0], col * dilation[1]
            yield row, col, x[:, top : top + height, left : left + width]
