"""Pooling and reductions: windows, strides and borders, channels around the surfaces, clamps,
chains; of images, and of lines: tensors of rank 3, as sequences of one image have them.

Results move, select or count what is there, so all of them have to be equal. And SOFTMAX: shares of
rows whose values are anything, near one another, the same, or but one. There every result is within
a step; how many are equal depends on how many tasks are worth it.
"""

from typing import Any

import numpy as np

from delegate.model.graph import Quantization
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.grid import (
    PADDINGS,
    Arrays,
    Grid,
    Values,
    layer_grid,
    number,
    pair,
)
from rk3588_conformance.tolerance import LARGE_AVERAGES, NONE, SHARES

_OPERATORS = {"max": "MAX_POOL_2D", "average": "AVERAGE_POOL_2D"}
_FORMS = {
    "sppf": ("5x5", "1x1", "same"),
    "halved": ("2x2", "2x2", "valid"),
    "resnet": ("3x3", "2x2", "same"),
}


def _pool(net: Net, v: Values) -> int:
    kernel, step, border = _FORMS.get(v.form, (v.window, v.stride, v.padding))
    sides = (*pair(kernel), *pair(step))
    return net.pool(_OPERATORS[v.operator], net.x, *sides, PADDINGS[border], v.clamp)


def _has_results(v: Values) -> bool:
    # Of int8, whose averages may be negative, not every clamped one has a setting.
    is_settled = v.operator == "max" or v.activation == "NONE" or v.type == "uint8"
    return is_settled and Values(kernel=v.window, padding=v.padding, size=v.size).has_output


def _pools(label: str, **axes: Any) -> Grid:
    """Windows of 3 x 2, but for what ``axes`` say."""
    return layer_grid(f"{label}.Op/", differing=NONE, is_in=_has_results, **axes)(_pool)


_POOLS = (
    _pools(
        "PoolWindows",
        channels=19,
        operator=tuple(_OPERATORS),
        window=("1x1", "2x2", "3x3", "5x5", "1x4", "7x2", "9x9", "13x13"),
        stride=("1x1", "2x2", "1x2", "3x1", "5x7"),
        padding=tuple(PADDINGS),
        size=("1x1", "13x13", "7x23", "1x17", "29x3", "20x20"),
    ),
    _pools(
        "PoolChannels",
        size="11x8",
        operator=tuple(_OPERATORS),
        channels=(1, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 112, 130, 257),
        images=(1, 3),
        form=tuple(_FORMS),
    ),
    _pools(
        "PoolClamps",
        size="7x9",
        channels=21,
        operator=tuple(_OPERATORS),
        activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
        stride=("1x1", "2x2"),
        zero_point=tuple(range(8)),  # drawn: by the name
    ),
)


@layer_grid(
    "PoolPyramids.Op/",
    first=(3, 5, 7),
    second=(2, 3, 5, 9),
    size=("1x1", "2x3", "5x5", "7x20"),
    channels=(16, 48, 128),
    chained=(0, 1),
)
def _pyramids(net: Net, v: Values) -> int:
    """Pools of one another and their input side by side (SPP, SPPF)."""
    a = net.pool("MAX_POOL_2D", net.x, v.first, v.first)
    b = net.pool("MAX_POOL_2D", a if v.chained else net.x, v.second, v.second)
    c = net.pool("MAX_POOL_2D", b if v.chained else net.x, v.second, v.first)
    return net.concatenation((a, b, c), 3)


_RATIOS = {"equal": 1.0, "0_3": 0.3, "2_7": 2.7}


def _mean(net: Net, v: Values) -> int:
    result = net.rescaled(net.x, _RATIOS[v.ratio])
    return net.reduced("MEAN", net.x, result, keep_dims=v.keep_dims == 1)


_means = layer_grid(
    "Means.Op/",
    size=("1x1", "2x2", "7x7", "8x8", "16x16", "13x29", "31x31"),
    channels=(1, 15, 16, 17, 33, 48, 64, 130),
    images=(1, 3),
    ratio=tuple(_RATIOS),
    keep_dims=(0, 1),
)(_mean)

