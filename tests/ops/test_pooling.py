"""Pooling and borders: whole images, pools of pools, what stays on the CPU."""

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.max_pool_2d import gaps_of
from delegate.options import Options
from rk3588_conformance.builder import Net
from tests.loops import for_each
from tests.ops.function_oracle import RANGES, kernel_results, simulated, values


def compare(model: bytes, rng: np.random.Generator) -> None:
    """Every byte, of random images and of such as are all but the least value."""
    graph = read_graph(model)
    source = graph.tensor(graph.inputs[0])
    images = values(rng, source.shape, source.dtype)
    dark = np.where(rng.random(source.shape) < 0.05, images, RANGES[source.dtype][0])
    for image in (images, dark.astype(images.dtype)):
        np.testing.assert_array_equal(simulated(model, image), kernel_results(model, image))


def test_a_whole_image_takes_the_time_of_its_surfaces() -> None:
    """80 surfaces of 49 pixels: 80 results of 16 channels instead of 20 groups as long each."""
    builder = Net("whole")
    x = builder.input("x", (1, 7, 7, 1280), DType.UINT8, Quantization((0.05,), (3,)))
    builder.output(builder.pool("AVERAGE_POOL_2D", x, 7, 7, padding=Padding.VALID))
    (partition,) = compile_model(builder.build(), Options(numerics="exact")).partitions
    assert partition.estimate.npu_cycles == 80 * 49
    (layer,) = partition.layers
    assert layer.tasks[0].weights.total_bytes <= 64 * 49


def test_a_clamped_average_that_no_setting_makes_stays_on_the_cpu() -> None:
    """Halves below zero and a bound below zero: ties would go the other way."""
    builder = Net("clamped")
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, Quantization((0.05,), (-30,)))
    y = builder.pool("AVERAGE_POOL_2D", x, 2, 2, 2, 2, Padding.VALID, Activation.RELU)
    (rejection,) = compile_model(builder.build(y), Options(numerics="exact")).rejections
    assert rejection.rule == "average_is_equal"


def pyramid(size: int, channels: int) -> bytes:
    """YOLO's SPPF: three pools of 5 x 5, and all of them side by side."""
    builder = Net("sppf")
    parts = [builder.input("x", (1, size, size, channels), DType.INT8, Quantization((0.1,), (4,)))]
    for _ in range(3):
        parts.append(builder.pool("MAX_POOL_2D", parts[-1], 5, 5))
    return builder.build(builder.concatenation(parts[1:], 3))


def test_pools_of_pools_take_fewer_tasks() -> None:
    """A border, 6 maxima and a copy; of 25 points under a window of maxima 9 count: 4."""
    (partition,) = compile_model(pyramid(20, 128), Options(numerics="exact")).partitions
    assert [len(layer.tasks) for layer in partition.layers] == [8, 6, 6]


@for_each("before", range(1, 8))
@for_each("kernel", range(1, 14))
@for_each("size", [1, 2, 3, 4, 5, 8, 19])
def test_points_of_a_window_of_maxima_reach_what_all_would(before, kernel, size) -> None:
    """The windows alone say which pixels of a row a result depends on."""
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
    builder = Net("row")
    x = builder.input("x", (1, 1, size, 1), DType.INT8, Quantization((0.1,), (4,)))
    x = builder.pool("MAX_POOL_2D", x, 1, before)
    return builder.build(builder.pool("MAX_POOL_2D", x, 1, kernel))


def _reached(size: int, kernel: int) -> list[tuple[int, int]]:
    """First and last pixel of every window of a SAME pool, beyond the image too."""
    before = (kernel - 1) // 2
    return [(pixel - before, pixel - before + kernel - 1) for pixel in range(size)]


def _inside(window: tuple[int, int], size: int) -> range:
    return range(max(window[0], 0), min(window[1] + 1, size))


def test_a_border_is_one_task() -> None:
    builder = Net("padding")
    x = builder.input("x", (1, 20, 20, 64), DType.INT8, Quantization((0.05,), (7,)))
    builder.output(builder.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]))
    (partition,) = compile_model(builder.build(), Options(numerics="exact")).partitions
    assert partition.tasks == 1
