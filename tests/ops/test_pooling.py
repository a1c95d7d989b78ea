"""Pooling against the reference kernels: any window, stride, border and number of channels."""

from __future__ import annotations

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.max_pool_2d import gaps_of
from delegate.options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import concatenation
from rk3588_conformance.builder.pooling import pool, reduced
from tests.ops.function_oracle import RANGES, kernel_results

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 20)
CHANNELS = (1, 3, 15, 16, 17, 31, 32, 33, 48, 49, 63, 64, 65, 80, 112, 130)
ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)


def drawn(rng: np.random.Generator, op: str) -> bytes:
    """A pool, or several in a row, of anything."""
    builder = ModelBuilder(op)
    height, width = (int(size) for size in rng.choice(SIZES, 2))
    shape = (int(rng.integers(1, 3)), height, width, int(rng.choice(CHANNELS)))
    dtype = (DType.INT8, DType.UINT8)[rng.integers(2)]
    low, high = RANGES[dtype]
    zero_point = int(rng.choice((low, high, int(rng.integers(low, high + 1)))))
    x = builder.input("x", shape, dtype, Quantization((0.05,), (zero_point,)))
    for _ in range(rng.integers(1, 4)):
        _, height, width, _ = builder.spec(x).shape
        padding = (Padding.SAME, Padding.VALID)[rng.integers(2)]
        window = [int(n) for n in rng.integers(1, 8, 2)]
        if padding is Padding.VALID:
            window = [min(window[0], height), min(window[1], width)]
        strides = [int(n) for n in rng.choice((1, 1, 1, 2, 3), 2)]
        activation = ACTIVATIONS[rng.integers(4)]
        if op == "AVERAGE_POOL_2D" and dtype is DType.INT8:
            activation = Activation.NONE  # of int8 not every clamped average has a setting
        x = pool(builder, op, x, *window, *strides, padding, activation)
    builder.output(x)
    return builder.build()


def compare(model: bytes, rng: np.random.Generator) -> None:
    """Every byte, of random images and of such as are all but the least value."""
    result = compile_model(model, Options(numerics="exact"))
    assert not result.rejections
    executable = Executable(result.partitions[0].program, "simulator")
    source = result.graph.tensor(result.graph.inputs[0])
    shape, kind = source.shape, np.dtype(source.dtype.name.lower())
    least = np.iinfo(kind).min
    images = rng.integers(least, least + 256, shape).astype(kind)
    dark = np.where(rng.random(shape) < 0.05, images, least).astype(kind)
    for image in (images, dark):
        (ours,) = executable.run([image])
        np.testing.assert_array_equal(ours, kernel_results(model, image))


@pytest.mark.parametrize("op", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@pytest.mark.parametrize("seed", range(60))
def test_every_result_is_the_reference_kernels(op: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(op)])
    compare(drawn(rng, op), rng)


