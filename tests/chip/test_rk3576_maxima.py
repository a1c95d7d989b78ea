"""Maxima and minima on RK3576: sums that saturate, of pairs and of windows."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding, Quantization
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.pooling import pool
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.chip.test_second_chip import simulate

SAME, VALID = Padding.SAME, Padding.VALID


@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_maxima_and_minima_are_those_of_all_pairs(op, dtype, tmp_path):
    """Sums that saturate give the larger, or smaller, of any two values."""
    builder = ModelBuilder("pairs")
    same = Quantization((0.05,), (3,))
    x, y = (builder.input(name, (1, 64, 64, 16), dtype, same) for name in "xy")
    z = builder.tensor("z", (1, 64, 64, 16), dtype, same)
    builder.operator(op, (x, y), (z,))
    builder.output(z)
    path = tmp_path / "model.tflite"
    path.write_bytes(builder.build())
    (compiled,) = compile_model(path, FOR_RK3576).partitions
    kind = np.dtype(dtype.name.lower())
    first, second = (
        half.astype(np.uint8).view(kind).reshape(1, 64, 64, 16)
        for half in np.divmod(np.arange(1 << 16), 256)
    )
    (found,) = simulate(compiled.program, (first, second), RK3576)
    expected = {"MAXIMUM": np.maximum, "MINIMUM": np.minimum}[op](first, second)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("size", [(20, 20), (7, 7), (9, 14), (1, 1), (13, 6)])
@pytest.mark.parametrize("channels", [3, 16, 48, 80, 128])
def test_maxima_under_windows(size, channels, tmp_path):
    """Windows of YOLO's pyramids and of classifiers, whose rows and surfaces end in the middle of
    shifted maps.
    """
    for window, stride, padding in ((5, 1, SAME), (2, 2, VALID), (3, 2, SAME)):
        if padding is VALID and min(size) < window:
            continue
        builder = ModelBuilder("pool")
        given = Quantization((0.05,), (3,))
        x = builder.input("x", (1, *size, channels), DType.INT8, given)
        sides = (window, window, stride, stride)
        builder.output(pool(builder, "MAX_POOL_2D", x, *sides, padding))
        check_results(builder.build(), tmp_path, most_off=0)