# Images larger than a window.
_large_means = layer_grid(
    "LargeMeans.Op/",
    size=("32x32", "56x56", "33x40", "112x36", "65x65", "96x128", "8x500", "40x12"),
    channels=(1, 17, 48, 64),
    images=(1, 2),
    ratio=tuple(_RATIOS),
    keep_dims=(0, 1),
)(_mean)


@layer_grid(
    "LargeAverages.Op/",
    differing=LARGE_AVERAGES,
    size=("32x32", "33x33", "65x65", "112x36", "40x12", "96x128"),
    channels=(1, 17, 48, 64),
    images=(1, 2),
    activation=("NONE", "RELU", "RELU6"),
    zero_point=tuple(range(4)),  # drawn: by the name
)
def _large_averages(net: Net, v: Values) -> int:
    """One window as large as the image, as DeepLab has it."""
    sides = (*pair(v.size), 1, 1)
    return net.pool("AVERAGE_POOL_2D", net.x, *sides, PADDINGS["valid"], v.clamp)


_AXES = {"both": (1, 2), "swapped": (2, 1), "negative": (-3, -2), "mixed": (-2, 1)}


@layer_grid(
    "Sums.Op/",
    type="uint8",
    size=("1x1", "2x2", "7x7", "13x29", "31x31", "1x17", "44x34"),
    channels=(1, 15, 16, 17, 33, 64, 130),
    images=(1, 3),
    held=("all", "rows", "one"),
    keep_dims=(0, 1),
    axes=tuple(_AXES),
)
def _sums(net: Net, v: Values) -> int:
    """Results that hold all sums, those of about as many pixels as there are rows, or those of 1;
    axes in any notation.
    """
    height, width = pair(v.size)
    held = {"all": height * width, "rows": height, "one": 1}[v.held]
    result, axes = net.rescaled(net.x, held), _AXES[v.axes]
    return net.reduced("SUM", net.x, result, keep_dims=v.keep_dims == 1, axes=axes)


@layer_grid(
    "ReducedMaxima.Op/",
    size=("1x1", "2x2", "7x7", "13x29", "1x17", "40x3"),
    channels=(1, 16, 17, 33, 48, 130),
    images=(1, 3),
    keep_dims=(0, 1),
)
def _maxima(net: Net, v: Values) -> int:
    return net.reduced("REDUCE_MAX", net.x, keep_dims=v.keep_dims == 1)


_BORDERS = {
    "pad": (None, None), "value": (5, None), "reflect": (None, REFLECT),
    "symmetric": (None, SYMMETRIC),
}  # fmt: skip
"""Value and mode."""
_AMOUNTS = {"one": (1, 1), "causal": (3, 0), "far": (0, 19)}


@layer_grid(
    "LineBorders.Op/",
    input_shape=lambda v: (1, v.length, v.channels),
    border=tuple(_BORDERS),
    amount=tuple(_AMOUNTS),
    length=(20, 33, 256),
    channels=(3, 16, 33, 64),
)
def _line_borders(net: Net, v: Values) -> int:
    value, mode = _BORDERS[v.border]
    return net.pad(net.x, ((0, 0), _AMOUNTS[v.amount], (0, 0)), value=value, mode=mode)


_REDUCTIONS = {"mean": "MEAN", "sum": "SUM", "max": "REDUCE_MAX"}


def _is_uint8_or_no_sum(v: Values) -> bool:
    return v.reduction != "sum" or v.type == "uint8"


@layer_grid(
    "LineReductions.Op/",
    input_shape=lambda v: (1, v.length, v.channels),
    is_in=_is_uint8_or_no_sum,
    reduction=tuple(_REDUCTIONS),
    length=(1, 31, 64, 256, 899, 4000),
    channels=(1, 16, 33, 64),
    keep_dims=(0, 1),
)
def _line_reductions(net: Net, v: Values) -> int:
    ratio = {"mean": 0.3, "sum": float(v.length)}.get(v.reduction)
    result = None if ratio is None else net.rescaled(net.x, ratio)
    op, keeps = _REDUCTIONS[v.reduction], v.keep_dims == 1
    return net.reduced(op, net.x, result, keep_dims=keeps, axes=(1,))


def _ranked(v: Values) -> tuple[int, ...]:
    (h, w), c = pair(v.size), v.channels
    return ((h * w, c), (2, h * w, c), (3, h, w, c))[v.rank - 2]


