"""Maxima and minima on RK3576: sums that saturate."""

from __future__ import annotations

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding, Quantization
from rk3588_conformance.builder import ModelBuilder
from tests.chip.rk3576_results import FOR_RK3576
from tests.chip.test_second_chip import simulate

SAME, VALID = Padding.SAME, Padding.VALID


@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_maxima_and_minima_are_those_of_all_pairs(op, dtype, tmp_path):
    """Sums that saturate give the larger, or smaller, of any two values."""
    builder = ModelBuilder("pairs")
    same = Quantization((0.05,), (3,))
    x, y = (builder.input(name, (1, 64, 64, 16), dtype, same) for name in "xy")
    z = builder.result(op, (x, y), "z", (1, 64, 64, 16), same, dtype=dtype)
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
