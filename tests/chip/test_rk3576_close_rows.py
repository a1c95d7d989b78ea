"""Elements in another order on RK3576, whose tasks know no gaps between rows, and tensors whose
spare lanes would be written over a neighbour: equal to the reference kernels, on both paths of the
simulator.
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
from rk3588_conformance.builder.moves import concatenation, reshape, resize, transpose
from rk3588_conformance.builder.pooling import pool
from tests.chip.rk3576_results import FOR_RK3576, check_results
from tests.loops import for_each

SAME = Quantization((0.05,), (3,))
DTYPES = (DType.INT8, DType.UINT8)


def _between(shape, change, dtype=DType.INT8):
    """``change`` of what the NPU makes and a convolution reads, so that the host cannot do it."""
    builder = ModelBuilder("order")
    x = builder.input("x", shape, dtype, SAME)
    y = change(builder, function(builder, "RELU", (x,), SAME))
    channels = builder.spec(y).shape[-1]
    if len(builder.spec(y).shape) < 4:
        y = reshape(builder, y, (1, 1, *builder.spec(y).shape[-2:]))
    builder.output(conv(builder, np.random.default_rng(7), y, min(channels, 24), Window(1, 1)))
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
def test_reshapes_that_change_channels(before, after, tasks, tmp_path):
    dtype = DTYPES[before[1] % 2]
    model = _between(before, lambda builder, y: reshape(builder, y, after), dtype)
    check_results(model, tmp_path)
    compiled = _layers(model)
    (layer,) = (layer for layer in compiled.layers if layer.op == "RESHAPE")
    assert len(layer.tasks) == tasks


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1, 9, 4, 16), (0, 2, 1, 3)), ((1, 3, 5, 48), (0, 2, 1, 3)), ((1, 2, 7, 21), (0, 2, 1, 3))],
    ids=str,
)
def test_rows_and_columns_change_places(shape, axes, tmp_path):
    check_results(_between(shape, lambda builder, y: transpose(builder, y, axes)), tmp_path)


def test_a_head_of_yolo_is_cut_into_rows():
    """6,400 pixels of three anchors: as many as CBUF holds at once are a task."""
    model = _between((1, 80, 80, 255), lambda builder, y: reshape(builder, y, (1, 6400, 3, 85)))
    (layer,) = (layer for layer in _layers(model).layers if layer.op == "RESHAPE")
    assert [task.output.width for task in layer.tasks] == [3] * len(layer.tasks)
    assert sum(task.output.height for task in layer.tasks) == 6400


def test_what_would_be_turned_stays_on_the_cpu():
    """Blocks of pixels and channels: their rows lie apart."""
    model = _between(
        (1, 20, 20, 64),
        lambda builder, y: reshape(builder, transpose(builder, y, (0, 3, 1, 2)), (1, 8, 8, 400)),
    )
    rules = {found.op: found.rule for found in compile_model(model, FOR_RK3576).rejections}
    assert rules["TRANSPOSE"] == "form_is_known"


@for_each("size, dtype", [((5, 5), DType.UINT8), ((4, 7), DType.INT8)])
@for_each("channels", [16, 48, 40])
@for_each("window", [9, 13])
def test_large_windows_of_maxima(size, channels, window, dtype, tmp_path):
    """48 channels are dense, unless the kernel is too large for that."""
    builder = ModelBuilder("maxima")
    x = builder.input("x", (1, *size, channels), dtype, SAME)
    builder.output(pool(builder, "MAX_POOL_2D", x, window, window))
    check_results(builder.build(), tmp_path, most_off=0)


@pytest.mark.parametrize("size", [(5, 5), (6, 4)])
@pytest.mark.parametrize("channels", [16, 48, 80])
def test_pools_beside_what_they_pool(size, channels, tmp_path):
    """Each would write over the next one, the last over what all of them read."""
    builder = ModelBuilder("pyramid")
    x = builder.input("x", (1, *size, 24), DType.INT8, SAME)
    first = conv(builder, np.random.default_rng(2), x, channels, Window(3, 3))
    parts = [first]
    for window in (3, 5, 9):
        parts.insert(0, pool(builder, "MAX_POOL_2D", first, window, window))
    whole = concatenation(builder, parts, 3)
    builder.output(conv(builder, np.random.default_rng(3), whole, 24, Window(1, 1)))
    check_results(builder.build(), tmp_path, most_off=3)


@pytest.mark.parametrize("before", [16, 96])
def test_a_resized_map_beside_an_earlier_one(before, tmp_path):
    builder = ModelBuilder("upsampled")
    x = builder.input("x", (1, 10, 10, 24), DType.INT8, SAME)
    early = function(builder, "RELU", (x,), SAME)
    rng = np.random.default_rng(4)
    small = conv(builder, rng, early, before, Window(3, 3, 2, 2))
    large = resize(builder, "RESIZE_NEAREST_NEIGHBOR", small, 10, 10, ResizeNearestOptions())
    given = builder.spec(large).quantization
    early = function(builder, "QUANTIZE", (early,), given)
    whole = concatenation(builder, [large, early], 3)
    builder.output(conv(builder, rng, whole, 24, Window(1, 1)))
    check_results(builder.build(), tmp_path, most_off=3)
