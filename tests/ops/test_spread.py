"""TRANSPOSE_CONV on the simulator against the reference kernels: large maps, activations."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.lower.numerics.tflite import activation_range
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.options import of
from tests.ops.function_oracle import EXACT, RANGES, kernel_results, simulated, values


def transposed(
    rng: np.random.Generator,
    dtype: DType,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    outputs: int,
    padding: Padding,
    activation: Activation,
    *,
    per_channel: bool,
    has_bias: bool = True,
    extra: int = 0,
) -> bytes:
    """``extra``: rows and columns that SAME leaves out of the last step."""
    version = 3 if activation is Activation.NONE else 4
    images, height, width, channels = shape
    (kh, kw), (sh, sw) = kernel, stride
    if padding is Padding.SAME:
        size = height * sh - min(extra, sh - 1), width * sw - min(extra, sw - 1)
    else:
        size = (height - 1) * sh + kh, (width - 1) * sw + kw
    low, high = RANGES[dtype]
    builder = ModelBuilder("transposed")
    zero = int(rng.integers(low, high + 1))
    x = builder.input("x", shape, dtype, Quantization((0.02,), (zero,)))
    scales = tuple(float(np.float32(s)) for s in 0.01 * 2 ** rng.uniform(-2, 1, outputs))
    weights_zero = 0 if dtype is DType.INT8 else int(rng.integers(100, 150))
    given = (
        Quantization(scales, (0,) * outputs)
        if per_channel
        else Quantization(scales[:1], (weights_zero,))
    )
    weights = rng.integers(-127 if low else 1, high + 1, (outputs, kh, kw, channels))
    w = builder.constant("w", weights.astype(np.int8 if low else np.uint8), given)
    numbers = builder.constant("shape", np.array((images, *size, outputs), np.int32))
    deviation = 0.02 * 0.01 * 75 * 75 * (channels * kh * kw / (sh * sw)) ** 0.5
    result = Quantization((float(np.float32(deviation / 30)),), (int(rng.integers(-20, 20)),))
    if dtype is DType.UINT8:
        result = Quantization(result.scales, (result.zero_points[0] + 128,))
    inputs = [numbers, w, x]
    if has_bias:
        scale = tuple(0.02 * s for s in given.scales)
        bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
        zeros = (0,) * len(scale)
        inputs.append(builder.constant("bias", bias, Quantization(scale, zeros)))
    y = builder.tensor("y", (images, *size, outputs), dtype, result)
    options = of(TransposeConvOptions(padding, sh, sw, activation))
    builder.operator("TRANSPOSE_CONV", inputs, (y,), options, version=version)
    return builder.build(y)


def test_large_transposed_convolutions_are_tiled() -> None:
    rng = np.random.default_rng(5)
    shape = (1, 61, 83, 64)
    model = transposed(
        rng, DType.INT8, shape, (4, 4), (2, 2), 72, Padding.SAME, Activation.NONE, per_channel=True
    )
    inputs = [values(rng, shape, DType.INT8)]
    off = simulated(model, *inputs).astype(int) - kernel_results(model, *inputs)
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 6e-4 * off.size


@pytest.mark.parametrize("chip", ["rk3588", "rk3576"])
@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6])
def test_fused_activations_clamp_what_the_reference_kernels_give(
    activation: Activation, chip: str
) -> None:
    """They have none: version 4 of the operator is not theirs."""
    shape = (1, 5, 7, 24)
    models = [
        transposed(
            np.random.default_rng(3), DType.INT8, shape, (3, 3), (2, 2), 21, Padding.SAME, each,
            per_channel=True,
        )
        for each in (Activation.NONE, activation)
    ]  # fmt: skip
    inputs = [values(np.random.default_rng(4), shape, DType.INT8)]
    quantization = read_graph(models[1]).tensors[-1].quantization
    assert quantization is not None
    limits = activation_range(activation, quantization.scale, quantization.zero_point)
    expected = np.clip(kernel_results(models[0], *inputs).astype(int), *limits)
    off = simulated(models[1], *inputs, options=replace(EXACT, chip=chip)) - expected
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 3 or chip == "rk3576"  # which rounds once
    assert expected.min() == limits[0]
