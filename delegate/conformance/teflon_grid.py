"""The operator grid of Mesa's test_teflon under its own names, as uint8, int8 and per channel.

Its names carry ``is_signed``; there only 0 is instantiated. Here 1 runs too, and per-channel
weights (int8) under a test of their own, ``PerChannel``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.conformance.builder import layers
from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Numbered
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
    return Window(
        kh=kernel, kw=kernel, sh=stride, sw=stride, padding=padding, declared_size=declared
    )


def _has_output(size: int, kernel: int, padding_same: int) -> bool:
    return bool(padding_same) or kernel <= size


def _input(
    builder: ModelBuilder, rng: np.random.Generator, size: int, channels: int, dtype: DType
) -> int:
    shape = (1, size, size, channels)
    return builder.input("input", shape, dtype, draw_quantization(rng, dtype))


def _spatial_case(
    name: str,
    label: str,
    has_output: bool,
    build: Callable[[np.random.Generator], bytes],
    differing: float,
) -> Case:
    """Where VALID leaves no pixel, TensorFlow Lite refuses the model, and so must the compiler."""
    if has_output:
        return Case(name, label, build, differing=differing, input_levels=LEVELS)
    return Case(name, label, build, rejected_by=NO_OUTPUT_RULES, runs_on_cpu=False)


def _conv_family(test: str) -> Grid:
    per_channel = test == "PerChannel"

    def make(
        name: str,
        *,
        input_size: int,
        weight_size: int,
        input_channels: int,
        output_channels: int,
        stride: int,
        padding_same: int,
        is_signed: int,
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("conv_2d")
            x = _input(builder, rng, input_size, input_channels, _dtype(is_signed))
            window = _window(input_size, weight_size, stride, padding_same)
            builder.output(
                conv(builder, rng, x, output_channels, window, Numbers(per_channel=per_channel))
            )
            return builder.build()

        has_output = _has_output(input_size, weight_size, padding_same)
        label = _label("Conv2D", is_signed, per_channel)
        return _spatial_case(name, label, has_output, build, LARGE_SUMS)

    return Grid(f"Conv2D.{test}/", _convolution_axes(test), make)


def _convolution_axes(test: str) -> Axes:
    return {
        "input_size": INPUT_SIZES,
        "weight_size": WEIGHT_SIZES,
        "input_channels": INPUT_CHANNELS,
        "output_channels": OUTPUT_CHANNELS,
        "stride": STRIDES,
        "padding_same": (0, 1),
        "is_signed": _IS_SIGNED[test],
    }


def _depthwise_family(test: str) -> Grid:
    per_channel = test == "PerChannel"

    def make(
        name: str,
        *,
        input_size: int,
        weight_size: int,
        channels: int,
        stride: int,
        padding_same: int,
        is_signed: int,
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("depthwise_conv_2d")
            x = _input(builder, rng, input_size, channels, _dtype(is_signed))
            window = _window(input_size, weight_size, stride, padding_same)
            builder.output(depthwise(builder, rng, x, window, Numbers(per_channel=per_channel)))
            return builder.build()

        label = _label("DepthwiseConv2D", is_signed, per_channel)
        has_output = _has_output(input_size, weight_size, padding_same)
        return _spatial_case(name, label, has_output, build, LARGE_SUMS)

    axes: Axes = {
        "input_size": INPUT_SIZES,
        "weight_size": DEPTHWISE_WEIGHT_SIZES,
        "channels": INPUT_CHANNELS,
        "stride": STRIDES,
        "padding_same": (0, 1),
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"DepthwiseConv2D.{test}/", axes, make)


def _add_family(test: str) -> Grid:
    """Two convolutions of the same input, and their sum."""
    per_channel = test == "PerChannel"

    def make(
        name: str,
        *,
        input_size: int,
        weight_size: int,
        input_channels: int,
        output_channels: int,
        stride: int,
        padding_same: int,
        is_signed: int,
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("conv_conv_add")
            x = _input(builder, rng, input_size, input_channels, _dtype(is_signed))
            window = _window(input_size, weight_size, stride, padding_same)
            numbers = Numbers(per_channel=per_channel)
            first, second = (
                conv(builder, rng, x, output_channels, window, numbers, name=part)
                for part in ("first", "second")
            )
            builder.output(layers.add(builder, first, second))
            return builder.build()

        has_output = _has_output(input_size, weight_size, padding_same)
        label = _label("Add", is_signed, per_channel)
        return _spatial_case(name, label, has_output, build, REPEATED_SUM)

    return Grid(f"Add.{test}/", _convolution_axes(test), make)


def _add_quant_family(test: str, is_signed: int, per_channel: bool) -> Numbered:
    """1x1 convolutions of one channel whose outputs have random scales and zero points."""

    def make(name: str, index: int) -> Case:
        dtype = _dtype(is_signed)

        def operand(rng: np.random.Generator) -> Quantization:
            scale = float(np.float32(rng.uniform(*ADD_QUANT_SCALES)))
            zero_point = int(rng.integers(ADD_QUANT_ZERO_POINTS)) + LIMITS[dtype][0]
            return Quantization((scale,), (zero_point,))

        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("add_quant")
            x = _input(builder, rng, 40, 1, dtype)
            window = Window(padding=Padding.VALID)
            first, second = (
                conv(
                    builder, rng, x, 1, window,
                    Numbers(per_channel=per_channel, output=operand(rng)), name=part,
                )
                for part in ("first", "second")
            )  # fmt: skip
            builder.output(layers.add(builder, first, second))
            return builder.build()

        label = _label("AddQuant", is_signed, per_channel)
        return Case(name, label, build, differing=SUM, input_levels=LEVELS)

    return Numbered(f"AddQuant.{test}/", ADD_QUANT_CASES, make)


def _fully_connected_family(test: str) -> Grid:
    per_channel = test == "PerChannel"

    def make(name: str, *, input_size: int, output_channels: int, is_signed: int) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("fully_connected")
            dtype = _dtype(is_signed)
            x = builder.input("input", (1, input_size), dtype, draw_quantization(rng, dtype))
            numbers = Numbers(per_channel=per_channel)
            builder.output(fully_connected(builder, rng, x, output_channels, numbers))
            return builder.build()

        label = _label("FullyConnected", is_signed, per_channel)
        return Case(name, label, build, differing=LARGE_SUMS, input_levels=LEVELS)

    axes: Axes = {
        "input_size": FULLY_CONNECTED_SIZES,
        "output_channels": OUTPUT_CHANNELS,
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"FullyConnected.{test}/", axes, make)


def families() -> tuple[Family, ...]:
    """Conv2D, DepthwiseConv2D, Add, AddQuant and FullyConnected."""
    return (
        *(_conv_family(test) for test in _IS_SIGNED),
        *(_depthwise_family(test) for test in _IS_SIGNED),
        *(_add_family(test) for test in _IS_SIGNED),
        _add_quant_family("Op", 0, False),
        _add_quant_family("Signed", 1, False),
        _add_quant_family("PerChannel", 1, True),
        *(_fully_connected_family(test) for test in _IS_SIGNED),
    )  # fmt: skip
