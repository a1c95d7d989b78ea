"""CONV_2D beyond Teflon's grid: shapes, channels, dilation, batch, groups, kernels."""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid, Value
from delegate.conformance.own_grid import (
    PADDINGS,
    TYPES,
    differing_of,
    dtype_of,
    fits,
    model,
    numbers_of,
    one_layer,
    window_of,
)
from delegate.conformance.random_layers import conv, draw_quantization

_ODD_CHANNELS = (1, 3, 7, 16, 17, 31, 37, 67)


def _case(
    name: str, label: str, shape: tuple[int, ...], oc: int, window: Window, kind: str,
    groups: int = 1,
) -> Case:  # fmt: skip
    def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        return conv(builder, rng, x, oc, window, numbers_of(kind), groups=groups)

    return one_layer(name, label, shape, kind, layer)


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


def _channels() -> Grid:
    """Around the sizes of groups, and into the thousands."""

    def make(
        name: str, *, input_channels: int, output_channels: int, kernel: str, type: str
    ) -> Case:
        shape = (1, 4, 5, input_channels)
        return _case(name, "ConvChannels", shape, output_channels, window_of(kernel), type)

    return Grid(
        "ConvChannels.Op/",
        {
            "input_channels": (2, 3, 15, 16, 17, 31, 33, 47, 49, 65, 97, 129, 257, 512, 1021, 2048),
            "output_channels": (2, 3, 15, 16, 17, 31, 33, 63, 65, 129, 257, 1001),
            "kernel": ("1x1", "3x3"),
            "type": ("uint8", "per_channel"),
        },
        make,
    )  # fmt: skip


def _dilation() -> Grid:
    def make(
        name: str, *, dilation: str, kernel: str, stride: str, padding: str, type: str
    ) -> Case:
        window = window_of(kernel, stride, dilation, padding)
        return _case(name, "ConvDilation", (1, 23, 37, 19), 21, window, type)

    return Grid(
        "ConvDilation.Op/",
        {
            "dilation": ("2x2", "1x3", "5x2", "3x1", "9x8"),
            "kernel": ("3x3", "2x5"),
            "stride": ("1x1", "2x1"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
    )


def _batch() -> Grid:
    def make(name: str, *, batch: int, kernel: str, stride: str, padding: str, type: str) -> Case:
        window = window_of(kernel, stride, padding=padding)
        return _case(name, "ConvBatch", (batch, 11, 7, 19), 35, window, type)

    return Grid(
        "ConvBatch.Op/",
        {
            "batch": (2, 3, 5),
            "kernel": ("1x1", "3x3", "5x2"),
            "stride": ("1x1", "2x2"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
    )


def _groups() -> Grid:
    """Grouped convolution: each group of outputs sees its own input channels."""

    def make(
        name: str, *, groups: int, inputs: int, outputs: int, kernel: str, stride: str, type: str
    ) -> Case:
        shape = (1, 9, 13, groups * inputs)
        window = window_of(kernel, stride)
        return _case(name, "ConvGroups", shape, groups * outputs, window, type, groups)

    return Grid(
        "ConvGroups.Op/",
        {
            "groups": (2, 3, 4, 8),
            "inputs": (2, 4, 16, 33),
            "outputs": (1, 5, 16, 32),
            "kernel": ("1x1", "3x3"),
            "stride": ("1x1", "2x2"),
            "type": ("int8", "per_channel"),
        },
        make,
    )


def _kernels() -> Grid:
    """Up to the largest kernel."""

    def make(name: str, *, kernel: str, padding: str, type: str) -> Case:
        window = window_of(kernel, padding=padding)
        return _case(name, "ConvKernels", (1, 37, 33, 5), 6, window, type)

    kernels = ("4x4", "6x6", "7x7", "11x3", "2x9", "9x8", "15x15", "31x1", "1x31", "31x31")
    return Grid(
        "ConvKernels.Op/", {"kernel": kernels, "padding": tuple(PADDINGS), "type": TYPES}, make
    )


def _strides() -> Grid:
    def make(name: str, *, stride: str, kernel: str, padding: str, type: str) -> Case:
        window = window_of(kernel, stride, padding=padding)
        return _case(name, "ConvStrides", (1, 29, 31, 12), 20, window, type)

    return Grid(
        "ConvStrides.Op/",
        {
            "stride": ("3x3", "4x1", "1x4", "5x5", "7x6"),
            "kernel": ("1x1", "3x3", "5x4", "8x8"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
    )


def _many_inputs() -> Grid:
    """More weights per output than CBUF holds for a group of kernels."""

    def make(name: str, *, input_channels: int, stride: str, padding: str, type: str) -> Case:
        window = window_of("3x3", stride, padding=padding)
        return _case(name, "ConvManyInputs", (1, 5, 4, input_channels), 41, window, type)

    return Grid(
        "ConvManyInputs.Op/",
        {
            "input_channels": (2801, 4099),
            "stride": ("1x1", "2x3"),
            "padding": tuple(PADDINGS),
            "type": TYPES,
        },
        make,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _shapes(), _channels(), _dilation(), _batch(), _groups(), _kernels(), _strides(),
        _many_inputs(),
    )  # fmt: skip
