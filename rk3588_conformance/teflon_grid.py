"""The operator grid of Mesa's test_teflon under its own names, as uint8, int8 and per channel.

Its names carry ``is_signed``; there only 0 is instantiated. Here 1 runs too, and per-channel
weights (int8) under a test of their own, ``PerChannel``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from delegate.model.graph import Padding
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Case
from rk3588_conformance.grid import Axes, Grid, Outputs, Values, grid, model_case
from rk3588_conformance.net import Net
from rk3588_conformance.random_layers import LEVELS
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
Layer = Callable[[Net, Values], Outputs]


def _case(
    name: str, v: Values, test: str, shape: Sequence[int], layer: Layer, differing: float
) -> Case:
    v.type = "per_channel" if test == "PerChannel" else ("uint8", "int8")[v.is_signed]

    def body(net: Net, v: Values) -> Outputs:
        net.x = net.input("input", shape, v.dtype, net.drawn(v.dtype))
        return layer(net, v)

    label = f"{name.partition('.')[0]} {v.type.replace('_', '-')}"
    return model_case(name, v, body, label, differing=differing, input_levels=LEVELS)


def _has_output(v: Values) -> bool:
    return bool(v.padding_same) or v.weight_size <= v.input_size


def _window(v: Values) -> Window:
    padding = Padding.SAME if v.padding_same else Padding.VALID
    declared = None if _has_output(v) else (1, 1)
    sides = (v.weight_size, v.weight_size, v.stride, v.stride)
    return Window(*sides, padding=padding, declared_size=declared)


def _spatial_family(
    test: str, suite: str, channels: Axes, kernels: Sequence[int], differing: float, layer: Layer
) -> Grid:
    """Square images and windows. Where VALID leaves no pixel, TensorFlow Lite refuses the model,
    and so must the compiler.
    """

    def make(name: str, v: Values) -> Case:
        shape = (1, v.input_size, v.input_size, v.input_channels or v.channels)
        case = _case(name, v, test, shape, layer, differing)
        if _has_output(v):
            return case
        return Case(name, case.label, case.build, rejected_by=NO_OUTPUT_RULES, runs_on_cpu=False)

    axes: dict[str, Any] = {
        "input_size": INPUT_SIZES,
        "weight_size": kernels,
        **channels,
        "stride": STRIDES,
        "padding_same": (0, 1),
        "is_signed": _IS_SIGNED[test],
    }
    return grid(f"{suite}.{test}/", **axes)(make)


def _convolution(net: Net, v: Values, name: str = "conv") -> int:
    return net.conv(net.x, v.output_channels, _window(v), v.layer_numbers, name=name)


def _depthwise(net: Net, v: Values) -> int:
    return net.depthwise(net.x, _window(v), v.layer_numbers)


def _sum_of_two(net: Net, v: Values) -> int:
    """Two convolutions of the same input, and their sum."""
    return layers.add(net, *(_convolution(net, v, part) for part in ("first", "second")))


_DENSE: Axes = {"input_channels": INPUT_CHANNELS, "output_channels": OUTPUT_CHANNELS}
_ALONE: Axes = {"channels": INPUT_CHANNELS}
_SUITES: tuple[tuple[str, Axes, Sequence[int], float, Layer], ...] = (
    ("Conv2D", _DENSE, WEIGHT_SIZES, LARGE_SUMS, _convolution),
    ("DepthwiseConv2D", _ALONE, DEPTHWISE_WEIGHT_SIZES, LARGE_SUMS, _depthwise),
    ("Add", _DENSE, WEIGHT_SIZES, REPEATED_SUM, _sum_of_two),
)
_SPATIAL = tuple(_spatial_family(test, *suite) for suite in _SUITES for test in _IS_SIGNED)


def _sum_of_scaled(net: Net, v: Values) -> int:
    """1x1 convolutions of one channel whose outputs have random scales and zero points."""

    def operand(part: str) -> int:
        scale = net.rng.uniform(*ADD_QUANT_SCALES)
        zero_point = int(net.rng.integers(ADD_QUANT_ZERO_POINTS)) + LIMITS[v.dtype][0]
        numbers = replace(v.layer_numbers, output=one_scale(scale, zero_point))
        return net.conv(net.x, 1, Window(padding=Padding.VALID), numbers, name=part)

    return layers.add(net, *(operand(part) for part in ("first", "second")))


def _add_quant_family(test: str, is_signed: int) -> Grid:
    def make(name: str, v: Values) -> Case:
        return _case(name, v, test, (1, 40, 40, 1), _sum_of_scaled, SUM)

    return grid(f"AddQuant.{test}/", _number=range(ADD_QUANT_CASES), is_signed=is_signed)(make)


def _fully_connected_family(test: str) -> Grid:
    def layer(net: Net, v: Values) -> int:
        return net.fully_connected(net.x, v.output_channels, v.layer_numbers)

    def make(name: str, v: Values) -> Case:
        return _case(name, v, test, (1, v.input_size), layer, LARGE_SUMS)

    return grid(
        f"FullyConnected.{test}/",
        input_size=FULLY_CONNECTED_SIZES,
        output_channels=OUTPUT_CHANNELS,
        is_signed=_IS_SIGNED[test],
    )(make)


_OTHERS = (
    *(_add_quant_family(*which) for which in (("Op", 0), ("Signed", 1), ("PerChannel", 1))),
    *map(_fully_connected_family, _IS_SIGNED),
)