@layer_grid(
    "ChannelReductions.Op/",
    input_shape=_ranked,
    is_in=_is_uint8_or_no_sum,
    reduction=("mean", "sum"),
    rank=(2, 3, 4),
    size=("1x1", "7x5", "37x4"),
    channels=(1, 3, 16, 37, 64, 192, 768),
    ratio=("0_02", "0_3", "1", "9"),
)
def _channel_reductions(net: Net, v: Values) -> int:
    """Means and sums of the last axis, as layer normalisation has them."""
    result = net.rescaled(net.x, number(v.ratio) * (v.channels if v.reduction == "sum" else 1))
    return net.reduced(_REDUCTIONS[v.reduction], net.x, result, keep_dims=True, axes=(-1,))


@layer_grid(
    "ChannelMaxima.Op/",
    input_shape=_ranked,
    rank=(2, 3, 4),
    size=("1x1", "7x5", "1x37", "16x12"),
    channels=(1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 130, 768),
    keep_dims=(0, 1),
)
def _channel_maxima(net: Net, v: Values) -> int:
    """Maxima of the last axis, as spatial attention has them (CBAM)."""
    return net.reduced("REDUCE_MAX", net.x, keep_dims=v.keep_dims == 1, axes=(-1,))


@layer_grid(
    "GroupMeans.Op/",
    input_shape=lambda v: (v.images, *pair(v.size), v.groups * v.members),
    size=("2x2", "7x5", "16x16", "33x40"),
    groups=(1, 2, 3, 8),
    members=(1, 4, 16, 48),
    images=(1, 2),
    ratio=("0_02", "0_7"),
)
def _group_means(net: Net, v: Values) -> int:
    """Less the means of groups of channels, as group normalisation has them."""
    shape = net.spec(net.x).shape
    wide = net.reshape(net.x, (*shape[:-1], v.groups, v.members))
    result = net.rescaled(net.x, number(v.ratio))
    mean = net.reduced("MEAN", wide, result, keep_dims=True, axes=(1, 2, 4))
    less = net.function("SUB", (wide, mean), net.rescaled(net.x, 1.7), SubOptions())
    return net.reshape(less, shape, "back")


_ROWS = (5, 6)
_LEVELS = 255


def _shape(v: Values) -> tuple[int, ...]:
    height, width = _ROWS
    shapes = (height * width,), _ROWS, (2, height, width)
    return *shapes[v.rank - 2], v.classes


def _rows(v: Values) -> Arrays:
    """Return rows of all kinds in turn, by how far their values are below the largest."""
    shape, classes = _shape(v), v.classes
    rng = np.random.default_rng([v.rank, classes])
    count = int(np.prod(shape[:-1]))
    distances = rng.integers(0, _LEVELS + 1, (count, classes))
    near = np.minimum(rng.geometric(0.03, (count, classes)), _LEVELS)
    distances[1::5] = near[1::5]
    distances[2::5] = rng.integers(0, _LEVELS + 1, (count, 1))[2::5]
    distances[3::5] = _LEVELS
    distances[3::5, -1] = 0
    # One class, and others that nearly vanish: where errors of the sum count.
    distances[4::5] = rng.integers(0, _LEVELS + 1, (count, 1))[4::5]
    distances[4::5, classes // 2] = 0
    values = LIMITS[v.dtype][1] - distances
    return [values.astype(v.dtype.element.dtype).reshape(shape)]


def _scaled(rng: np.random.Generator, v: Values) -> Quantization:
    low, high = LIMITS[v.dtype]
    scale = number(v.nats) / (_LEVELS * number(v.beta))
    return one_scale(scale, int(rng.integers(low, high + 1)))


@layer_grid(
    "Softmax.Op/", differing=SHARES, input_shape=_shape, input_values=_rows,
    input_quantization=_scaled, classes=(1, 2, 3, 16, 17, 37, 64, 100, 197, 400, 511),
    nats=("0_2", "1", "3_4", "9", "40", "300"), beta=("1", "0_125"), rank=(2, 3, 4),
)  # fmt: skip
def _softmax(net: Net, v: Values) -> int:
    """``nats``: between the exponents of the least value and the largest."""
    result = Quantization((1 / 256,), (LIMITS[v.dtype][0],))
    return net.function("SOFTMAX", (net.x,), result, options.softmax(number(v.beta)))
