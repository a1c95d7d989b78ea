"""The operator grid of Mesa's test_teflon under its own names, as uint8, int8 and per channel.

Its names carry ``is_signed``; there only 0 is instantiated. Here 1 runs too, and per-channel
weights (int8) under a test of their own, ``PerChannel``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from delegate.conformance.builder import layers
from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Numbered
from delegate.conformance.own_grid import model, one_layer
from delegate.conformance.random_layers import (
    LEVELS,
    Numbers,
    conv,
    depthwise,
    draw_quantization,
    fully_connected,
)
from delegate.conformance.tolerance import LARGE_SUMS, REPEATED_SUM, SUM
from delegate.model.graph import DType, Padding, Quantization

INPUT_SIZES = (3, 5, 8, 80, 112)
WEIGHT_SIZES = (1, 3, 5)
DEPTHWISE_WEIGHT_SIZES = (3, 5)
INPUT_CHANNELS = (1, 32, 120, 128, 256)
OUTPUT_CHANNELS = (1, 32, 120, 128, 160, 256)
STRIDES = (1, 2)
FULLY_CONNECTED_SIZES = (128, 1280, 25088, 62720)
ADD_QUANT_CASES = 100
ADD_QUANT_SCALES = (0.0078125, 0.4386)
ADD_QUANT_ZERO_POINTS = 255

# The rule by which a model without output must be refused.
NO_OUTPUT_RULES = ("no_empty_tensors", "output_size_follows")

_IS_SIGNED = {"Op": (0, 1), "PerChannel": (1,)}


def _label(suite: str, is_signed: int, per_channel: bool) -> str:
    return f"{suite} {'per-channel' if per_channel else ('uint8', 'int8')[is_signed]}"


def _dtype(is_signed: int) -> DType:
    return DType.INT8 if is_signed else DType.UINT8


def _window(size: int, kernel: int, stride: int, padding_same: int) -> Window:
    padding = Padding.SAME if padding_same else Padding.VALID
    declared = None if _has_output(size, kernel, padding_same) else (1, 1)
    return Window(kernel, kernel, stride, stride, padding=padding, declared_size=declared)


def _has_output(size: int, kernel: int, padding_same: int) -> bool:
    return bool(padding_same) or kernel <= size


SpatialLayer = Callable[[ModelBuilder, np.random.Generator, int, int, Window, Numbers], int]
"""(builder, generator, input, output channels, window, numbers) to the output."""


def _spatial_family(
    suite: str, test: str, channels: Axes, kernels: Sequence[int], differing: float,
    layer: SpatialLayer,
) -> Grid:  # fmt: skip
    """Square images and windows. Where VALID leaves no pixel, TensorFlow Lite refuses the model,
    and so must the compiler.
    """
    per_channel = test == "PerChannel"

    def make(
        name: str,
        *,
        input_size: int,
        weight_size: int,
        stride: int,
        padding_same: int,
        is_signed: int,
        input_channels: int = 0,
        channels: int = 0,
        output_channels: int = 0,
    ) -> Case:
        def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
            shape = (1, input_size, input_size, input_channels or channels)
            dtype = _dtype(is_signed)
            x = builder.input("input", shape, dtype, draw_quantization(rng, dtype))
            window = _window(input_size, weight_size, stride, padding_same)
            numbers = Numbers(per_channel=per_channel)
            return layer(builder, rng, x, output_channels, window, numbers)

        label, build = _label(suite, is_signed, per_channel), model(suite, body)
        if _has_output(input_size, weight_size, padding_same):
            return Case(name, label, build, differing=differing, input_levels=LEVELS)
        return Case(name, label, build, rejected_by=NO_OUTPUT_RULES, runs_on_cpu=False)

    axes: Axes = {
        "input_size": INPUT_SIZES,
        "weight_size": kernels,
        **channels,
        "stride": STRIDES,
        "padding_same": (0, 1),
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"{suite}.{test}/", axes, make)


def _depthwise(
    builder: ModelBuilder,
    rng: np.random.Generator,
    x: int,
    _: int,
    window: Window,
    numbers: Numbers,
) -> int:
    return depthwise(builder, rng, x, window, numbers)


def _sum_of_two(
    builder: ModelBuilder, rng: np.random.Generator, x: int, oc: int, window: Window,
    numbers: Numbers,
) -> int:  # fmt: skip
    """Two convolutions of the same input, and their sum."""
    first, second = (
        conv(builder, rng, x, oc, window, numbers, name=part) for part in ("first", "second")
    )
    return layers.add(builder, first, second)


def _spatial_families() -> Iterator[Grid]:
    dense: Axes = {"input_channels": INPUT_CHANNELS, "output_channels": OUTPUT_CHANNELS}
    alone: Axes = {"channels": INPUT_CHANNELS}
    kernels = DEPTHWISE_WEIGHT_SIZES
    for suite, channels, sizes, differing, layer in (
        ("Conv2D", dense, WEIGHT_SIZES, LARGE_SUMS, conv),
        ("DepthwiseConv2D", alone, kernels, LARGE_SUMS, _depthwise),
        ("Add", dense, WEIGHT_SIZES, REPEATED_SUM, _sum_of_two),
    ):
        for test in _IS_SIGNED:
            yield _spatial_family(suite, test, channels, sizes, differing, layer)


def _add_quant_family(test: str, is_signed: int, per_channel: bool) -> Numbered:
    """1x1 convolutions of one channel whose outputs have random scales and zero points."""

    def make(name: str, index: int) -> Case:
        dtype = _dtype(is_signed)

        def operand(rng: np.random.Generator) -> Quantization:
            scale = float(np.float32(rng.uniform(*ADD_QUANT_SCALES)))
            zero_point = int(rng.integers(ADD_QUANT_ZERO_POINTS)) + LIMITS[dtype][0]
            return Quantization((scale,), (zero_point,))

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            first, second = (
                conv(
                    builder, rng, x, 1, Window(padding=Padding.VALID),
                    Numbers(per_channel=per_channel, output=operand(rng)), name=part,
                )
                for part in ("first", "second")
            )  # fmt: skip
            return layers.add(builder, first, second)

        kind = ("uint8", "int8")[is_signed]
        case = one_layer(name, "AddQuant", (1, 40, 40, 1), kind, layer, differing=SUM)
        return replace(case, label=_label("AddQuant", is_signed, per_channel), input_levels=LEVELS)

    return Numbered(f"AddQuant.{test}/", ADD_QUANT_CASES, make)


def _fully_connected_family(test: str) -> Grid:
    per_channel = test == "PerChannel"

    def make(name: str, *, input_size: int, output_channels: int, is_signed: int) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            numbers = Numbers(per_channel=per_channel)
            return fully_connected(builder, rng, x, output_channels, numbers)

        kind = ("uint8", "int8")[is_signed]
        case = one_layer(name, "FC", (1, input_size), kind, layer, differing=LARGE_SUMS)
        label = _label("FullyConnected", is_signed, per_channel)
        return replace(case, label=label, input_levels=LEVELS)

    axes: Axes = {
        "input_size": FULLY_CONNECTED_SIZES,
        "output_channels": OUTPUT_CHANNELS,
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"FullyConnected.{test}/", axes, make)


def families() -> tuple[Family, ...]:
    """Conv2D, DepthwiseConv2D, Add, AddQuant and FullyConnected."""
    return (
        *_spatial_families(),
        _add_quant_family("Op", 0, False),
        _add_quant_family("Signed", 1, False),
        _add_quant_family("PerChannel", 1, True),
        *(_fully_connected_family(test) for test in _IS_SIGNED),
    )  # fmt: skip
