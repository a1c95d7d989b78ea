"""The operator grid of Mesa's test_teflon under its own names, as uint8, int8 and per channel.

Its names carry ``is_signed``; there only 0 is instantiated. Here 1 runs too, and per-channel
weights (int8) under a test of their own, ``PerChannel``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from delegate.model.graph import Padding
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import Window, conv, depthwise, fully_connected
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Axes, Grid, Numbered
from rk3588_conformance.own_grid import Layer, dtype_of, numbers_of, one_layer
from rk3588_conformance.random_layers import LEVELS, Numbers
from rk3588_conformance.tolerance import LARGE_SUMS, REPEATED_SUM, SUM

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


def _kind(is_signed: int, test: str) -> str:
    """One of ``TYPES``."""
    return "per_channel" if test == "PerChannel" else ("uint8", "int8")[is_signed]


def _case(
    name: str, suite: str, kind: str, shape: Sequence[int], layer: Layer, differing: float
) -> Case:
    label = f"{suite} {kind.replace('_', '-')}"
    return one_layer(name, label, shape, kind, layer, differing=differing, input_levels=LEVELS)


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

    def make(
        name: str, *, input_size: int, weight_size: int, stride: int, padding_same: int,
        is_signed: int, input_channels: int = 0, channels: int = 0, output_channels: int = 0,
    ) -> Case:  # fmt: skip
        kind, window = (
            _kind(is_signed, test),
            _window(input_size, weight_size, stride, padding_same),
        )

        def made(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return layer(builder, rng, x, output_channels, window, numbers_of(kind))

        shape = (1, input_size, input_size, input_channels or channels)
        case = _case(name, suite, kind, shape, made, differing)
        if _has_output(input_size, weight_size, padding_same):
            return case
        return Case(name, case.label, case.build, rejected_by=NO_OUTPUT_RULES, runs_on_cpu=False)

    axes: Axes = {
        "input_size": INPUT_SIZES,
        "weight_size": kernels,
        **channels,
        "stride": STRIDES,
        "padding_same": (0, 1),
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"{suite}.{test}/", axes, make)


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
    suites: tuple[tuple[str, Axes, Sequence[int], float, SpatialLayer], ...] = (
        ("Conv2D", dense, WEIGHT_SIZES, LARGE_SUMS, conv),
        ("DepthwiseConv2D", alone, DEPTHWISE_WEIGHT_SIZES, LARGE_SUMS,
         lambda builder, rng, x, _, *how: depthwise(builder, rng, x, *how)),
        ("Add", dense, WEIGHT_SIZES, REPEATED_SUM, _sum_of_two),
    )  # fmt: skip
    for suite, channels, sizes, differing, layer in suites:
        for test in _IS_SIGNED:
            yield _spatial_family(suite, test, channels, sizes, differing, layer)


def _add_quant_family(test: str, is_signed: int) -> Numbered:
    """1x1 convolutions of one channel whose outputs have random scales and zero points."""
    kind = _kind(is_signed, test)

    def operand(builder: ModelBuilder, rng: np.random.Generator, x: int, part: str) -> int:
        scale = rng.uniform(*ADD_QUANT_SCALES)
        zero_point = int(rng.integers(ADD_QUANT_ZERO_POINTS)) + LIMITS[dtype_of(kind)][0]
        numbers = replace(numbers_of(kind), output=one_scale(scale, zero_point))
        return conv(builder, rng, x, 1, Window(padding=Padding.VALID), numbers, name=part)

    def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        first, second = (operand(builder, rng, x, part) for part in ("first", "second"))
        return layers.add(builder, first, second)

    def make(name: str, index: int) -> Case:
        return _case(name, "AddQuant", kind, (1, 40, 40, 1), layer, SUM)

    return Numbered(f"AddQuant.{test}/", ADD_QUANT_CASES, make)


def _fully_connected_family(test: str) -> Grid:
    def make(name: str, *, input_size: int, output_channels: int, is_signed: int) -> Case:
        kind = _kind(is_signed, test)

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            return fully_connected(builder, rng, x, output_channels, numbers_of(kind))

        return _case(name, "FullyConnected", kind, (1, input_size), layer, LARGE_SUMS)

    axes: Axes = {
        "input_size": FULLY_CONNECTED_SIZES,
        "output_channels": OUTPUT_CHANNELS,
        "is_signed": _IS_SIGNED[test],
    }
    return Grid(f"FullyConnected.{test}/", axes, make)


FAMILIES: tuple[Family, ...] = (
    *_spatial_families(),
    _add_quant_family("Op", 0),
    _add_quant_family("Signed", 1),
    _add_quant_family("PerChannel", 1),
    *(_fully_connected_family(test) for test in _IS_SIGNED),
)
"""Conv2D, DepthwiseConv2D, Add, AddQuant and FullyConnected."""
