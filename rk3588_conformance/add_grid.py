"""ADD beyond Teflon's grid: shapes, scales, broadcast, and every origin an operand can have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.model.graph import Activation, Quantization
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import conv, depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Value, grid
from rk3588_conformance.own_grid import EIGHT_BITS, constant, dtype_of, layer_grid, model, window_of
from rk3588_conformance.random_layers import TEFLON_NUMBERS, Numbers, draw_quantization
from rk3588_conformance.tolerance import SUM, SUM_ALONE, TIES


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


@layer_grid(
    "AddShapes.Op/",
    differing=SUM_ALONE,
    shape=(
        "13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x3", "1x31x1x130", "2x3x11x40", "1x13x17x16",
        "1x9x4x33", "1x1x1x1000", "1x37x41x64",
    ),
    activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    type=EIGHT_BITS,
)  # fmt: skip
def _shapes(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, activation: str, **_: Value
) -> int:
    other = _other_input(builder, rng, x)
    return layers.add(builder, x, other, activation=Activation[activation])


_RATIOS = {"0_001": 0.001, "0_07": 0.07, "0_5": 0.5, "1": 1.0, "1_9": 1.9, "30": 30.0}


@grid(
    "AddScales.Op/",
    first=tuple(_RATIOS),
    second=tuple(_RATIOS),
    zero_points=("ends", "drawn"),
    activation=("NONE", "RELU6"),
    type=EIGHT_BITS,
)
def _scales(
    name: str, *, first: str, second: str, zero_points: str, activation: str, type: str
) -> Case:
    """Ratios of the operands' scales to the sum's, and zero points at the ends."""

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        dtype = dtype_of(type)
        low, high = LIMITS[dtype]
        zeros = {"ends": (low, high), "drawn": tuple(rng.integers(low, high + 1, 2))}
        a, b = (
            builder.input(
                n, (1, 17, 13, 19), dtype,
                Quantization((float(np.float32(0.037 * _RATIOS[ratio])),), (int(zero),)),
            )
            for n, ratio, zero in zip("ab", (first, second), zeros[zero_points], strict=True)
        )  # fmt: skip
        return layers.add(
            builder, a, b, activation=Activation[activation], output_scale=0.037,
            output_zero_point=int(rng.integers(low, high + 1)),
        )  # fmt: skip

    return Case(name, "AddScales", model("add scales", body), differing=TIES)


_SHAPES = {
    "scalar": (1,), "channels": (19,), "channels4": (1, 1, 1, 19), "scalar4": (1, 1, 1, 1),
    "row": (1, 1, 7, 19), "pixels": (1, 11, 7, 1),
}  # fmt: skip


@layer_grid(
    "AddBroadcast.Op/",
    differing=SUM_ALONE,
    shape="1x11x7x19",
    other=tuple(_SHAPES),
    origin=("constant", "input"),
    order=("first", "second"),
    type=EIGHT_BITS,
)
def _broadcast(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, other: str, origin: str,
    order: str, **_: Value,
) -> int:  # fmt: skip
    """A second operand that is stretched: a scalar, one value per channel, a row, a pixel map."""
    operand = _constant if origin == "constant" else _other_input
    y = operand(builder, rng, x, _SHAPES[other])
    return layers.add(builder, *((x, y) if order == "first" else (y, x)))


_OPERANDS: dict[str, Callable[[ModelBuilder, np.random.Generator, int], int]] = {
    "input": lambda _builder, _rng, x: x,
    "other": _other_input,
    "constant": _constant,
    "conv": lambda builder, rng, x: conv(builder, rng, x, 24, window_of("3x3"), TEFLON_NUMBERS),
    "relu6": lambda builder, rng, x: conv(
        builder, rng, x, 24, window_of("1x1"), Numbers(activation=Activation.RELU6)
    ),
    "depthwise": lambda builder, rng, x: depthwise(
        builder, rng, x, window_of("3x3"), TEFLON_NUMBERS
    ),
}


@layer_grid(
    "AddOrigins.Op/",
    differing=SUM,
    is_in=lambda first, second, **_: (
        (first, second) != ("constant", "constant") and first != "other"
    ),
    shape="1x9x13x24",
    first=tuple(_OPERANDS),
    second=tuple(_OPERANDS),
    activation=("NONE", "RELU", "RELU6"),
    type=EIGHT_BITS,
)
def _origins(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, first: str, second: str,
    activation: str, **_: Value,
) -> int:  # fmt: skip
    """Operands from inside, outside, a constant, or both the same tensor."""
    a, b = (_OPERANDS[kind](builder, rng, x) for kind in (first, second))
    return layers.add(builder, a, b, activation=Activation[activation])


FAMILIES: tuple[Family, ...] = (_shapes, _scales, _broadcast, _origins)
