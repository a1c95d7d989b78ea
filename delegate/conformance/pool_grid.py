"""Pooling: windows, strides and borders, channels around the surfaces, clamps, chains.

Results select or count what is there, so all of them have to be equal.
"""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.aliases import concatenation
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.pooling import mean, pool, reduce_max, total
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import (
    EIGHT_BITS,
    PADDINGS,
    dtype_of,
    fits,
    one_layer,
    pair,
    window_of,
)
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.model.graph import Activation, DType, Quantization

_OPERATORS = {"max": "MAX_POOL_2D", "average": "AVERAGE_POOL_2D"}


_FORMS = {
    "sppf": ("5x5", "1x1", "same"),
    "halved": ("2x2", "2x2", "valid"),
    "resnet": ("3x3", "2x2", "same"),
}


def _grid(label: str, axes: Axes, sides: str, depth: int) -> Grid:
    """Images of ``sides`` with ``depth`` channels, but for what ``axes`` say."""

    def make(
        name: str, *, operator: str, type: str, size: str = sides, channels: int = depth,
        images: int = 1, form: str = "", window: str = "3x2", stride: str = "1x1",
        padding: str = "same", activation: str = "NONE", zero_point: int = 0,
    ) -> Case:  # fmt: skip
        kernel, step, border = _FORMS.get(form, (window, stride, padding))

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            op, clamp = _OPERATORS[operator], Activation[activation]
            return pool(builder, op, x, *pair(kernel), *pair(step), PADDINGS[border], clamp)

        return one_layer(name, label, (images, *pair(size), channels), type, layer, differing=NONE)

    def is_in(
        *, operator: str, type: str, window: str = "1x1", padding: str = "same",
        size: str = sides, activation: str = "NONE", **_: Value,
    ) -> bool:  # fmt: skip
        # Of int8, whose averages may be negative, not every clamped one has a setting.
        is_settled = operator == "max" or activation == "NONE" or type == "uint8"
        return is_settled and fits(window_of(window, padding=padding), *pair(size))

    return Grid(f"{label}.Op/", axes, make, is_in)


_WINDOWS: Axes = {
    "operator": tuple(_OPERATORS),
    "window": ("1x1", "2x2", "3x3", "5x5", "1x4", "7x2", "9x9", "13x13"),
    "stride": ("1x1", "2x2", "1x2", "3x1", "5x7"),
    "padding": tuple(PADDINGS),
    "size": ("1x1", "13x13", "7x23", "1x17", "29x3", "20x20"),
    "type": EIGHT_BITS,
}

_CHANNELS: Axes = {
    "operator": tuple(_OPERATORS),
    "channels": (1, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 112, 130, 257),
    "images": (1, 3),
    "form": tuple(_FORMS),
    "type": EIGHT_BITS,
}

_CLAMPS: Axes = {
    "operator": tuple(_OPERATORS),
    "activation": ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    "stride": ("1x1", "2x2"),
    "zero_point": tuple(range(8)),  # drawn: by the name
    "type": EIGHT_BITS,
}


def _pyramids() -> Grid:
    """Pools of one another and their input side by side (SPP, SPPF)."""

    def make(
        name: str, *, first: int, second: int, size: str, channels: int, chained: int, type: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            a = pool(builder, "MAX_POOL_2D", x, first, first)
            b = pool(builder, "MAX_POOL_2D", a if chained else x, second, second)
            c = pool(builder, "MAX_POOL_2D", b if chained else x, second, first)
            return concatenation(builder, (a, b, c), 3)

        shape = (1, *pair(size), channels)
        return one_layer(name, "PoolPyramids", shape, type, layer, differing=NONE)

    axes: Axes = {
        "first": (3, 5, 7),
        "second": (2, 3, 5, 9),
        "size": ("1x1", "2x3", "5x5", "7x20"),
        "channels": (16, 48, 128),
        "chained": (0, 1),
        "type": EIGHT_BITS,
    }
    return Grid("PoolPyramids.Op/", axes, make)


def _means() -> Grid:
    ratios = {"equal": 1.0, "0_3": 0.3, "2_7": 2.7}

    def make(
        name: str, *, size: str, channels: int, images: int, ratio: str, keep_dims: int, type: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            before = builder.spec(x).quantization
            assert before is not None
            scale = float(np.float32(before.scale * ratios[ratio]))
            result = Quantization((scale,), draw_quantization(rng, dtype_of(type)).zero_points)
            return mean(builder, x, result, keep_dims=keep_dims == 1)

        shape = (images, *pair(size), channels)
        return one_layer(name, "Means", shape, type, layer, differing=NONE)

    axes: Axes = {
        "size": ("1x1", "2x2", "7x7", "8x8", "16x16", "13x29", "31x31"),
        "channels": (1, 15, 16, 17, 33, 48, 64, 130),
        "images": (1, 3),
        "ratio": tuple(ratios),
        "keep_dims": (0, 1),
        "type": EIGHT_BITS,
    }
    return Grid("Means.Op/", axes, make)


def _sums() -> Grid:
    """Results that hold all sums, those of about as many pixels as there are rows, or those of 1;
    axes in any notation.
    """
    axes_by_name = {"both": (1, 2), "swapped": (2, 1), "negative": (-3, -2), "mixed": (-2, 1)}

    def make(
        name: str, *, size: str, channels: int, images: int, held: str, keep_dims: int, axes: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            before = builder.spec(x).quantization
            assert before is not None
            height, width = pair(size)
            factor = {"all": height * width, "rows": height, "one": 1}[held]
            scale = float(np.float32(before.scale * factor))
            result = Quantization((scale,), draw_quantization(rng, DType.UINT8).zero_points)
            return total(builder, x, result, keep_dims=keep_dims == 1, axes=axes_by_name[axes])

        shape = (images, *pair(size), channels)
        return one_layer(name, "Sums", shape, "uint8", layer, differing=NONE)

    found: Axes = {
        "size": ("1x1", "2x2", "7x7", "13x29", "31x31", "1x17"),
        "channels": (1, 15, 16, 17, 33, 64, 130),
        "images": (1, 3),
        "held": ("all", "rows", "one"),
        "keep_dims": (0, 1),
        "axes": tuple(axes_by_name),
    }
    return Grid("Sums.Op/", found, make)


def _maxima() -> Grid:
    def make(
        name: str, *, size: str, channels: int, images: int, keep_dims: int, type: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return reduce_max(builder, x, keep_dims=keep_dims == 1)

        shape = (images, *pair(size), channels)
        return one_layer(name, "ReducedMaxima", shape, type, layer, differing=NONE)

    axes: Axes = {
        "size": ("1x1", "2x2", "7x7", "13x29", "1x17", "40x3"),
        "channels": (1, 16, 17, 33, 48, 130),
        "images": (1, 3),
        "keep_dims": (0, 1),
        "type": EIGHT_BITS,
    }
    return Grid("ReducedMaxima.Op/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _grid("PoolWindows", _WINDOWS, "1x1", 19),
        _grid("PoolChannels", _CHANNELS, "11x8", 1),
        _grid("PoolClamps", _CLAMPS, "7x9", 21),
        _pyramids(),
        _means(),
        _sums(),
        _maxima(),
    )
