"""CONV_2D beyond Teflon's grid: shapes, channels, dilation, batch, groups, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rk3588_conformance.builder.layers import conv
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Grid, Value, grid
from rk3588_conformance.own_grid import (
    PADDINGS,
    TYPES,
    differing_of,
    dtype_of,
    fits,
    layer_grid,
    model,
    numbers_of,
    pair,
    window_in,
    window_of,
)
from rk3588_conformance.random_layers import draw_quantization

_ODD_CHANNELS = (1, 3, 7, 16, 17, 31, 37, 67)
_PADDINGS = tuple(PADDINGS)


@grid(
    "ConvShapes.Op/",
    h=(1, 7, 13, 29),
    w=(1, 5, 11, 31),
    kernel=("1x1", "3x3", "5x3", "1x7", "2x4"),
    stride=("1x1", "2x1", "2x3"),
    padding=_PADDINGS,
    type=TYPES,
    is_in=lambda h, w, **values: fits(window_in(values), h, w),
)
def _shapes(
    name: str, *, h: int, w: int, kernel: str, stride: str, padding: str, type: str
) -> Case:
    """Height and width that differ, down to one pixel; channels drawn by name."""
    dtype, window = dtype_of(type), window_of(kernel, stride, padding=padding)

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        ic, oc = (int(c) for c in rng.choice(_ODD_CHANNELS, 2))
        x = builder.input("input", (1, h, w, ic), dtype, draw_quantization(rng, dtype))
        return conv(builder, rng, x, oc, window, numbers_of(type))

    build = model("ConvShapes", body)
    return Case(name, "ConvShapes", build, differing=differing_of(type))


def _input_shape(
    *, size: str, batch: int = 1, groups: int = 1, inputs: int = 1, input_channels: int = 0,
    **_: Value,
) -> tuple[int, ...]:  # fmt: skip
    return (batch, *pair(size), groups * (input_channels or inputs))


def _layer(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, type: str, groups: int = 1,
    outputs: int = 1, output_channels: int = 0, **values: Value,
) -> int:  # fmt: skip
    window, channels = window_in(values), groups * (output_channels or outputs)
    return conv(builder, rng, x, channels, window, numbers_of(type), groups=groups)


def _grid(label: str, **axes: Any) -> Grid:
    """Kernels of 3 x 3, but for what ``axes`` say; of each of the groups, if there are any, so many
    inputs and outputs.
    """
    return layer_grid(f"{label}.Op/", input_shape=_input_shape, **axes)(_layer)


FAMILIES: tuple[Family, ...] = (
    _shapes,
    # Around the sizes of groups, and into the thousands.
    _grid(
        "ConvChannels",
        size="4x5",
        input_channels=(2, 3, 15, 16, 17, 31, 33, 47, 49, 65, 97, 129, 257, 512, 1021, 2048),
        output_channels=(2, 3, 15, 16, 17, 31, 33, 63, 65, 129, 257, 1001),
        kernel=("1x1", "3x3"),
        type=("uint8", "per_channel"),
    ),
    _grid(
        "ConvDilation",
        size="23x37",
        inputs=19,
        outputs=21,
        dilation=("2x2", "1x3", "5x2", "3x1", "9x8"),
        kernel=("3x3", "2x5"),
        stride=("1x1", "2x1"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _grid(
        "ConvBatch",
        size="11x7",
        inputs=19,
        outputs=35,
        batch=(2, 3, 5),
        kernel=("1x1", "3x3", "5x2"),
        stride=("1x1", "2x2"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    # Grouped convolution: each group of outputs sees its own input channels.
    _grid(
        "ConvGroups",
        size="9x13",
        groups=(2, 3, 4, 8),
        inputs=(2, 4, 16, 33),
        outputs=(1, 5, 16, 32),
        kernel=("1x1", "3x3"),
        stride=("1x1", "2x2"),
        type=("int8", "per_channel"),
    ),
    # Up to the largest kernel.
    _grid(
        "ConvKernels",
        size="37x33",
        inputs=5,
        outputs=6,
        kernel=("4x4", "6x6", "7x7", "11x3", "2x9", "9x8", "15x15", "31x1", "1x31", "31x31"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    _grid(
        "ConvStrides",
        size="29x31",
        inputs=12,
        outputs=20,
        stride=("3x3", "4x1", "1x4", "5x5", "7x6"),
        kernel=("1x1", "3x3", "5x4", "8x8"),
        padding=_PADDINGS,
        type=TYPES,
    ),
    # Patches: strides beyond the register's.
    _grid(
        "ConvPatches",
        size="67x53",
        inputs=(1, 3, 16),
        outputs=(3, 40),
        stride=("16x16", "8x8", "9x12", "1x8"),
        kernel=("16x16", "8x8", "5x9"),
        padding="valid",
        batch=(1, 2),
        type=TYPES,
    ),
    # More weights per output than CBUF holds for a group of kernels.
    _grid(
        "ConvManyInputs",
        size="5x4",
        outputs=41,
        input_channels=(2801, 4099),
        stride=("1x1", "2x3"),
        padding=_PADDINGS,
        type=TYPES,
    ),
)
