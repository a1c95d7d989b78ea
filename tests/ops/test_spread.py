"""TRANSPOSE_CONV, SPACE_TO_DEPTH and DEPTH_TO_SPACE against the reference kernels, through the
simulator: odd shapes, channels around groups, batches, both types, fused activations.
"""

from __future__ import annotations

import numpy as np
import pytest

from delegate.lower.numerics.tflite import activation_range
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.options import of
from tests.ops.function_oracle import RANGES
from tests.ops.test_two_values import kernel_result, simulated, values

SAME = Quantization((0.05,), (3,))


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("block", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 3, 16, 17, 33])
def test_blocks_become_channels_and_back(channels: int, block: int, dtype: DType) -> None:
    rng = np.random.default_rng(channels + block)
    for images, height, width in ((1, 3, 5), (2, 1, 7)):
        flat = (images, height, width, channels * block**2)
        spatial = (images, height * block, width * block, channels)
        for op, options, before, after in (
            ("SPACE_TO_DEPTH", SpaceToDepthOptions(block), spatial, flat),
            ("DEPTH_TO_SPACE", DepthToSpaceOptions(block), flat, spatial),
        ):
            builder = ModelBuilder(op.lower())
            x = builder.input("x", before, dtype, SAME)
            y = builder.tensor("y", after, dtype, SAME)
            builder.operator(op, (x,), (y,), of(options))
            builder.output(y)
            model, inputs = builder.build(), [values(rng, before, dtype)]
            np.testing.assert_array_equal(simulated(model, inputs), kernel_result(model, inputs))


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
    builder.output(y)
    return builder.build()


GEOMETRIES = [
    ((1, 5, 7, 16), (2, 2), (2, 2)),
    ((1, 5, 7, 17), (3, 3), (2, 2)),
    ((2, 3, 4, 33), (4, 4), (2, 2)),
    ((1, 1, 9, 3), (3, 5), (1, 3)),
    ((1, 6, 2, 31), (5, 4), (3, 1)),
    ((1, 4, 4, 1), (4, 4), (4, 4)),
    ((1, 7, 5, 48), (3, 3), (1, 1)),
]


@pytest.mark.parametrize("kind", ["int8", "per channel", "uint8"])
@pytest.mark.parametrize("padding", [Padding.SAME, Padding.VALID], ids=str)
@pytest.mark.parametrize(("shape", "kernel", "stride"), GEOMETRIES, ids=str)
def test_transposed_convolutions(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Padding,
    kind: str,
) -> None:
    dtype = DType.UINT8 if kind == "uint8" else DType.INT8
    rng = np.random.default_rng(sum((*shape, *kernel, *stride)))
    different = elements = 0
    for outputs, extra in ((1, 0), (15, 1), (16, 0), (33, 1), (64, 0)):
        model = transposed(
            rng, dtype, shape, kernel, stride, outputs, padding, Activation.NONE,
            per_channel=kind == "per channel", has_bias=outputs != 15, extra=extra,
        )  # fmt: skip
        inputs = [values(rng, shape, dtype)]
        off = simulated(model, inputs).astype(int) - kernel_result(model, inputs)
        assert abs(off).max() <= 1
        different += np.count_nonzero(off)
        elements += off.size
    assert different <= 3 + elements * (6e-4 if kind == "per channel" else 1e-4)


def test_large_transposed_convolutions_are_tiled() -> None:
    rng = np.random.default_rng(5)
    shape = (1, 61, 83, 64)
    model = transposed(
        rng, DType.INT8, shape, (4, 4), (2, 2), 72, Padding.SAME, Activation.NONE, per_channel=True
    )
    inputs = [values(rng, shape, DType.INT8)]
    off = simulated(model, inputs).astype(int) - kernel_result(model, inputs)
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 6e-4 * off.size


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU6])
def test_fused_activations_clamp_what_the_reference_kernels_give(activation: Activation) -> None:
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
    expected = np.clip(kernel_result(models[0], inputs).astype(int), *limits)
    off = simulated(models[1], inputs) - expected
    assert abs(off).max() <= 1
    assert np.count_nonzero(off) <= 3
    assert expected.min() == limits[0]
