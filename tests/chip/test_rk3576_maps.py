"""Maps that RK3576 computes in forms it is known to have: pixels that are put apart or in another
order, repeated, beside a neighbour, and the padding of groups. Equal to the reference kernels, or
within a step, on both paths of the simulator.
"""

import numpy as np
import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.mul import MulOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.reductions import ReducerOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.options import of
from tests.chip.rk3576_results import FOR_RK3576, check_results

SAME = Quantization((0.05,), (3,))

DTYPES = (DType.INT8, DType.UINT8)


def _between(shape, change, dtype=DType.INT8):
    """``change`` of what the NPU makes and a convolution reads, so that the host cannot do it."""
    builder = Net("order", np.random.default_rng(7))
    x = builder.input("x", shape, dtype, SAME)
    y = change(builder, builder.function("RELU", (x,), SAME))
    channels = builder.spec(y).shape[-1]
    if len(builder.spec(y).shape) < 4:
        y = builder.reshape(y, (1, 1, *builder.spec(y).shape[-2:]))
    builder.output(builder.conv(y, min(channels, 24), Window(1, 1)))
    return builder.build()


def _layers(model):
    result = compile_model(model, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    return compiled


@pytest.mark.parametrize(
    ("before", "after", "tasks"),
    [
        ((1, 4, 5, 255), (1, 20, 3, 85), 1),
        ((1, 5, 7, 12), (1, 35, 3, 4), 1),
        ((1, 9, 9, 32), (1, 81, 2, 16), 1),
        ((1, 7, 3, 66), (1, 21, 2, 33), 1),
        ((1, 1, 13, 96), (1, 13, 2, 48), 1),
        ((1, 3, 5, 64), (1, 15, 4, 16), 1),
        ((1, 3, 3, 80), (1, 9, 5, 16), 1),
        ((1, 13, 1, 189), (1, 13, 3, 63), 1),
        ((1, 5, 5, 128), (1, 25, 8, 16), 200),  # the kernel of eight columns is too large
        ((1, 20, 3, 85), (1, 4, 5, 255), 1),
        ((1, 4, 9, 16), (1, 4, 3, 48), 1),
    ],
    ids=str,
)
def test_reshapes_that_change_channels(before, after, tasks):
    dtype = DTYPES[before[1] % 2]
    model = _between(before, lambda builder, y: builder.reshape(y, after), dtype)
    check_results(model)
    compiled = _layers(model)
    (layer,) = (layer for layer in compiled.layers if layer.op == "RESHAPE")
    assert len(layer.tasks) == tasks


def test_a_head_of_yolo_is_cut_into_rows():
    """6,400 pixels of three anchors: as many as CBUF holds at once are a task."""
    model = _between((1, 80, 80, 255), lambda builder, y: builder.reshape(y, (1, 6400, 3, 85)))
    (layer,) = (layer for layer in _layers(model).layers if layer.op == "RESHAPE")
    assert [task.output.width for task in layer.tasks] == [3] * len(layer.tasks)
    assert sum(task.output.height for task in layer.tasks) == 6400


def test_what_would_be_turned_stays_on_the_cpu():
    """Blocks of pixels and channels: their rows lie apart."""
    model = _between(
        (1, 20, 20, 64),
        lambda builder, y: builder.reshape(builder.transpose(y, (0, 3, 1, 2)), (1, 8, 8, 400)),
    )
    rules = {found.op: found.rule for found in compile_model(model, FOR_RK3576).rejections}
    assert rules["TRANSPOSE"] == "form_is_known"


@pytest.mark.parametrize("size", [(5, 5), (6, 4)])
@pytest.mark.parametrize("channels", [16, 48, 80])
def test_pools_beside_what_they_pool(size, channels):
    """Each would write over the next one, the last over what all of them read."""
    builder = Net("pyramid", np.random.default_rng(2))
    x = builder.input("x", (1, *size, 24), DType.INT8, SAME)
    first = builder.conv(x, channels, Window(3, 3))
    parts = [first]
    for window in (3, 5, 9):
        parts.insert(0, builder.pool("MAX_POOL_2D", first, window, window))
    whole = builder.concatenation(parts, 3)
    builder.output(builder.conv(whole, 24, Window(1, 1)))
    check_results(builder.build(), most_off=3)


@pytest.mark.parametrize("before", [16, 96])
def test_a_resized_map_beside_an_earlier_one(before):
    builder = Net("upsampled", np.random.default_rng(4))
    x = builder.input("x", (1, 10, 10, 24), DType.INT8, SAME)
    early = builder.function("RELU", (x,), SAME)
    small = builder.conv(early, before, Window(3, 3, 2, 2))
    large = builder.resize("RESIZE_NEAREST_NEIGHBOR", small, 10, 10, ResizeNearestOptions())
    given = builder.spec(large).quantization
    early = builder.function("QUANTIZE", (early,), given)
    whole = builder.concatenation([large, early], 3)
    check_results(builder.build(builder.conv(whole, 24, Window(1, 1))), most_off=3)


def test_repeating_takes_few_tasks():
    """Rows of all surfaces at a time, a task for each of the two rows that one becomes."""
    builder = Net("repeats")
    x = builder.input("x", (1, 20, 20, 256), DType.INT8, SAME)
    y = builder.resize("RESIZE_NEAREST_NEIGHBOR", x, 40, 40, ResizeNearestOptions())
    assert _layers(builder.build(y)).tasks == 2


@pytest.mark.parametrize("parts", [(16, 16, 16), (64, 16), (32, 96, 16), (16, 3)])
@pytest.mark.parametrize("size", [(9, 14), (1, 5)])
def test_padding_behind_the_last_part_is_written(parts, size):
    """A function writes no surface beyond its own; the convolution fetches four at a time."""
    builder = Net("padding", np.random.default_rng(5))
    computed = []
    for number, channels in enumerate(parts):
        x = builder.input(f"x{number}", (1, *size, channels), DType.INT8, SAME)
        computed.append(builder.function("RELU", (x,), SAME))
    whole = builder.concatenation(computed, 3)
    builder.output(builder.conv(whole, 24, Window(3, 3)))
    check_results(builder.build())


@pytest.mark.parametrize("size", [(7, 7), (9, 5), (12, 8)], ids=str)
@pytest.mark.parametrize("channels", [24, 48, 72, 96])
def test_squeeze_and_excite(channels, size):
    """Behind depthwise convolutions, whose surfaces may have gaps; on both paths."""
    rng = np.random.default_rng([channels, *size])
    builder = Net("squeeze and excite", rng)
    x = builder.input("x", (1, *size, 16), DType.INT8, SAME)
    wide = builder.depthwise(builder.conv(x, channels, Window(1, 1)), Window(3, 3))
    scale = builder.spec(wide).quantization
    pixel = builder.tensor("pixel", (1, 1, 1, channels), DType.INT8, scale)
    axes = builder.constant("axes", np.array([1, 2], np.int32))
    builder.operator("MEAN", (wide, axes), (pixel,), of(ReducerOptions(True)))
    weighed = builder.conv(builder.conv(pixel, 8, Window(1, 1)), channels, Window(1, 1))
    gate = builder.tensor(
        "gate", (1, 1, 1, channels), DType.INT8, Quantization((1 / 256,), (-128,))
    )
    builder.operator("LOGISTIC", (weighed,), (gate,))
    product = builder.tensor("product", (1, *size, channels), DType.INT8, scale)
    builder.operator("MUL", (wide, gate), (product,), of(MulOptions(Activation.NONE)))
    check_results(builder.build(builder.conv(product, 24, Window(1, 1))))