@pytest.mark.parametrize("seed", range(60))
def test_every_mean_is_the_reference_kernels(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    height, width = (int(n) for n in rng.integers(1, 32, 2))
    if seed % 5 == 0:
        height = width = int(rng.choice((1, 2, 4, 8, 16)))
    shape = (int(rng.integers(1, 4)), height, width, int(rng.choice(CHANNELS)))
    dtype = (DType.INT8, DType.UINT8)[rng.integers(2)]
    low, high = RANGES[dtype]
    scale = 10 ** rng.uniform(-3, 0)
    before, after = (
        Quantization((float(np.float32(scale * ratio)),), (int(rng.integers(low, high + 1)),))
        for ratio in (1.0, rng.choice((1.0, 0.5, 10 ** rng.uniform(-1, 1))))
    )
    builder = ModelBuilder("mean")
    x = builder.input("x", shape, dtype, before)
    axes = ((1, 2), (2, 1), (-3, -2))[rng.integers(3)]
    builder.output(reduced(builder, "MEAN", x, after, keep_dims=bool(rng.integers(2)), axes=axes))
    compare(builder.build(), rng)


@pytest.mark.parametrize("seed", range(40))
def test_every_sum_of_pixels_is_the_reference_kernels(seed: int) -> None:
    """Of scales that hold all sums, those around the middle, or next to none."""
    rng = np.random.default_rng([seed, 9])
    height, width = (int(n) for n in rng.integers(1, 32, 2))
    shape = (int(rng.integers(1, 4)), height, width, int(rng.choice(CHANNELS)))
    scale = 10 ** rng.uniform(-3, 0)
    ratio = rng.choice((1.0, height * width, np.sqrt(height * width), 0.7))
    before, after = (
        Quantization((float(np.float32(scale * factor)),), (int(rng.integers(256)),))
        for factor in (1.0, ratio)
    )
    builder = ModelBuilder("sum")
    x = builder.input("x", shape, DType.UINT8, before)
    axes = ((1, 2), (2, 1), (-3, -2), (-2, 1))[rng.integers(4)]
    builder.output(reduced(builder, "SUM", x, after, keep_dims=bool(rng.integers(2)), axes=axes))
    compare(builder.build(), rng)


@pytest.mark.parametrize("seed", range(40))
def test_whole_images_of_many_channels_are_the_reference_kernels(seed: int) -> None:
    """Windows as large as the image, whose surfaces are summed below one another; ahead of a part
    that shares its memory, or behind one, too.
    """
    rng = np.random.default_rng([seed, 11])
    height, width = int(rng.integers(1, 10)), int(rng.integers(1, 20))
    channels = int(rng.choice((112, 129, 200, 256, 257, 1000, 1280)))
    shape = (int(rng.integers(1, 4)), height, width, channels)
    dtype = (DType.INT8, DType.UINT8)[rng.integers(2)]
    quantization = Quantization((0.05,), (int(rng.integers(*RANGES[dtype])),))
    builder = ModelBuilder("whole")
    x = builder.input("x", shape, dtype, quantization)
    kind = seed % 4
    if kind == 0:
        y = pool(builder, "AVERAGE_POOL_2D", x, height, width, padding=Padding.VALID)
    elif kind == 1:
        y = reduced(builder, "MEAN", x, quantization, keep_dims=bool(rng.integers(2)))
    elif kind == 2:
        parts = [pool(builder, "AVERAGE_POOL_2D", x, height, width, padding=Padding.VALID)]
        parts.append(pool(builder, "MAX_POOL_2D", x, height, width, padding=Padding.VALID))
        y = concatenation(builder, parts, 3)
    else:
        larger = pool(builder, "MAX_POOL_2D", x, 1, 2)
        y = reduced(builder, "MEAN", larger, quantization, keep_dims=True)
    builder.output(y)
    compare(builder.build(), rng)


def test_a_whole_image_takes_the_time_of_its_surfaces() -> None:
    """80 surfaces of 49 pixels: 80 results of 16 channels instead of 20 groups of one, each of
    which takes the time of 16 pixels.
    """
    builder = ModelBuilder("whole")
    x = builder.input("x", (1, 7, 7, 1280), DType.UINT8, Quantization((0.05,), (3,)))
    builder.output(pool(builder, "AVERAGE_POOL_2D", x, 7, 7, padding=Padding.VALID))
    (partition,) = compile_model(builder.build(), Options(numerics="exact")).partitions
    assert partition.estimate.npu_cycles == 80 * 49
    (layer,) = partition.layers
    assert layer.tasks[0].weights.total_bytes <= 64 * 49


@pytest.mark.parametrize("seed", range(20))
def test_every_maximum_of_pixels_is_the_reference_kernels(seed: int) -> None:
    rng = np.random.default_rng([seed, 8])
    height, width = (int(n) for n in rng.integers(1, 50, 2))
    shape = (int(rng.integers(1, 4)), height, width, int(rng.choice(CHANNELS)))
    dtype = (DType.INT8, DType.UINT8)[rng.integers(2)]
    builder = ModelBuilder("maximum")
    x = builder.input("x", shape, dtype, Quantization((0.1,), (5,)))
    builder.output(reduced(builder, "REDUCE_MAX", x, keep_dims=bool(rng.integers(2))))
    compare(builder.build(), rng)


def test_a_clamped_average_that_no_setting_makes_stays_on_the_cpu() -> None:
    """Halves below zero and a bound below zero: ties would go the other way."""
    builder = ModelBuilder("clamped")
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, Quantization((0.05,), (-30,)))
    y = pool(builder, "AVERAGE_POOL_2D", x, 2, 2, 2, 2, Padding.VALID, Activation.RELU)
    builder.output(y)
    (rejection,) = compile_model(builder.build(), Options(numerics="exact")).rejections
    assert rejection.rule == "average_is_equal"


def pyramid(size: int, channels: int) -> bytes:
    """YOLO's SPPF: three pools of 5 x 5, and all of them side by side."""
    builder = ModelBuilder("sppf")
    parts = [builder.input("x", (1, size, size, channels), DType.INT8, Quantization((0.1,), (4,)))]
    for _ in range(3):
        parts.append(pool(builder, "MAX_POOL_2D", parts[-1], 5, 5))
    builder.output(concatenation(builder, parts[1:], 3))
    return builder.build()


@pytest.mark.parametrize("channels", [48, 128])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 20])
def test_pools_of_pools_are_the_reference_kernels(size: int, channels: int) -> None:
    rng = np.random.default_rng(size)
    compare(pyramid(size, channels), rng)


def test_pools_of_pools_take_fewer_tasks() -> None:
    """A border, 6 maxima and a copy; of 25 points under a window of maxima 9 count: 4."""
    (partition,) = compile_model(pyramid(20, 128), Options(numerics="exact")).partitions
    assert [len(layer.tasks) for layer in partition.layers] == [8, 6, 6]


@pytest.mark.parametrize("before", range(1, 8))
@pytest.mark.parametrize("kernel", range(1, 14))
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 19])
def test_points_of_a_window_of_maxima_reach_what_all_would(before, kernel, size) -> None:
    """Which pixels of a row a result depends on, by the windows alone."""
    graph = read_graph(row_of_pools(size, before, kernel))
    gap = gaps_of(graph, graph.nodes[1])[1]
    first, second = (_reached(size, k) for k in (before, kernel))
    for column in range(size):
        window = second[column]
        points = range(window[0], window[1] + 1, gap)
        assert points[-1] == window[1]
        inside = [point for point in points if 0 <= point < size]
        found = {p for point in inside for p in _inside(first[point], size)}
        wanted = {p for point in _inside(window, size) for p in _inside(first[point], size)}
        assert found == wanted


def row_of_pools(size: int, before: int, kernel: int) -> bytes:
    builder = ModelBuilder("row")
    x = builder.input("x", (1, 1, size, 1), DType.INT8, Quantization((0.1,), (4,)))
    x = pool(builder, "MAX_POOL_2D", x, 1, before)
    builder.output(pool(builder, "MAX_POOL_2D", x, 1, kernel))
    return builder.build()


def _reached(size: int, kernel: int) -> list[tuple[int, int]]:
    """First and last pixel of every window of a SAME pool, beyond the image too."""
    before = (kernel - 1) // 2
    return [(pixel - before, pixel - before + kernel - 1) for pixel in range(size)]


def _inside(window: tuple[int, int], size: int) -> range:
    return range(max(window[0], 0), min(window[1] + 1, size))
