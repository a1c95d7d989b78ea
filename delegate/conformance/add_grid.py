"""ADD beyond Teflon's grid: shapes, scales, broadcast, and every origin an operand can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.conformance.builder import layers
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid, Value
from delegate.conformance.own_grid import (
    EIGHT_BITS,
    constant,
    dtype_of,
    model,
    one_layer,
    shape_of,
    window_of,
)
from delegate.conformance.random_layers import Numbers, conv, depthwise, draw_quantization
from delegate.conformance.tolerance import SUM, SUM_ALONE, TIES
from delegate.model.graph import Activation, Quantization

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _constant(
    builder: ModelBuilder, rng: np.random.Generator, x: int, shape: tuple[int, ...] | None = None
) -> int:
    """A constant operand beside ``x``, of its shape unless told."""
    spec = builder.spec(x)
    return constant(builder, rng, shape or spec.shape, spec.dtype)


def _other_input(
    builder: ModelBuilder, rng: np.random.Generator, x: int, shape: tuple[int, ...] | None = None
) -> int:
    """An input beside ``x``, of its shape unless told."""
    spec = builder.spec(x)
    quantization = draw_quantization(rng, spec.dtype)
    return builder.input("other", shape or spec.shape, spec.dtype, quantization)


def _shapes() -> Grid:
    def make(name: str, *, shape: str, activation: str, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            other = _other_input(builder, rng, x)
            return layers.add(builder, x, other, activation=Activation[activation])

        return one_layer(name, "AddShapes", shape_of(shape), type, layer, differing=SUM_ALONE)

    return Grid(
        "AddShapes.Op/",
        {
            "shape": ("13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x3", "1x31x1x130", "2x3x11x40",
                      "1x13x17x16", "1x9x4x33", "1x1x1x1000", "1x37x41x64"),
            "activation": _ACTIVATIONS,
            "type": EIGHT_BITS,
        },
        make,
    )  # fmt: skip


def _scales() -> Grid:
    """Ratios of the operands' scales to the sum's, and zero points at the ends."""

    ratios = {"0_001": 0.001, "0_07": 0.07, "0_5": 0.5, "1": 1.0, "1_9": 1.9, "30": 30.0}

    def make(
        name: str, *, first: str, second: str, zero_points: str, activation: str, type: str
    ) -> Case:
        def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
            dtype = dtype_of(type)
            low, high = LIMITS[dtype]
            zeros = {"ends": (low, high), "drawn": tuple(rng.integers(low, high + 1, 2))}
            a, b = (
                builder.input(
                    n, (1, 17, 13, 19), dtype,
                    Quantization((float(np.float32(0.037 * ratios[ratio])),), (int(zero),)),
                )
                for n, ratio, zero in zip("ab", (first, second), zeros[zero_points], strict=True)
            )  # fmt: skip
            return layers.add(
                builder, a, b, activation=Activation[activation], output_scale=0.037,
                output_zero_point=int(rng.integers(low, high + 1)),
            )  # fmt: skip

        return Case(name, "AddScales", model("add scales", body), differing=TIES)

    return Grid(
        "AddScales.Op/",
        {
            "first": tuple(ratios),
            "second": tuple(ratios),
            "zero_points": ("ends", "drawn"),
            "activation": ("NONE", "RELU6"),
            "type": EIGHT_BITS,
        },
        make,
    )


def _broadcast() -> Grid:
    """A second operand that is stretched: a scalar, one value per channel, a row, a pixel map."""

    shapes = {
        "scalar": (1,), "channels": (19,), "channels4": (1, 1, 1, 19), "scalar4": (1, 1, 1, 1),
        "row": (1, 1, 7, 19), "pixels": (1, 11, 7, 1),
    }  # fmt: skip

    def make(name: str, *, other: str, origin: str, order: str, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            operand = _constant if origin == "constant" else _other_input
            y = operand(builder, rng, x, shapes[other])
            return layers.add(builder, *((x, y) if order == "first" else (y, x)))

        return one_layer(name, "AddBroadcast", (1, 11, 7, 19), type, layer, differing=SUM_ALONE)

    return Grid(
        "AddBroadcast.Op/",
        {
            "other": tuple(shapes),
            "origin": ("constant", "input"),
            "order": ("first", "second"),
            "type": EIGHT_BITS,
        },
        make,
    )


_Operand = Callable[[ModelBuilder, np.random.Generator, int], int]


def _origins() -> Grid:
    """Operands from inside, outside, a constant, or both the same tensor."""

    def convolution(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        return conv(builder, rng, x, 24, window_of("3x3"), Numbers())

    def depthwise_convolution(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        return depthwise(builder, rng, x, window_of("3x3"), Numbers())

    def relu6(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        numbers = Numbers(activation=Activation.RELU6)
        return conv(builder, rng, x, 24, window_of("1x1"), numbers)

    operands: dict[str, _Operand] = {
        "input": lambda _builder, _rng, x: x,
        "other": _other_input,
        "constant": _constant,
        "conv": convolution,
        "relu6": relu6,
        "depthwise": depthwise_convolution,
    }

    def make(name: str, *, first: str, second: str, activation: str, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            a = operands[first](builder, rng, x)
            b = operands[second](builder, rng, x)
            return layers.add(builder, a, b, activation=Activation[activation])

        return one_layer(name, "AddOrigins", (1, 9, 13, 24), type, layer, differing=SUM)

    def is_in(*, first: str, second: str, **_: Value) -> bool:
        return (first, second) != ("constant", "constant") and first != "other"

    return Grid(
        "AddOrigins.Op/",
        {
            "first": tuple(operands),
            "second": tuple(operands),
            "activation": ("NONE", "RELU", "RELU6"),
            "type": EIGHT_BITS,
        },
        make,
        is_in,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_shapes(), _scales(), _broadcast(), _origins())
