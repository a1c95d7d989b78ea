"""Proofs of what CNA and CORE do."""

from __future__ import annotations

from typing import Final

import numpy as np

from delegate.chip.element import ATOM_BYTES
from delegate.evidence.arithmetic import column, dense, depthwise, padded
from delegate.evidence.bench import AS_IT_IS, Bench, Describe, cube, small_kernels
from delegate.lower.task import OutConvert

_QUARTER: Final = OutConvert(1, 2, 0)
"""Brings sums under several int8 back to 8 bits, with ties among them."""
_PAD: Final = -9


def convolution(width: int, rows: int) -> Describe:
    """Two groups of input channels, two groups of kernels of so many ``rows``, a border on three
    sides, H != W, every input value; OUT_CVT with a scale of 15 bits, ties to even, and an offset.
    """

    def describe(b: Bench) -> None:
        x, kernels = b.values(48, 4, width), small_kernels(64, rows, 3, 48)
        bias = np.arange(64) * 29 - 900
        sums = dense(padded(x, 1, 1, 0, 1, _PAD), kernels) + column(bias)
        for out in (_QUARTER, OutConvert(16_385, 16, -7), OutConvert(24_576, 17, 5)):
            b.conv(x, kernels, sums, out=out, bias=bias, pads=(1, 1, _PAD))

    return describe


def _summand(b: Bench) -> None:
    """Summands at both ends of what OUT_CVT brings back, and of 32 bits."""
    x, kernels = b.values(16, 4, 5), small_kernels(32, 1, 1, 16)
    bias = np.array([1, -1, 127, -128, 255, 256, -257, 65_535, -65_536, 1 << 24, -(1 << 30)])
    bias = np.resize(bias, 32)
    for out in (AS_IT_IS, OutConvert(1, 23, 0)):
        b.conv(x, kernels, dense(x, kernels) + column(bias), out=out, bias=bias)


def by_channel(*zero_points: int) -> Describe:
    """Depthwise. ``zero_points``: of the weights, where programs hold one beside each."""

    def describe(b: Bench) -> None:
        x = b.values(64, 4, 5)
        kernels = (np.arange(3 * 3 * 64).reshape(3, 3, 64) * 11 % 7) - 3
        for zero in zero_points:
            sums = depthwise(padded(x, 1, 1, 1, 1, _PAD), kernels - zero)
            b.conv(
                x, kernels, sums, out=OutConvert(1, 4, 0), depthwise=True, zero_point=zero,
                pads=(1, 1, _PAD),
            )  # fmt: skip

    return describe


def dilated(rows: int, columns: int) -> Describe:
    def describe(b: Bench) -> None:
        x, kernels = b.values(16, 7, 9), small_kernels(32, 3, 3, 16)
        b.conv(
            x, kernels, dense(x, kernels, (rows, columns)), out=_QUARTER, dilation=(rows, columns)
        )

    return describe


def _transposed(b: Bench) -> None:
    """Pixels two apart, and between them the value that also pads."""
    x, kernels = b.values(16, 4, 5), small_kernels(32, 2, 2, 16)
    for value in (0, _PAD):
        spread = np.full((16, 7, 9), value, np.int64)
        spread[:, ::2, ::2] = x
        b.conv(x, kernels, dense(spread, kernels), out=_QUARTER, spread=2, pads=(0, 0, value))


def _window(b: Bench) -> None:
    """Columns 3 to 7 of 11."""
    whole_map, first, width = b.values(32, 5, 11), 3, 5
    x = whole_map[:, :, first : first + width]
    kernels = small_kernels(32, 3, 3, 32)
    source = b.constants.add(cube(whole_map)).moved(first * ATOM_BYTES)
    b.conv(
        x, kernels, dense(x, kernels), out=_QUARTER, source=source, row_pixels=11, surface_pixels=55
    )


def _kept_weights(b: Bench) -> None:
    """Three tasks with the kernels of the first, behind one with other kernels."""
    kernels = small_kernels(32, 3, 3, 16)
    b.plain()
    for number in range(3):
        x = b.values(16, 5, 4, seed=number)
        b.conv(x, kernels, dense(x, kernels), out=_QUARTER, keeps_weights=number > 0)


CONVOLUTION: Final[dict[str, Describe]] = {
    "convolution": convolution(width=5, rows=2),
    "summand_per_channel": _summand,
    "depthwise_convolution": by_channel(0),
    "dilated_columns": dilated(1, 2),
    "dilated_rows": dilated(2, 1),
    "transposed_convolution": _transposed,
    "window_of_columns": _window,
    "kept_weights": _kept_weights,
}
"""By feature."""
