"""DEPTHWISE_CONV_2D beyond Teflon's grid: shapes, channels, multipliers, dilation, batch."""

from __future__ import annotations

import numpy as np

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
    window_in,
)
from delegate.conformance.random_layers import depthwise


def _grid(label: str, size: str, channels: int, axes: Axes) -> Grid:
    """Kernels of 3 x 3 on images of ``size`` with so many ``channels``, but for what ``axes`` say;
    without combinations that have no output.
    """

    def make(name: str, *, type: str, **values: Value) -> Case:
        window, multiplier = window_in(values), int(values.get("multiplier", 1))

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return depthwise(builder, rng, x, window, numbers_of(type), multiplier=multiplier)

        sides = pair(str(values.get("size", size)))
        shape = (int(values.get("batch", 1)), *sides, int(values.get("channels", channels)))
        return one_layer(name, label, shape, type, layer)

    def is_in(**values: Value) -> bool:
        return fits(window_in(values), *pair(str(values.get("size", size))))

    return Grid(f"{label}.Op/", axes, make, is_in)


_SHAPES: Axes = {
    "size": ("7x13", "1x31", "23x1", "29x17"),
    "channels": (2, 17, 64, 65, 97, 130),
    "kernel": ("1x1", "3x3", "5x2"),
    "stride": ("1x1", "2x1", "3x2"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}

_MULTIPLIER: Axes = {
    "multiplier": (2, 3, 4, 8),
    "channels": (1, 3, 8, 16, 33),
    "stride": ("1x1", "2x2"),
    "type": TYPES,
}

_DILATION: Axes = {
    "dilation": ("2x2", "1x3", "4x5"),
    "kernel": ("3x3", "2x5"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}

_BATCH: Axes = {"batch": (2, 5), "channels": (5, 67), "stride": ("1x1", "2x2"), "type": TYPES}

_KERNELS: Axes = {
    "kernel": ("2x2", "4x7", "7x7", "11x11", "31x1", "1x31", "31x31"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _grid("DepthwiseShapes", "1x1", 1, _SHAPES),
        _grid("DepthMultiplier", "9x14", 1, _MULTIPLIER),
        _grid("DepthwiseDilation", "25x31", 70, _DILATION),
        _grid("DepthwiseBatch", "12x7", 1, _BATCH),
        _grid("DepthwiseKernels", "34x37", 19, _KERNELS),
    )
