"""The operator grid of Mesa's test_teflon under its own names, as uint8, int8 and per channel.

Its names carry ``is_signed``; there only 0 is instantiated. Here 1 runs too, and per-channel
weights (int8) under a test of their own, ``PerChannel``.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from delegate.model.graph import Padding
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Case
from rk3588_conformance.grid import EIGHT_BITS, Body, Grid, Outputs, Values, grid, model_case
from rk3588_conformance.random_layers import LEVELS
from rk3588_conformance.tolerance import LARGE_SUMS, REPEATED_SUM, SUM

INPUT_CHANNELS = (1, 32, 120, 128, 256)
OUTPUT_CHANNELS = (1, 32, 120, 128, 160, 256)
ADD_QUANT_SCALES = (0.0078125, 0.4386)
ADD_QUANT_ZERO_POINTS = 255

# The rule by which a model without output must be refused.
NO_OUTPUT_RULES = ("no_empty_tensors", "output_size_follows")


def _has_output(v: Values) -> bool:
    return bool(getattr(v, "padding_same", True)) or v.weight_size <= v.input_size


def _window(v: Values) -> Window:
    padding = Padding.SAME if v.padding_same else Padding.VALID
    declared = None if _has_output(v) else (1, 1)
    sides = (v.weight_size, v.weight_size, v.stride, v.stride)
    return Window(*sides, padding=padding, declared_size=declared)


def _convolution(net: Net, v: Values, name: str = "conv") -> int:
    return net.conv(net.x, v.output_channels, _window(v), v.layer_numbers, name=name)


def _sum_of_two(net: Net, v: Values) -> int:
    """Two convolutions of the same input, and their sum."""
    return net.add(*(_convolution(net, v, part) for part in ("first", "second")))


def _sum_of_scaled(net: Net, v: Values) -> int:
    """1x1 convolutions of one channel whose outputs have random scales and zero points."""

    def operand(part: str) -> int:
        scale = net.rng.uniform(*ADD_QUANT_SCALES)
        zero_point = int(net.rng.integers(ADD_QUANT_ZERO_POINTS)) + LIMITS[v.dtype][0]
        numbers = replace(v.layer_numbers, output=one_scale(scale, zero_point))
        return net.conv(net.x, 1, Window(padding=Padding.VALID), numbers, name=part)

    return net.add(*(operand(part) for part in ("first", "second")))


def _family(
    test: str,
    is_signed: Any,
    suite: str,
    layer: Body,
    differing: float,
    axes: dict[str, Any],
    shape: Callable[[Values], Sequence[int]],
) -> Grid:
    """``layer`` of an input of ``shape``. Where VALID leaves no pixel, TensorFlow Lite refuses the
    model, and so must the compiler.
    """

    def body(net: Net, v: Values) -> Outputs:
        net.x = net.input("input", shape(v), v.dtype, net.drawn(v.dtype))
        return layer(net, v)

    def make(name: str, v: Values) -> Case:
        v.type = "per_channel" if test == "PerChannel" else EIGHT_BITS[v.is_signed]
        label = f"{suite} {v.type.replace('_', '-')}"
        case = model_case(name, v, body, label, differing=differing, input_levels=LEVELS)
        if _has_output(v):
            return case
        return Case(name, label, case.build, rejected_by=NO_OUTPUT_RULES, runs_on_cpu=False)

    return grid(f"{suite}.{test}/", **axes, is_signed=is_signed)(make)


def _images(kernels: Sequence[int], **channels: Sequence[int]) -> dict[str, Any]:
    """The axes of square images and windows."""
    borders = {"stride": (1, 2), "padding_same": (0, 1)}
    return {"input_size": (3, 5, 8, 80, 112), "weight_size": kernels, **channels, **borders}


def _image(v: Values) -> Sequence[int]:
    return 1, v.input_size, v.input_size, v.input_channels or v.channels


_DENSE = _images((1, 3, 5), input_channels=INPUT_CHANNELS, output_channels=OUTPUT_CHANNELS)
_TESTS = {"Op": (0, 1), "PerChannel": (1,)}
_SUITES: tuple[tuple[dict[str, Any], tuple[Any, ...]], ...] = (
    (_TESTS, ("Conv2D", _convolution, LARGE_SUMS, _DENSE, _image)),
    (_TESTS, ("DepthwiseConv2D", lambda net, v: net.depthwise(net.x, _window(v), v.layer_numbers),
              LARGE_SUMS, _images((3, 5), channels=INPUT_CHANNELS), _image)),
    (_TESTS, ("Add", _sum_of_two, REPEATED_SUM, _DENSE, _image)),
    ({"Op": 0, "Signed": 1, "PerChannel": 1},
     ("AddQuant", _sum_of_scaled, SUM, {"_number": range(100)}, lambda _: (1, 40, 40, 1))),
    (_TESTS, ("FullyConnected",
              lambda net, v: net.fully_connected(net.x, v.output_channels, v.layer_numbers),
              LARGE_SUMS,
              {"input_size": (128, 1280, 25088, 62720), "output_channels": OUTPUT_CHANNELS},
              lambda v: (1, v.input_size))),
)  # fmt: skip
"""Each suite's tests with their ``is_signed``, and what its families have in common."""
_FAMILIES = tuple(_family(*test, *rest) for tests, rest in _SUITES for test in tests.items())
