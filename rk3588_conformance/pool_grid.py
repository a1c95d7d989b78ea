"""Pooling: windows, strides and borders, channels around the surfaces, clamps, chains.

Results select or count what is there, so all of them have to be equal.
"""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Activation
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import concatenation
from rk3588_conformance.builder.pooling import pool, reduced
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import (
    EIGHT_BITS,
    PADDINGS,
    fits,
    layer_grid,
    pair,
    rescaled,
    window_of,
)
from rk3588_conformance.tolerance import NONE

_OPERATORS = {"max": "MAX_POOL_2D", "average": "AVERAGE_POOL_2D"}


_FORMS = {
    "sppf": ("5x5", "1x1", "same"),
    "halved": ("2x2", "2x2", "valid"),
    "resnet": ("3x3", "2x2", "same"),
}


def _pool(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, operator: str, form: str = "",
    window: str = "3x2", stride: str = "1x1", padding: str = "same", activation: str = "NONE",
    **__: Value,
) -> int:  # fmt: skip
    kernel, step, border = _FORMS.get(form, (window, stride, padding))
    op, clamp = _OPERATORS[operator], Activation[activation]
    return pool(builder, op, x, *pair(kernel), *pair(step), PADDINGS[border], clamp)


def _has_results(
    *, operator: str, type: str, size: str, window: str = "1x1", padding: str = "same",
    activation: str = "NONE", **_: Value,
) -> bool:  # fmt: skip
    # Of int8, whose averages may be negative, not every clamped one has a setting.
    is_settled = operator == "max" or activation == "NONE" or type == "uint8"
    return is_settled and fits(window_of(window, padding=padding), *pair(size))


_windows = layer_grid(
    "PoolWindows.Op/",
    differing=NONE,
    is_in=_has_results,
    channels=19,
    operator=tuple(_OPERATORS),
    window=("1x1", "2x2", "3x3", "5x5", "1x4", "7x2", "9x9", "13x13"),
    stride=("1x1", "2x2", "1x2", "3x1", "5x7"),
    padding=tuple(PADDINGS),
    size=("1x1", "13x13", "7x23", "1x17", "29x3", "20x20"),
    type=EIGHT_BITS,
)(_pool)

_channels = layer_grid(
    "PoolChannels.Op/",
    differing=NONE,
    is_in=_has_results,
    size="11x8",
    operator=tuple(_OPERATORS),
    channels=(1, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 112, 130, 257),
    images=(1, 3),
    form=tuple(_FORMS),
    type=EIGHT_BITS,
)(_pool)

_clamps = layer_grid(
    "PoolClamps.Op/",
    differing=NONE,
    is_in=_has_results,
    size="7x9",
    channels=21,
    operator=tuple(_OPERATORS),
    activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    stride=("1x1", "2x2"),
    zero_point=tuple(range(8)),  # drawn: by the name
    type=EIGHT_BITS,
)(_pool)


@layer_grid(
    "PoolPyramids.Op/",
    differing=NONE,
    first=(3, 5, 7),
    second=(2, 3, 5, 9),
    size=("1x1", "2x3", "5x5", "7x20"),
    channels=(16, 48, 128),
    chained=(0, 1),
    type=EIGHT_BITS,
)
def _pyramids(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, first: int, second: int,
    chained: int, **__: Value,
) -> int:  # fmt: skip
    """Pools of one another and their input side by side (SPP, SPPF)."""
    a = pool(builder, "MAX_POOL_2D", x, first, first)
    b = pool(builder, "MAX_POOL_2D", a if chained else x, second, second)
    c = pool(builder, "MAX_POOL_2D", b if chained else x, second, first)
    return concatenation(builder, (a, b, c), 3)


_RATIOS = {"equal": 1.0, "0_3": 0.3, "2_7": 2.7}


@layer_grid(
    "Means.Op/",
    differing=NONE,
    size=("1x1", "2x2", "7x7", "8x8", "16x16", "13x29", "31x31"),
    channels=(1, 15, 16, 17, 33, 48, 64, 130),
    images=(1, 3),
    ratio=tuple(_RATIOS),
    keep_dims=(0, 1),
    type=EIGHT_BITS,
)
def _means(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, ratio: str, keep_dims: int,
    **_: Value,
) -> int:  # fmt: skip
    result = rescaled(builder, rng, x, _RATIOS[ratio])
    return reduced(builder, "MEAN", x, result, keep_dims=keep_dims == 1)


@layer_grid(
    "LargeMeans.Op/",
    differing=NONE,
    size=("32x32", "56x56", "33x40", "112x36", "65x65", "96x128", "8x500", "40x12"),
    channels=(1, 17, 48, 64),
    images=(1, 2),
    ratio=tuple(_RATIOS),
    keep_dims=(0, 1),
    type=EIGHT_BITS,
)
def _large_means(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, ratio: str, keep_dims: int,
    **_: Value,
) -> int:  # fmt: skip
    """Images larger than a window."""
    result = rescaled(builder, rng, x, _RATIOS[ratio])
    return reduced(builder, "MEAN", x, result, keep_dims=keep_dims == 1)


_AXES = {"both": (1, 2), "swapped": (2, 1), "negative": (-3, -2), "mixed": (-2, 1)}


@layer_grid(
    "Sums.Op/",
    differing=NONE,
    type="uint8",
    size=("1x1", "2x2", "7x7", "13x29", "31x31", "1x17", "44x34"),
    channels=(1, 15, 16, 17, 33, 64, 130),
    images=(1, 3),
    held=("all", "rows", "one"),
    keep_dims=(0, 1),
    axes=tuple(_AXES),
)
def _sums(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, size: str, held: str,
    keep_dims: int, axes: str, **_: Value,
) -> int:  # fmt: skip
    """Results that hold all sums, those of about as many pixels as there are rows, or those of 1;
    axes in any notation.
    """
    height, width = pair(size)
    result = rescaled(builder, rng, x, {"all": height * width, "rows": height, "one": 1}[held])
    return reduced(builder, "SUM", x, result, keep_dims=keep_dims == 1, axes=_AXES[axes])


@layer_grid(
    "ReducedMaxima.Op/",
    differing=NONE,
    size=("1x1", "2x2", "7x7", "13x29", "1x17", "40x3"),
    channels=(1, 16, 17, 33, 48, 130),
    images=(1, 3),
    keep_dims=(0, 1),
    type=EIGHT_BITS,
)
def _maxima(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, keep_dims: int, **__: Value
) -> int:
    return reduced(builder, "REDUCE_MAX", x, keep_dims=keep_dims == 1)


FAMILIES: tuple[Family, ...] = (
    *(_windows, _channels, _clamps, _pyramids, _means, _large_means, _sums, _maxima),
)
