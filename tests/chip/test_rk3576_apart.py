"""Pixels that RK3576 puts apart in forms it is known to have, and what is computed of them:
transposed convolutions, interpolation, channels that become pixels.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Window, conv, depthwise
from rk3588_conformance.builder.moves import resize
from rk3588_conformance.builder.options import of
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.chip.test_second_chip import simulate
from tests.loops import for_each
from tests.ops.function_oracle import kernel_results
from tests.ops.test_spread import transposed

SAME = Quantization((0.05,), (3,))


def _resized(builder, x, size, convention):
    less = int(convention[0])
    rows, columns = (2 * side - less for side in size)
    table = of(ResizeBilinearOptions(*convention))
    return resize(builder, "RESIZE_BILINEAR", x, rows, columns, table)


def _found(model, values):
    """Return what the simulator gives, all in one program."""
    result = compile_model(model, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    (found,) = simulate(compiled.program, (values,), RK3576)
    return found


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6], ids=str)
def test_activations_clamp(activation):
    """The reference kernels have none: what they give without, between the ends."""
    rng, shape = np.random.default_rng(4), (1, 5, 7, 24)
    given = DType.INT8, shape, (3, 3), (2, 2), 20, Padding.SAME
    plain, clamped = (
        transposed(np.random.default_rng(7), *given, kind, per_channel=False)
        for kind in (Activation.NONE, activation)
    )
    values = rng.integers(-128, 128, shape, np.int8)
    found = _found(clamped, values).astype(int)
    off = found - np.clip(kernel_results(plain, values), found.min(), found.max())
    assert abs(off).max() <= 1
    assert found.min() > kernel_results(plain, values).min()


@for_each("size, channels", [((5, 7), 24), ((8, 9), 100), ((4, 1), 48), ((5, 7), 64)])
@pytest.mark.parametrize("op", ["TRANSPOSE_CONV", "RESIZE_BILINEAR", "DEPTH_TO_SPACE"])
def test_maps_with_gaps_and_readers_behind(op, channels, size, tmp_path):
    """Depthwise surfaces lie a multiple of 4 pixels apart; readers fetch spare lanes. The literal
    path of the simulator agrees.
    """
    rng = np.random.default_rng([channels, *size])
    builder = ModelBuilder("between")
    x = builder.input("x", (1, *size, channels), DType.INT8, SAME)
    y = depthwise(builder, rng, x, Window(3, 3))
    if op == "RESIZE_BILINEAR":
        y = _resized(builder, y, size, (False, True))
    elif op == "DEPTH_TO_SPACE":
        shape = 1, 2 * size[0], 2 * size[1], channels // 4
        z = builder.tensor("z", shape, DType.INT8, builder.spec(y).quantization)
        builder.operator(op, (y,), (z,), of(DepthToSpaceOptions(2)))
        y = z
    else:
        shape = 1, 2 * size[0], 2 * size[1], 40
        weights = rng.integers(-127, 128, (40, 3, 3, channels), np.int8)
        w = builder.constant("turned", weights, Quantization((0.01,), (0,)))
        numbers = builder.constant("shape", np.array(shape, np.int32))
        z = builder.tensor("z", shape, DType.INT8, Quantization((0.5,), (3,)))
        table = of(TransposeConvOptions(Padding.SAME, 2, 2, Activation.NONE))
        builder.operator(op, (numbers, w, y), (z,), table, version=3)
        y = z
    builder.output(conv(builder, rng, y, 24, Window(3, 3)))
    check_results(builder.build(), tmp_path)
