"""Computed operands of one pixel on RK3576, which are copied to all of the map's: pairs of maps
then, as exact as those.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.builder.options import of
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.chip.test_second_chip import simulate
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results

SAME = Quantization((0.05,), (3,))
OPTIONS = {
    "MUL": of(MulOptions(Activation.NONE)),
    "ADD": of(AddOptions(Activation.NONE)),
    "SUB": of(SubOptions(Activation.NONE)),
    "MAXIMUM": None,
    "MINIMUM": None,
}


def _pair(op, shape, channels, images, dtype, *, is_first):
    """``channels`` and ``images`` of the operand of one pixel."""
    builder = ModelBuilder("one pixel")
    zero_point = -7 if dtype is DType.INT8 else 120
    other = SAME if op in ("MAXIMUM", "MINIMUM") else Quantization((0.03,), (zero_point,))
    x = builder.input("x", shape, dtype, SAME)
    y = builder.input("y", (images, 1, 1, channels), dtype, other)
    result = SAME if op != "MUL" else Quantization((0.08,), (1,))
    z = builder.tensor("z", shape, dtype, result)
    builder.operator(op, (y, x) if is_first else (x, y), (z,), OPTIONS[op])
    return builder.build(z)


@for_each("op", OPTIONS)
@for_each("size", [(1, 2), (1, 13), (8, 6), (17, 19)])
@for_each("channels", [1, 15, 16, 17, 33, 48, 64, 130])
def test_one_pixel_meets_all(op, size, channels):
    """Both types, orders, one image and two by turns; a value where there are several channels."""
    rng = np.random.default_rng([channels, *size])
    for number in ((channels + size[0]) % 4,):
        images, dtype = 1 + number % 2, (DType.INT8, DType.UINT8)[number // 2]
        shape = images, *size, channels
        few = 1 if number == 1 else channels
        is_first = (number // 2 + channels // 16) % 2 == 1
        model = _pair(op, shape, few, images, dtype, is_first=is_first)
        result = compile_model(model, FOR_RK3576)
        assert result.rejections == ()
        (compiled,) = result.partitions
        kind = np.dtype(dtype.name.lower())
        values = [
            rng.integers(0, 256, s).astype(np.uint8).view(kind)
            for s in (shape, (images, 1, 1, few))
        ]
        (found,) = simulate(compiled.program, values, RK3576)
        off = found.astype(int) - kernel_results(model, *values)
        assert abs(off).max() <= (op == "MUL"), (number, op)


@pytest.mark.parametrize("size", [(7, 7), (9, 5), (12, 8)], ids=str)
@pytest.mark.parametrize("channels", [24, 48, 72, 96])
def test_squeeze_and_excite(channels, size, tmp_path):
    """Behind depthwise convolutions, whose surfaces may have gaps; on both paths."""
    rng = np.random.default_rng([channels, *size])
    builder = ModelBuilder("squeeze and excite")
    x = builder.input("x", (1, *size, 16), DType.INT8, SAME)
    wide = depthwise(builder, rng, conv(builder, rng, x, channels, Window(1, 1)), Window(3, 3))
    scale = builder.spec(wide).quantization
    pixel = builder.tensor("pixel", (1, 1, 1, channels), DType.INT8, scale)
    axes = builder.constant("axes", np.array([1, 2], np.int32))
    builder.operator("MEAN", (wide, axes), (pixel,), of(ReducerOptions(True)))
    weighed = conv(builder, rng, conv(builder, rng, pixel, 8, Window(1, 1)), channels, Window(1, 1))
    gate = builder.tensor(
        "gate", (1, 1, 1, channels), DType.INT8, Quantization((1 / 256,), (-128,))
    )
    builder.operator("LOGISTIC", (weighed,), (gate,))
    product = builder.tensor("product", (1, *size, channels), DType.INT8, scale)
    builder.operator("MUL", (wide, gate), (product,), OPTIONS["MUL"])
    builder.output(conv(builder, rng, product, 24, Window(1, 1)))
    check_results(builder.build(), tmp_path)
