"""Graphs of several operators in one partition: folded PAD, residual blocks, chains, ends inside.

Every element must still be within one step. Where the errors of operators can add up, the numbers
are such that a step of an inner tensor weighs no more than a step of the output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.conformance.builder import layers, options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import TYPES, numbers_of, one_layer, pair, window_of
from delegate.conformance.random_layers import conv, depthwise
from delegate.conformance.tolerance import SUM


def _pad(builder: ModelBuilder, x: int, amounts: tuple[int, int, int, int]) -> int:
    """PAD by top, bottom, left, right."""
    top, bottom, left, right = amounts
    spec = builder.spec(x)
    n, h, w, c = spec.shape
    rows = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    shape = (n, h + top + bottom, w + left + right, c)
    y = builder.tensor("padded", shape, spec.dtype, spec.quantization)
    builder.operator("PAD", (x, builder.constant("amounts", rows)), (y,), options.empty())
    return y


def _padding() -> Grid:
    """PAD before a VALID convolution, as converters write it for strides."""

    def make(
        name: str, *, amounts: str, operator: str, kernel: str, stride: str, type: str
    ) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            top, bottom, left, right = (int(digit) for digit in amounts)
            padded = _pad(builder, x, (top, bottom, left, right))
            window = window_of(kernel, stride, padding="valid")
            numbers = numbers_of(type)
            if operator == "conv":
                return conv(builder, rng, padded, 23, window, numbers)
            return depthwise(builder, rng, padded, window, numbers)

        return one_layer(name, "Padding", (1, 13, 10, 20), type, layer)

    def is_in(*, amounts: str, kernel: str, **_: Value) -> bool:
        kh, kw = pair(kernel)  # no window may lie wholly in the padding
        top, bottom, left, right = (int(digit) for digit in amounts)
        return max(top, bottom) < kh and max(left, right) < kw

    axes: Axes = {
        "amounts": ("1111", "0101", "1010", "2222", "2143", "0030"),
        "operator": ("conv", "depthwise"),
        "kernel": ("3x3", "3x5", "5x4"),
        "stride": ("1x1", "2x2", "1x2"),
        "type": TYPES,
    }
    return Grid("Padding.Op/", axes, make, is_in)


Body = Callable[[ModelBuilder, np.random.Generator, int, str], tuple[int, ...]]


def _residual(
    builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str
) -> tuple[int, ...]:
    """The smallest residual block: x + conv(x)."""
    channels = builder.spec(x).shape[3]
    y = conv(builder, rng, x, channels, window_of("3x3"), numbers_of(kind))
    return (layers.add(builder, y, x),)


def _shared(builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str) -> tuple[int, ...]:
    """One convolution of the input is an operand of ADD and an output of its own."""
    first = conv(builder, rng, x, 24, window_of("1x1"), numbers_of(kind), name="first")
    second = conv(builder, rng, x, 24, window_of("3x3"), numbers_of(kind), name="second")
    return (first, layers.add(builder, first, second))


def _siblings(
    builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str
) -> tuple[int, ...]:
    """Three layers of one input, three outputs."""
    return (
        conv(builder, rng, x, 5, window_of("3x3", "2x2"), numbers_of(kind), name="strided"),
        depthwise(builder, rng, x, window_of("5x3"), numbers_of(kind)),
        conv(builder, rng, x, 130, window_of("1x1"), numbers_of(kind), name="wide"),
    )


def _same_twice(
    builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str
) -> tuple[int, ...]:
    """conv(x) + conv(x), the same tensor twice."""
    y = conv(builder, rng, x, 24, window_of("3x3"), numbers_of(kind))
    return (layers.add(builder, y, y),)


def _sum_of_sums(
    builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str
) -> tuple[int, ...]:
    """(a + x) with its own output, and x twice."""
    twice = layers.add(builder, x, x, name="twice")
    y = conv(builder, rng, x, 24, window_of("1x1"), numbers_of(kind))
    return (twice, layers.add(builder, y, x, name="sum"))


_BODIES: dict[str, Body] = {
    "residual": _residual,
    "shared": _shared,
    "siblings": _siblings,
    "same_twice": _same_twice,
    "sum_of_sums": _sum_of_sums,
}


def _graphs() -> Grid:
    def make(name: str, *, body: str, size: str, type: str) -> Case:
        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> tuple[int, ...]:
            return _BODIES[body](builder, rng, x, type)

        return one_layer(name, "Graphs", (1, *pair(size), 24), type, layer, differing=SUM)

    axes: Axes = {"body": tuple(_BODIES), "size": ("1x1", "7x12", "31x19"), "type": TYPES}
    return Grid("Graphs.Op/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_padding(), _graphs())
