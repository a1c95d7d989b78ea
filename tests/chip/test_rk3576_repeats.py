"""Pixels and group padding that RK3576 writes in forms it is known to have: results equal to the
definition, on both paths of the simulator.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.layers import Window, conv
from rk3588_conformance.builder.moves import concatenation, resize
from tests.chip.rk3576_results import FOR_RK3576, check_results

SAME = Quantization((0.05,), (3,))


def _compiled(model: bytes):
    result = compile_model(model, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    return compiled


def _repeating(size, channels, factors, dtype=DType.INT8):
    builder = ModelBuilder("repeats")
    x = builder.input("x", (1, *size, channels), dtype, SAME)
    sides = (side * factor for side, factor in zip(size, factors, strict=True))
    name = "RESIZE_NEAREST_NEIGHBOR"
    return builder.build(resize(builder, name, x, *sides, ResizeNearestOptions()))


def test_repeating_takes_few_tasks():
    """Rows of all surfaces at a time, a task for each of the two rows that one becomes."""
    assert _compiled(_repeating((20, 20), 256, (2, 2))).tasks == 2


@pytest.mark.parametrize("parts", [(16, 16, 16), (64, 16), (32, 96, 16), (16, 3)])
@pytest.mark.parametrize("size", [(9, 14), (1, 5)])
def test_padding_behind_the_last_part_is_written(parts, size, tmp_path):
    """A function writes no surface beyond its own; the convolution fetches four at a time."""
    builder = ModelBuilder("padding")
    computed = []
    for number, channels in enumerate(parts):
        x = builder.input(f"x{number}", (1, *size, channels), DType.INT8, SAME)
        computed.append(function(builder, "RELU", (x,), SAME))
    whole = concatenation(builder, computed, 3)
    builder.output(conv(builder, np.random.default_rng(5), whole, 24, Window(3, 3)))
    check_results(builder.build(), tmp_path)
