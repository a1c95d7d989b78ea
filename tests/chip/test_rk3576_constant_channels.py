"""Channels of which no input changes the result, whose scales are a millionth of the others': on
RK3576, where channels share a shift, they are biases.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import ModelBuilder
from rk3588_conformance.builder.layers import Arithmetic, Window, conv, depthwise
from tests.chip.rk3576_results import check_results
from tests.chip.test_second_chip import reference, simulate

CHANNELS = 48
CONSTANT = np.arange(CHANNELS) % 5 < 2
INPUT_SCALE, OUTPUT_SCALE = 0.05, 0.1


def _model(seed: int, activation: Activation, *, is_depthwise: bool, reach: int) -> bytes:
    """``reach``: how far, in steps of the result, constant channels are from its zero point."""
    rng = np.random.default_rng(seed)
    live = rng.uniform(0.001, 0.004, CHANNELS)
    scales = np.where(CONSTANT, rng.choice([1e-8, 3e-9, 2e-10], CHANNELS), live)
    wanted = rng.integers(-reach, reach + 1, CHANNELS) + rng.uniform(-0.3, 0.3, CHANNELS)
    units = wanted * OUTPUT_SCALE / (scales * INPUT_SCALE)
    bias = np.where(CONSTANT, units, rng.integers(-2000, 2000, CHANNELS))
    bias = np.clip(bias, -(1 << 30), 1 << 30).astype(np.int32)
    arithmetic = Arithmetic(
        activation=activation,
        per_channel=True,
        weight_scales=tuple(scales),
        bias=bias,
        output_scale=OUTPUT_SCALE,
        output_zero_point=-128 if activation is Activation.RELU else 5,
    )
    builder = ModelBuilder("constant channels")
    given = Quantization((INPUT_SCALE,), (-3,))
    x = builder.input("x", (1, 12, 9, CHANNELS), DType.INT8, given)
    if is_depthwise:
        y = depthwise(builder, rng, x, Window(3, 3), arithmetic=arithmetic)
    else:
        y = conv(builder, rng, x, CHANNELS, Window(1, 1), arithmetic=arithmetic)
    return builder.build(y)


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("reach", [0, 40, 300])
def test_constant_channels_are_equal(is_depthwise, activation, reach, tmp_path):
    model = _model(reach, activation, is_depthwise=is_depthwise, reach=reach)
    check_results(model, tmp_path)
    found, shown = _constants_of(tmp_path / "model.tflite", tmp_path)
    assert (shown == shown[:, :1, :1]).all()
    np.testing.assert_array_equal(found, shown)


def _constants_of(path: Path, folder: Path):
    """Return the constant channels of the simulator and of the reference kernels."""
    result = compile_model(path, replace(Options(numerics="exact"), chip="rk3576"))
    values = reference(path, result.graph, folder)
    shape = result.graph.tensor(result.graph.inputs[0]).shape
    given = values[result.graph.inputs[0]].reshape(shape)
    (found,) = simulate(result.partitions[0].program, [given], RK3576)
    expected = values[result.graph.outputs[0]].reshape(found.shape)
    return found[..., CONSTANT], expected[..., CONSTANT]


def test_constant_channels_beside_ones_of_large_scales_are_equal(tmp_path):
    """With those scales a bias would be whole steps off."""
    rng = np.random.default_rng(3)
    scales = np.where(CONSTANT, 1e-7, rng.uniform(5, 8, CHANNELS))
    wanted = rng.integers(-100, 100, CHANNELS)
    units = np.where(CONSTANT, wanted * OUTPUT_SCALE / (scales * INPUT_SCALE), 0)
    arithmetic = Arithmetic(
        per_channel=True,
        weight_scales=tuple(scales),
        bias=units.astype(np.int32),
        output_scale=OUTPUT_SCALE,
        output_zero_point=5,
    )
    builder = ModelBuilder("large scales")
    x = builder.input("x", (1, 4, 5, CHANNELS), DType.INT8, Quantization((INPUT_SCALE,), (-3,)))
    builder.output(conv(builder, rng, x, CHANNELS, Window(1, 1), arithmetic=arithmetic))
    check_results(builder.build(), tmp_path)
    found, shown = _constants_of(tmp_path / "model.tflite", tmp_path)
    assert len(np.unique(shown)) > 10
    np.testing.assert_array_equal(found, shown)


def test_what_wraps_in_tensorflow_lite_is_no_constant():
    """A channel of scale 4, whose accumulators are beyond int32 once they are multiplied: its
    result would be the largest, but for the reference kernels' int32.
    """
    for bias, is_taken in ((1 << 27, True), (1 << 29, False), (1 << 30, False)):
        scales = np.full(16, 0.002)
        scales[5] = 4 * OUTPUT_SCALE / INPUT_SCALE
        biases = np.zeros(16, np.int32)
        biases[5] = bias
        arithmetic = Arithmetic(
            per_channel=True,
            weight_scales=tuple(scales),
            bias=biases,
            output_scale=OUTPUT_SCALE,
            output_zero_point=5,
        )
        builder = ModelBuilder("wraps")
        x = builder.input("x", (1, 4, 5, 16), DType.INT8, Quantization((INPUT_SCALE,), (-3,)))
        rng = np.random.default_rng(1)
        builder.output(conv(builder, rng, x, 16, Window(1, 1), arithmetic=arithmetic))
        result = compile_model(builder.build(), replace(Options(numerics="exact"), chip="rk3576"))
        assert bool(result.partitions) is is_taken
