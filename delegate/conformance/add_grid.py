"""ADD beyond Teflon's grid: shapes, scales, broadcast, and every origin an operand can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.conformance.builder import layers
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import constant, dtype_of, shape_of, window_of
from delegate.conformance.random_layers import Numbers, conv, depthwise, draw_quantization
from delegate.conformance.tolerance import SUM, SUM_ALONE, TIES
from delegate.model.graph import Activation, Quantization

_TYPES = ("uint8", "int8")
_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _shapes() -> Grid:
    def make(name: str, *, shape: str, activation: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("add")
            dtype = dtype_of(type)
            a, b = (
                builder.input(n, shape_of(shape), dtype, draw_quantization(rng, dtype))
                for n in "ab"
            )
            builder.output(layers.add(builder, a, b, activation=Activation[activation]))
            return builder.build()

        return Case(name, "AddShapes", build, differing=SUM_ALONE)

    return Grid(
        "AddShapes.Op/",
        {
            "shape": ("13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x3", "1x31x1x130", "2x3x11x40",
                      "1x13x17x16", "1x9x4x33", "1x1x1x1000", "1x37x41x64"),
            "activation": _ACTIVATIONS,
            "type": _TYPES,
        },
        make,
    )  # fmt: skip


def _scales() -> Grid:
    """Ratios of the operands' scales to the sum's, and zero points at the ends."""

    ratios = {"0_001": 0.001, "0_07": 0.07, "0_5": 0.5, "1": 1.0, "1_9": 1.9, "30": 30.0}

    def make(
        name: str, *, first: str, second: str, zero_points: str, activation: str, type: str
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("add scales")
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
            y = layers.add(
                builder, a, b, activation=Activation[activation], output_scale=0.037,
                output_zero_point=int(rng.integers(low, high + 1)),
            )  # fmt: skip
            builder.output(y)
            return builder.build()

        return Case(name, "AddScales", build, differing=TIES)

    return Grid(
        "AddScales.Op/",
        {
            "first": tuple(ratios),
            "second": tuple(ratios),
            "zero_points": ("ends", "drawn"),
            "activation": ("NONE", "RELU6"),
            "type": _TYPES,
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
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("add broadcast")
            dtype = dtype_of(type)
            a = builder.input("a", (1, 11, 7, 19), dtype, draw_quantization(rng, dtype))
            if origin == "constant":
                b = constant(builder, rng, shapes[other], dtype)
            else:
                b = builder.input("b", shapes[other], dtype, draw_quantization(rng, dtype))
            pair = (a, b) if order == "first" else (b, a)
            builder.output(layers.add(builder, *pair))
            return builder.build()

        return Case(name, "AddBroadcast", build, differing=SUM_ALONE)

    return Grid(
        "AddBroadcast.Op/",
        {
            "other": tuple(shapes),
            "origin": ("constant", "input"),
            "order": ("first", "second"),
            "type": _TYPES,
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

    def whole_constant(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        spec = builder.spec(x)
        return constant(builder, rng, spec.shape, spec.dtype)

    def other_input(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        spec = builder.spec(x)
        return builder.input("other", spec.shape, spec.dtype, draw_quantization(rng, spec.dtype))

    operands: dict[str, _Operand] = {
        "input": lambda _builder, _rng, x: x,
        "other": other_input,
        "constant": whole_constant,
        "conv": convolution,
        "relu6": relu6,
        "depthwise": depthwise_convolution,
    }

    def make(name: str, *, first: str, second: str, activation: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder("add origins")
            dtype = dtype_of(type)
            x = builder.input("input", (1, 9, 13, 24), dtype, draw_quantization(rng, dtype))
            a = operands[first](builder, rng, x)
            b = operands[second](builder, rng, x)
            builder.output(layers.add(builder, a, b, activation=Activation[activation]))
            return builder.build()

        return Case(name, "AddOrigins", build, differing=SUM)

    def is_in(*, first: str, second: str, activation: str, type: str) -> bool:
        return (first, second) != ("constant", "constant") and first != "other"

    return Grid(
        "AddOrigins.Op/",
        {
            "first": tuple(operands),
            "second": tuple(operands),
            "activation": ("NONE", "RELU", "RELU6"),
            "type": _TYPES,
        },
        make,
        is_in,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_shapes(), _scales(), _broadcast(), _origins())
