"""CONV_2D beyond Teflon's grid: shapes, channels, dilation, batch, groups, kernels."""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import (
    PADDINGS,
    TYPES,
    differing_of,
    dtype_of,
    fits,
    model,
    numbers_of,
    one_layer,
    window_in,
    window_of,
)
from delegate.conformance.random_layers import conv, draw_quantization

_ODD_CHANNELS = (1, 3, 7, 16, 17, 31, 37, 67)


def _grid(label: str, size: tuple[int, int], channels: tuple[int, int], axes: Axes) -> Grid:
    """Kernels of 3 x 3 on images of ``size`` with so many input and output ``channels`` (of each of
    the groups, if there are any), but for what ``axes`` say.
    """

    def make(name: str, *, type: str, **values: Value) -> Case:
        window, groups = window_in(values), int(values.get("groups", 1))
        inputs, outputs = (
            groups * int(values.get(end, values.get(f"{end[:-1]}_channels", count)))
            for end, count in zip(("inputs", "outputs"), channels, strict=True)
        )

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return conv(builder, rng, x, outputs, window, numbers_of(type), groups=groups)

        shape = (int(values.get("batch", 1)), *size, inputs)
        return one_layer(name, label, shape, type, layer)

    return Grid(f"{label}.Op/", axes, make)


def _shapes() -> Grid:
    """Height and width that differ, down to one pixel; channels drawn by name."""

    def make(
        name: str, *, h: int, w: int, kernel: str, stride: str, padding: str, type: str
    ) -> Case:
        dtype, window = dtype_of(type), window_of(kernel, stride, padding=padding)

        def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
            ic, oc = (int(c) for c in rng.choice(_ODD_CHANNELS, 2))
            x = builder.input("input", (1, h, w, ic), dtype, draw_quantization(rng, dtype))
            return conv(builder, rng, x, oc, window, numbers_of(type))

        build = model("ConvShapes", body)
        return Case(name, "ConvShapes", build, differing=differing_of(type))

    def is_in(*, h: int, w: int, kernel: str, padding: str, **_: Value) -> bool:
        return fits(window_of(kernel, padding=padding), h, w)

    return Grid(
        "ConvShapes.Op/",
        {
            "h": (1, 7, 13, 29),
            "w": (1, 5, 11, 31),
            "kernel": ("1x1", "3x3", "5x3", "1x7", "2x4"),
            "stride": ("1x1", "2x1", "2x3"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
        is_in,
    )


_CHANNELS: Axes = {
    "input_channels": (2, 3, 15, 16, 17, 31, 33, 47, 49, 65, 97, 129, 257, 512, 1021, 2048),
    "output_channels": (2, 3, 15, 16, 17, 31, 33, 63, 65, 129, 257, 1001),
    "kernel": ("1x1", "3x3"),
    "type": ("uint8", "per_channel"),
}
"""Around the sizes of groups, and into the thousands."""

_DILATION: Axes = {
    "dilation": ("2x2", "1x3", "5x2", "3x1", "9x8"),
    "kernel": ("3x3", "2x5"),
    "stride": ("1x1", "2x1"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}

_BATCH: Axes = {
    "batch": (2, 3, 5),
    "kernel": ("1x1", "3x3", "5x2"),
    "stride": ("1x1", "2x2"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}

_GROUPS: Axes = {
    "groups": (2, 3, 4, 8),
    "inputs": (2, 4, 16, 33),
    "outputs": (1, 5, 16, 32),
    "kernel": ("1x1", "3x3"),
    "stride": ("1x1", "2x2"),
    "type": ("int8", "per_channel"),
}
"""Grouped convolution: each group of outputs sees its own input channels."""

_KERNELS: Axes = {
    "kernel": ("4x4", "6x6", "7x7", "11x3", "2x9", "9x8", "15x15", "31x1", "1x31", "31x31"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}
"""Up to the largest kernel."""

_STRIDES: Axes = {
    "stride": ("3x3", "4x1", "1x4", "5x5", "7x6"),
    "kernel": ("1x1", "3x3", "5x4", "8x8"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}

_MANY_INPUTS: Axes = {
    "input_channels": (2801, 4099),
    "stride": ("1x1", "2x3"),
    "padding": tuple(PADDINGS),
    "type": TYPES,
}
"""More weights per output than CBUF holds for a group of kernels."""


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _shapes(),
        _grid("ConvChannels", (4, 5), (1, 1), _CHANNELS),
        _grid("ConvDilation", (23, 37), (19, 21), _DILATION),
        _grid("ConvBatch", (11, 7), (19, 35), _BATCH),
        _grid("ConvGroups", (9, 13), (1, 1), _GROUPS),
        _grid("ConvKernels", (37, 33), (5, 6), _KERNELS),
        _grid("ConvStrides", (29, 31), (12, 20), _STRIDES),
        _grid("ConvManyInputs", (5, 4), (1, 41), _MANY_INPUTS),
    )
