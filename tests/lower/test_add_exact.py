"""Additions on all pairs of operands, against TFLite's arithmetic written here again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from delegate.lower.add_exact import exact_add_scales
from delegate.lower.add_scales import choose_add_scales
from tests.lower.test_requantize import tflite_scaled

VALUES = range(-128, 128)


def tflite(scales: tuple[float, float, float], zero_points: tuple[int, int, int]) -> np.ndarray:
    twice = 2 * max(scales[:2])
    parts = [
        [tflite_scaled((q - zero) << 20, scale / twice) for q in VALUES]
        for scale, zero in zip(scales[:2], zero_points[:2], strict=True)
    ]
    output = twice / (2**20 * scales[2])
    sums = [[tflite_scaled(a + b, output) + zero_points[2] for b in parts[1]] for a in parts[0]]
    return np.clip(np.array(sums), -128, 127)


def device(chosen, zero_points) -> np.ndarray:
    values = np.arange(-128, 128, dtype=np.int64)
    a, b = values - zero_points[0], values - zero_points[1]
    total = a[:, np.newaxis] * chosen.first + b * chosen.second
    exact = total * chosen.scale
    rounded = np.sign(exact) * ((np.abs(exact) + 2 ** (chosen.shift - 1)) // 2**chosen.shift)
    return np.clip(rounded + zero_points[2], -128, 127)


@pytest.mark.parametrize(
    ("scales", "zero_points"),
    [
        ((0.5, 0.25, 0.75), (3, -5, 7)),
        ((0.1, 0.1, 0.2), (0, 0, 0)),
        ((0.0234375, 0.01171875, 0.03515625), (-128, 127, 1)),
        ((0.0193, 0.0411, 0.0437), (5, -77, -128)),
        ((0.9, 0.0009, 0.7), (-1, 2, -3)),
    ],
)
def test_every_pair_of_operands(scales, zero_points):
    scales = tuple(float(np.float32(scale)) for scale in scales)
    chosen = exact_add_scales(0, scales, zero_points)
    theirs = tflite(scales, zero_points)
    different = np.count_nonzero(device(chosen, zero_points) != theirs)
    assert different <= 1  # of 65,536
    nearest = choose_add_scales(0, scales[0] / scales[2], scales[1] / scales[2])
    assert different <= np.count_nonzero(device(nearest, zero_points) != theirs)
    assert math.isfinite(chosen.error_lsb)
    assert chosen.error_lsb < 0.5
