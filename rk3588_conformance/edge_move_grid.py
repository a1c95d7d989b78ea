"""Moves at a partition's edges, which the host's conversion does: detectors' heads, outputs that
are parts of one another, inputs with channels first; alone and with functions behind them.

What is moved or looked up has to be equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delegate.model.graph import Quantization
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.functions import function, same_values
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import concatenation, reshape, slice_of, split, transpose
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grid
from rk3588_conformance.own_grid import EIGHT_BITS, dtype_of, model, shape_of
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE

_SHAPES = ("1x1x1x2", "1x5x3x18", "1x7x9x16", "1x1x11x40", "1x13x2x32", "1x6x4x34", "1x3x17x80")
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)
_LOGISTIC_SCALE = 1 / 256

Move = Callable[[ModelBuilder, int], tuple[int, ...]]


def _channels_first(builder: ModelBuilder, x: int) -> tuple[int, ...]:
    """Add the moves of YOLO's heads: (1, C, H * W)."""
    _, h, w, c = builder.spec(x).shape
    return (reshape(builder, transpose(builder, x, _FIRST), (1, c, h * w)),)


def _anchors(builder: ModelBuilder, x: int) -> tuple[int, ...]:
    """Add the moves of SSD's heads: rows of half the channels."""
    _, h, w, c = builder.spec(x).shape
    return (reshape(builder, x, (1, h * w * 2, c // 2)),)


def _joined(builder: ModelBuilder, x: int) -> tuple[int, ...]:
    """Two maps one behind the other, channels first."""
    parts = [_channels_first(builder, y)[0] for y in (x, same_values(builder, x))]
    return (concatenation(builder, parts, 2),)


def _cut(builder: ModelBuilder, x: int) -> tuple[int, ...]:
    """Halves of the channels, first, as outputs of their own."""
    (flat,) = _channels_first(builder, x)
    return split(builder, flat, 2, 1)


def _boxed(builder: ModelBuilder, x: int) -> tuple[int, ...]:
    """All but the first channel, channels first."""
    (flat,) = _channels_first(builder, x)
    _, c, pixels = builder.spec(flat).shape
    return (slice_of(builder, flat, (0, 1, 0), (1, c - 1, pixels)),)


_MOVES: dict[str, Move] = {
    "channels_first": _channels_first,
    "anchors": _anchors,
    "joined": _joined,
    "cut": _cut,
    "boxed": _boxed,
}


_TASKS = ("values", "conv")


def _task(builder: ModelBuilder, rng: np.random.Generator, x: int, kind: str) -> int:
    if kind == "values":
        return same_values(builder, x)
    channels = builder.spec(x).shape[3]
    return layers.conv(builder, rng, x, channels, Window(3, 3))


def _logistic(builder: ModelBuilder, x: int) -> int:
    low = LIMITS[builder.spec(x).dtype][0]
    return function(builder, "LOGISTIC", (x,), Quantization((_LOGISTIC_SCALE,), (low,)))


@grid(
    "EdgeMoves.Ends/",
    move=tuple(_MOVES),
    shape=_SHAPES,
    type=EIGHT_BITS,
    task=_TASKS,
    behind=("nothing", "logistic"),
)
def _ends(name: str, *, move: str, shape: str, type: str, task: str, behind: str) -> Case:
    def body(builder: ModelBuilder, rng: np.random.Generator) -> list[int]:
        dtype = dtype_of(type)
        x = builder.input("input", shape_of(shape), dtype, draw_quantization(rng, dtype))
        results = _MOVES[move](builder, _task(builder, rng, x, task))
        return [_logistic(builder, y) if behind == "logistic" else y for y in results]

    return Case(name, "Edges moved", model("moved edges", body), differing=NONE)


@grid(
    "EdgeMoves.Begins/",
    move=("channels_first", "rows"),
    shape=_SHAPES,
    type=EIGHT_BITS,
    task=_TASKS,
)
def _begins(name: str, *, move: str, shape: str, type: str, task: str) -> Case:
    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        dtype, is_first = dtype_of(type), move == "channels_first"
        n, h, w, c = shape_of(shape)
        given = (n, c, h, w) if is_first else (n, h * w, c)
        x = builder.input("input", given, dtype, draw_quantization(rng, dtype))
        x = transpose(builder, x, _LAST) if is_first else reshape(builder, x, (n, h, w, c))
        return _task(builder, rng, x, task)

    return Case(name, "Edges moved", model("moved edges", body), differing=NONE)


FAMILIES: tuple[Family, ...] = (_ends, _begins)
