"""Pooling: windows, strides and borders, channels around the surfaces, clamps, chains.

Results select or count what is there, so all of them have to be equal.
"""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.aliases import concatenation
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.pooling import mean, pool, reduce_max
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid
from delegate.conformance.own_grid import dtype_of, pair
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.model.graph import Activation, Padding, Quantization

_TYPES = ("uint8", "int8")
_OPERATORS = {"max": "MAX_POOL_2D", "average": "AVERAGE_POOL_2D"}
_PADDINGS = {"same": Padding.SAME, "valid": Padding.VALID}


def _case(
    name: str,
    label: str,
    shape: tuple[int, int, int, int],
    type: str,
    operator: str,
    window: str,
    stride: str,
    padding: str,
    activation: str = "NONE",
) -> Case:
    def build(rng: np.random.Generator) -> bytes:
        builder = ModelBuilder(label)
        dtype = dtype_of(type)
        x = builder.input("input", shape, dtype, draw_quantization(rng, dtype))
        sizes = (*pair(window), *pair(stride))
        op, clamp = _OPERATORS[operator], Activation[activation]
        builder.output(pool(builder, op, x, *sizes, _PADDINGS[padding], clamp))
        return builder.build()

    return Case(name, label, build, differing=NONE)


def _windows() -> Grid:
    def make(
        name: str, *, operator: str, window: str, stride: str, padding: str, size: str, type: str
    ) -> Case:
        shape = (1, *pair(size), 19)
        return _case(name, "PoolWindows", shape, type, operator, window, stride, padding)

    def is_in(
        *, operator: str, window: str, stride: str, padding: str, size: str, type: str
    ) -> bool:
        fits = all(k <= n for k, n in zip(pair(window), pair(size), strict=True))
        return padding == "same" or fits

    axes: Axes = {
        "operator": tuple(_OPERATORS),
        "window": ("1x1", "2x2", "3x3", "5x5", "1x4", "7x2", "9x9", "13x13"),
        "stride": ("1x1", "2x2", "1x2", "3x1", "5x7"),
        "padding": tuple(_PADDINGS),
        "size": ("1x1", "13x13", "7x23", "1x17", "29x3", "20x20"),
        "type": _TYPES,
    }
    return Grid("PoolWindows.Op/", axes, make, is_in)


def _channels() -> Grid:
    def make(name: str, *, operator: str, channels: int, images: int, form: str, type: str) -> Case:
        window, stride, padding = {
            "sppf": ("5x5", "1x1", "same"),
            "halved": ("2x2", "2x2", "valid"),
            "resnet": ("3x3", "2x2", "same"),
        }[form]
        shape = (images, 11, 8, channels)
        return _case(name, "PoolChannels", shape, type, operator, window, stride, padding)

    axes: Axes = {
        "operator": tuple(_OPERATORS),
        "channels": (1, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 112, 130, 257),
        "images": (1, 3),
        "form": ("sppf", "halved", "resnet"),
        "type": _TYPES,
    }
    return Grid("PoolChannels.Op/", axes, make)


def _clamps() -> Grid:
    def make(
        name: str, *, operator: str, activation: str, stride: str, zero_point: int, type: str
    ) -> Case:
        return _case(
            name, "PoolClamps", (1, 7, 9, 21), type, operator, "3x2", stride, "same", activation
        )

    def is_in(*, operator: str, activation: str, stride: str, zero_point: int, type: str) -> bool:
        # Of int8, whose averages may be negative, not every clamped one has a setting.
        return operator == "max" or activation == "NONE" or type == "uint8"

    axes: Axes = {
        "operator": tuple(_OPERATORS),
        "activation": ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
        "stride": ("1x1", "2x2"),
        "zero_point": tuple(range(8)),  # drawn: by the name
        "type": _TYPES,
    }
    return Grid("PoolClamps.Op/", axes, make, is_in)


def _pyramids() -> Grid:
    """Pools of one another and their input side by side (SPP, SPPF)."""

    def make(
        name: str, *, first: int, second: int, size: str, channels: int, chained: int, type: str
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("pyramid")
            dtype = dtype_of(type)
            shape = (1, *pair(size), channels)
            x = builder.input("input", shape, dtype, draw_quantization(rng, dtype))
            a = pool(builder, "MAX_POOL_2D", x, first, first)
            b = pool(builder, "MAX_POOL_2D", a if chained else x, second, second)
            c = pool(builder, "MAX_POOL_2D", b if chained else x, second, first)
            builder.output(concatenation(builder, (a, b, c), 3))
            return builder.build()

        return Case(name, "PoolPyramids", build, differing=NONE)

    axes: Axes = {
        "first": (3, 5, 7),
        "second": (2, 3, 5, 9),
        "size": ("1x1", "2x3", "5x5", "7x20"),
        "channels": (16, 48, 128),
        "chained": (0, 1),
        "type": _TYPES,
    }
    return Grid("PoolPyramids.Op/", axes, make)


def _means() -> Grid:
    ratios = {"equal": 1.0, "0_3": 0.3, "2_7": 2.7}

    def make(
        name: str, *, size: str, channels: int, images: int, ratio: str, keep_dims: int, type: str
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("mean")
            dtype = dtype_of(type)
            before, after = (draw_quantization(rng, dtype) for _ in range(2))
            scale = float(np.float32(before.scale * ratios[ratio]))
            result = Quantization((scale,), after.zero_points)
            x = builder.input("input", (images, *pair(size), channels), dtype, before)
            builder.output(mean(builder, x, result, keep_dims=keep_dims == 1))
            return builder.build()

        return Case(name, "Means", build, differing=NONE)

    axes: Axes = {
        "size": ("1x1", "2x2", "7x7", "8x8", "16x16", "13x29", "31x31"),
        "channels": (1, 15, 16, 17, 33, 48, 64, 130),
        "images": (1, 3),
        "ratio": tuple(ratios),
        "keep_dims": (0, 1),
        "type": _TYPES,
    }
    return Grid("Means.Op/", axes, make)


def _maxima() -> Grid:
    def make(
        name: str, *, size: str, channels: int, images: int, keep_dims: int, type: str
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("maximum of pixels")
            dtype = dtype_of(type)
            shape = (images, *pair(size), channels)
            x = builder.input("input", shape, dtype, draw_quantization(rng, dtype))
            builder.output(reduce_max(builder, x, keep_dims=keep_dims == 1))
            return builder.build()

        return Case(name, "ReducedMaxima", build, differing=NONE)

    axes: Axes = {
        "size": ("1x1", "2x2", "7x7", "13x29", "1x17", "40x3"),
        "channels": (1, 16, 17, 33, 48, 130),
        "images": (1, 3),
        "keep_dims": (0, 1),
        "type": _TYPES,
    }
    return Grid("ReducedMaxima.Op/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_windows(), _channels(), _clamps(), _pyramids(), _means(), _maxima())
