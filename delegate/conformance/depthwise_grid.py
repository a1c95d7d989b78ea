"""DEPTHWISE_CONV_2D beyond Teflon's grid: shapes, channels, multipliers, dilation, batch."""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import (
    PADDINGS,
    TYPES,
    fits,
    numbers_of,
    one_layer,
    pair,
    window_of,
)
from delegate.conformance.random_layers import depthwise


def _case(
    name: str, label: str, shape: tuple[int, ...], window: Window, kind: str, multiplier: int = 1
) -> Case:
    def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        return depthwise(builder, rng, x, window, numbers_of(kind), multiplier=multiplier)

    return one_layer(name, label, shape, kind, layer)


def _shapes() -> Grid:
    def make(
        name: str, *, size: str, channels: int, kernel: str, stride: str, padding: str, type: str
    ) -> Case:
        window = window_of(kernel, stride, padding=padding)
        return _case(name, "DepthwiseShapes", (1, *pair(size), channels), window, type)

    def is_in(*, size: str, kernel: str, padding: str, **_: Value) -> bool:
        return fits(window_of(kernel, padding=padding), *pair(size))

    return Grid(
        "DepthwiseShapes.Op/",
        {
            "size": ("7x13", "1x31", "23x1", "29x17"),
            "channels": (2, 17, 64, 65, 97, 130),
            "kernel": ("1x1", "3x3", "5x2"),
            "stride": ("1x1", "2x1", "3x2"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
        is_in,
    )


def _multiplier() -> Grid:
    def make(name: str, *, multiplier: int, channels: int, stride: str, type: str) -> Case:
        shape, window = (1, 9, 14, channels), window_of("3x3", stride)
        return _case(name, "DepthMultiplier", shape, window, type, multiplier)

    return Grid(
        "DepthMultiplier.Op/",
        {
            "multiplier": (2, 3, 4, 8),
            "channels": (1, 3, 8, 16, 33),
            "stride": ("1x1", "2x2"),
            "type": TYPES,
        },
        make,
    )


def _dilation() -> Grid:
    def make(name: str, *, dilation: str, kernel: str, padding: str, type: str) -> Case:
        window = window_of(kernel, "1x1", dilation, padding)
        return _case(name, "DepthwiseDilation", (1, 25, 31, 70), window, type)

    return Grid(
        "DepthwiseDilation.Op/",
        {
            "dilation": ("2x2", "1x3", "4x5"),
            "kernel": ("3x3", "2x5"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
    )


def _batch() -> Grid:
    def make(name: str, *, batch: int, channels: int, stride: str, type: str) -> Case:
        shape = (batch, 12, 7, channels)
        return _case(name, "DepthwiseBatch", shape, window_of("3x3", stride), type)

    axes: Axes = {"batch": (2, 5), "channels": (5, 67), "stride": ("1x1", "2x2"), "type": TYPES}
    return Grid("DepthwiseBatch.Op/", axes, make)


def _kernels() -> Grid:
    def make(name: str, *, kernel: str, padding: str, type: str) -> Case:
        window = window_of(kernel, padding=padding)
        return _case(name, "DepthwiseKernels", (1, 34, 37, 19), window, type)

    kernels = ("2x2", "4x7", "7x7", "11x11", "31x1", "1x31", "31x31")
    return Grid(
        "DepthwiseKernels.Op/", {"kernel": kernels, "padding": tuple(PADDINGS), "type": TYPES}, make
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_shapes(), _multiplier(), _dilation(), _batch(), _kernels())
