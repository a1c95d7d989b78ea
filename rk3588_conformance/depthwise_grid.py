"""DEPTHWISE_CONV_2D beyond Teflon's grid: shapes, channels, multipliers, dilation, batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from rk3588_conformance.builder.layers import depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Grid, Value
from rk3588_conformance.own_grid import (
    PADDINGS,
    TYPES,
    fits,
    layer_grid,
    numbers_of,
    pair,
    window_in,
)


def _layer(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, type: str, multiplier: int = 1,
    **values: Value,
) -> int:  # fmt: skip
    window = window_in(values)
    return depthwise(builder, rng, x, window, numbers_of(type), multiplier=multiplier)


def _grid(label: str, **axes: Any) -> Grid:
    """Kernels of 3 x 3, but for what ``axes`` say; without combinations that have no output."""
    return layer_grid(
        f"{label}.Op/", is_in=lambda size, **values: fits(window_in(values), *pair(size)), **axes
    )(_layer)


FAMILIES: tuple[Family, ...] = (
    _grid(
        "DepthwiseShapes",
        size=("7x13", "1x31", "23x1", "29x17"),
        channels=(2, 17, 64, 65, 97, 130),
        kernel=("1x1", "3x3", "5x2"),
        stride=("1x1", "2x1", "3x2"),
        padding=tuple(PADDINGS),
        type=TYPES,
    ),
    _grid(
        "DepthMultiplier",
        size="9x14",
        multiplier=(2, 3, 4, 8),
        channels=(1, 3, 8, 16, 33),
        stride=("1x1", "2x2"),
        type=TYPES,
    ),
    _grid(
        "DepthwiseDilation",
        size="25x31",
        channels=70,
        dilation=("2x2", "1x3", "4x5"),
        kernel=("3x3", "2x5"),
        padding=tuple(PADDINGS),
        type=TYPES,
    ),
    _grid(
        "DepthwiseBatch",
        size="12x7",
        batch=(2, 5),
        channels=(5, 67),
        stride=("1x1", "2x2"),
        type=TYPES,
    ),
    _grid(
        "DepthwiseKernels",
        size="34x37",
        channels=19,
        kernel=("2x2", "4x7", "7x7", "11x11", "31x1", "1x31", "31x31"),
        padding=tuple(PADDINGS),
        type=TYPES,
    ),
)
