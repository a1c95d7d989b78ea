"""Channels whose scales are far apart, on a chip whose channels share a shift: those of which no
input changes the result are biases; others make parts with a shift each, and their sum.
"""

from dataclasses import replace

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.lower.numerics.one_rounding import MOST_DIFFERING
from delegate.model.graph import Activation, DType, Quantization
from delegate.npu.program_reader import parse
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic, Window
from tests.chip.rk3576_results import FOR_RK3576, check_results


def _arithmetic(rng, channels, activation=Activation.NONE) -> Arithmetic:
    """Most scales are a thousandth of a few, and all results spread over their range."""
    spread = np.exp(rng.uniform(-7, 0, channels))
    spread[::11] = 2.0
    bias = np.round(rng.uniform(-60, 60, channels) / (spread * 0.01)).astype(np.int32)
    return Arithmetic(
        activation=activation,
        per_channel=True,
        weight_scales=tuple(spread * 0.02),
        bias=bias,
        output_scale=0.1,
        output_zero_point=-128 if activation is not Activation.NONE else -7,
    )


def _layer(builder, x, channels, kernel, stride, activation, *, is_depthwise):
    window = Window(kernel, kernel, stride, stride)
    arithmetic = _arithmetic(builder.rng, channels, activation)
    if is_depthwise:
        return builder.depthwise(x, window, arithmetic=arithmetic)
    return builder.conv(x, channels, window, arithmetic=arithmetic)


def _model(size, channels, activation, *, is_depthwise, images=1, stride=1):
    rng = np.random.default_rng(channels)
    builder = Net("scales far apart", rng)
    x = builder.input("x", (images, *size, channels), DType.INT8, Quantization((0.05,), (3,)))
    sides = (3 if is_depthwise else 1, stride, activation)
    return builder.build(_layer(builder, x, channels, *sides, is_depthwise=is_depthwise))


def _check(model):
    """Within a step of the reference; and where there are parts, of channels that vary no more
    results differ than 15 bits explain. One that hardly does may be next to a tie.
    """
    program, found, expected = check_results(model)
    if all(task.enable_mask & 4 for task in program.tasks):
        return
    off = (found != expected).reshape(-1, expected.shape[-1])
    columns = expected.reshape(-1, expected.shape[-1]).T
    varied = [len(np.unique(column)) > 16 for column in columns]
    # Results here are a few thousand, where the estimate is of a sample.
    assert off[:, varied].sum() <= 2 * MOST_DIFFERING * off[:, varied].size + 1


def test_there_are_several_tasks_and_sums():
    model = _model((16, 20), 40, Activation.NONE, is_depthwise=True)
    (compiled,) = compile_model(model, FOR_RK3576).partitions
    tasks = parse(compiled.program).tasks
    sums = [task for task in tasks if task.enable_mask & 4 == 0]
    assert len(sums) == len(tasks) - len(sums) - 1 > 0


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_parts_of_a_concatenation(is_depthwise):
    """Parts are written beside a neighbour, whose channels stay what they are."""
    builder = Net("joined", np.random.default_rng(2))
    x = builder.input("x", (1, 10, 12, 32), DType.INT8, Quantization((0.05,), (3,)))
    layers = [
        _layer(builder, x, 32, 3, 1, Activation.NONE, is_depthwise=is_depthwise) for _ in range(3)
    ]
    _check(builder.build(builder.concatenation(layers, 3)))


CHANNELS = 48

CONSTANT = np.arange(CHANNELS) % 5 < 2

INPUT_SCALE, OUTPUT_SCALE = 0.05, 0.1


def _with_constants(seed: int, activation: Activation, *, is_depthwise: bool, reach: int) -> bytes:
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
    builder = Net("constant channels", rng)
    given = Quantization((INPUT_SCALE,), (-3,))
    x = builder.input("x", (1, 12, 9, CHANNELS), DType.INT8, given)
    if is_depthwise:
        y = builder.depthwise(x, Window(3, 3), arithmetic=arithmetic)
    else:
        y = builder.conv(x, CHANNELS, Window(1, 1), arithmetic=arithmetic)
    return builder.build(y)


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("reach", [0, 40, 300])
def test_constant_channels_are_equal(is_depthwise, activation, reach):
    model = _with_constants(reach, activation, is_depthwise=is_depthwise, reach=reach)
    found, shown = (result[..., CONSTANT] for result in check_results(model)[1:])
    assert (shown == shown[:, :1, :1]).all()
    np.testing.assert_array_equal(found, shown)


def test_constant_channels_beside_ones_of_large_scales_are_equal():
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
    builder = Net("large scales", rng)
    x = builder.input("x", (1, 4, 5, CHANNELS), DType.INT8, Quantization((INPUT_SCALE,), (-3,)))
    model = builder.build(builder.conv(x, CHANNELS, Window(1, 1), arithmetic=arithmetic))
    found, shown = (result[..., CONSTANT] for result in check_results(model)[1:])
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
        builder = Net("wraps", np.random.default_rng(1))
        x = builder.input("x", (1, 4, 5, 16), DType.INT8, Quantization((INPUT_SCALE,), (-3,)))
        builder.output(builder.conv(x, 16, Window(1, 1), arithmetic=arithmetic))
        result = compile_model(builder.build(), replace(Options(numerics="exact"), chip="rk3576"))
        assert bool(result.partitions) is is_taken
