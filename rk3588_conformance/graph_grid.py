"""Graphs of several operators in one partition: folded PAD, residual blocks, chains, ends inside.

Every element must still be within one step. Where the errors of operators can add up, the numbers
are such that a step of an inner tensor weighs no more than a step of the output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import conv, depthwise
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import pad
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import TYPES, layer_grid, numbers_of, pair, window_of
from rk3588_conformance.tolerance import SUM


def _leaves_input(*, amounts: str, kernel: str, **_: Value) -> bool:
    """Return whether no window lies wholly in the padding."""
    kh, kw = pair(kernel)
    top, bottom, left, right = map(int, amounts)
    return max(top, bottom) < kh and max(left, right) < kw


@layer_grid(
    "Padding.Op/",
    is_in=_leaves_input,
    shape="1x13x10x20",
    amounts=("1111", "0101", "1010", "2222", "2143", "0030"),
    operator=("conv", "depthwise"),
    kernel=("3x3", "3x5", "5x4"),
    stride=("1x1", "2x2", "1x2"),
    type=TYPES,
)
def _padding(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, amounts: str, operator: str,
    kernel: str, stride: str, type: str, **_: Value,
) -> int:  # fmt: skip
    """PAD before a VALID convolution, as converters write it for strides."""
    top, bottom, left, right = map(int, amounts)
    padded = pad(builder, x, [[0, 0], [top, bottom], [left, right], [0, 0]], version=1)
    window, numbers = window_of(kernel, stride, padding="valid"), numbers_of(type)
    if operator == "conv":
        return conv(builder, rng, padded, 23, window, numbers)
    return depthwise(builder, rng, padded, window, numbers)


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


@layer_grid(
    "Graphs.Op/",
    differing=SUM,
    channels=24,
    body=tuple(_BODIES),
    size=("1x1", "7x12", "31x19"),
    type=TYPES,
)
def _graphs(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, body: str, type: str, **_: Value
) -> tuple[int, ...]:
    return _BODIES[body](builder, rng, x, type)


FAMILIES: tuple[Family, ...] = (_padding, _graphs)
