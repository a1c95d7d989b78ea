"""Families of tensors with five and six dimensions, as shuffled channels, heads of detectors and
windows of transformers have them, and of moves from images to images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import (
    concatenation,
    gather,
    pack,
    reshape,
    slice_of,
    split,
    transpose,
    unpack,
)
from rk3588_conformance.builder.pooling import reduced
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.move_grid import computed
from rk3588_conformance.own_grid import EIGHT_BITS, constant, layer_grid, rescaled, shape_of
from rk3588_conformance.reorder_grid import as_image
from rk3588_conformance.tolerance import NONE, SUM_ALONE

_TRANSPOSED = {
    "shuffled": ("1x6x5x2x24", (0, 1, 2, 4, 3)), "shuffled_3": ("1x5x7x3x11", (0, 1, 2, 4, 3)),
    "windows": ("1x4x3x2x5x16", (0, 1, 3, 2, 4, 5)), "windows_5": ("2x3x4x5x33", (0, 2, 1, 3, 4)),
    "patches": ("1x4x4x3x2x7", (0, 1, 3, 2, 4, 5)), "back": ("6x2x5x16", (1, 0, 2, 3)),
    "anchors": ("1x7x5x3x20", (0, 3, 1, 2, 4)),
    "heads": ("1x19x3x2x16", (2, 0, 3, 1, 4)), "keys": ("4x9x3x16", (0, 2, 3, 1)),
    "merged": ("3x17x32", (1, 0, 2)), "images_inside": ("4x5x3x16", (1, 0, 2, 3)),
}  # fmt: skip


def _turned(*, by: str, **_: Value) -> tuple[int, ...]:
    return as_image(shape_of(_TRANSPOSED[by][0]))


@layer_grid(
    "TransposesOfRank.Op/",
    differing=NONE,
    input_shape=_turned,
    by=tuple(_TRANSPOSED),
    place=("inside", "end"),
    type=EIGHT_BITS,
)
def _transposes(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, by: str, place: str, **_: Value
) -> int:
    """Add a reshape, a transpose and, unless it is the end, a reshape to an image."""
    shape, axes = _TRANSPOSED[by]
    y = transpose(builder, reshape(builder, computed(builder, rng, x), shape_of(shape)), axes)
    if place == "end":
        return y
    return computed(builder, rng, reshape(builder, y, as_image(builder.spec(y).shape)))


def _halves(builder: ModelBuilder, x: int, axis: int) -> int:
    return concatenation(builder, split(builder, x, 2, axis)[::-1], axis)


def _without_first(builder: ModelBuilder, x: int, axis: int) -> int:
    shape = builder.spec(x).shape
    begin = [int(n == axis) for n in range(len(shape))]
    return slice_of(builder, x, begin, np.subtract(shape, begin).tolist())


_Move = Callable[[ModelBuilder, int, int], int]

_MOVES: dict[str, _Move] = {
    "halves": _halves,
    "without_first": _without_first,
    "unpacked": lambda builder, x, axis: pack(builder, unpack(builder, x, axis)[::-1], axis),
    "gathered": lambda builder, x, axis: gather(builder, x, (1, 0, 1), axis),
}


def _is_cut(*, shape: str, axis: int, by: str, **_: Value) -> bool:
    """Return whether the runtime has it, and a dimension besides becomes none of the channels."""
    sizes = shape_of(shape)
    rank = len(sizes)
    is_possible = (by, rank) != ("without_first", 6) and (by, axis) != ("unpacked", rank - 1)
    return axis < rank and sizes[axis] % 2 == 0 and is_possible


@layer_grid(
    "PartsOfRank.Op/",
    differing=NONE,
    input_shape=lambda shape, **_: as_image(shape_of(shape)),
    is_in=_is_cut,
    shape=("1x6x5x2x24", "2x4x3x2x16", "1x2x4x6x3x32", "1x8x1x1x7", "1x4x2x3x64"),
    axis=(1, 2, 3, 4, 5),
    by=tuple(_MOVES),
    type=EIGHT_BITS,
)
def _parts(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, shape: str, axis: int, by: str,
    **_: Value,
) -> int:  # fmt: skip
    """Cut and join along a dimension."""
    y = reshape(builder, computed(builder, rng, x), shape_of(shape))
    y = _MOVES[by](builder, y, axis)
    return computed(builder, rng, reshape(builder, y, as_image(builder.spec(y).shape)))


_SHAPES = ("1x6x5x2x24", "2x3x4x2x7", "1x2x3x4x5x16", "2x1x3x2x2x33")


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The quantisation of a result, and a constant of the operand's shape or of its channels."""

    result: Quantization
    whole: int
    channels: int


def _mean(first: int, *, keep_dims: bool) -> Callable[[ModelBuilder, int, _Drawn], int]:
    """Return what adds a mean of all dimensions from ``first`` on but the last."""

    def added(builder: ModelBuilder, x: int, drawn: _Drawn) -> int:
        axes = tuple(range(first, len(builder.spec(x).shape) - 1))
        return reduced(builder, "MEAN", x, drawn.result, keep_dims=keep_dims, axes=axes)

    return added


def _curve(builder: ModelBuilder, x: int, _: _Drawn) -> int:
    low, high = LIMITS[builder.spec(x).dtype]
    return function(builder, "TANH", (x,), one_scale(1 / 128, (low + high + 1) // 2))


_ADDED = AddOptions(Activation.NONE)
_LAYERS: dict[str, Callable[[ModelBuilder, int, _Drawn], int]] = {
    "curve": _curve,
    "clamp": lambda b, x, drawn: function(b, "RELU6", (x,), drawn.result),
    "sum": lambda b, x, drawn: function(b, "ADD", (x, drawn.whole), drawn.result, _ADDED),
    "sum_of_channels": lambda b, x, d: function(b, "ADD", (x, d.channels), d.result, _ADDED),
    "product": lambda b, x, drawn: function(
        b, "MUL", (x, drawn.whole), drawn.result, MulOptions(Activation.NONE)
    ),
    "mean": _mean(1, keep_dims=True),
    "mean_of_images": _mean(0, keep_dims=False),
    "mean_of_channels": lambda b, x, drawn: reduced(
        b, "MEAN", x, drawn.result, keep_dims=True, axes=(-1,)
    ),
}


@layer_grid(
    "FunctionsOfRank.Op/",
    differing=SUM_ALONE,
    is_in=lambda shape, by, **_: by != "mean_of_images" or shape_of(shape)[0] == 1,
    shape=_SHAPES,
    by=tuple(_LAYERS),
    type=EIGHT_BITS,
)
def _functions(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, shape: str, by: str, **_: Value
) -> int:
    """Add a function, a sum, a product or a mean of all dimensions."""
    result, kind = rescaled(builder, rng, x, 1.3), builder.spec(x).dtype
    whole, channels = (
        constant(builder, rng, size, kind, result)
        for size in (shape_of(shape), shape_of(shape)[-1:])
    )
    return _LAYERS[by](builder, x, _Drawn(result, whole, channels))


@layer_grid(
    "JoinedConstants.Op/",
    differing=NONE,
    shape=("1x36x96", "1x5x7x19", "2x3x5x16", "1x2x3x5x33"),
    axis=(0, 1, 2, 3, 4),
    size=(1, 3, 16),
    order=("first", "last"),
    place=("begin", "inside", "end"),
    is_in=lambda shape, axis, **_: axis < len(shape_of(shape)),
    type=EIGHT_BITS,
)
def _joined_constants(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, axis: int, size: int, order: str,
    place: str, **_: Value,
) -> int:  # fmt: skip
    """Join a constant, as transformers have a token of the class; channels of uint8 may
    have another scale."""
    y = x if place == "begin" else computed(builder, rng, x)
    spec = builder.spec(y)
    shape = (*spec.shape[:axis], size, *spec.shape[axis + 1 :])
    is_rescaled = spec.dtype is DType.UINT8 and axis == len(spec.shape) - 1
    other = rescaled(builder, rng, x, 0.7) if is_rescaled else spec.quantization
    part = constant(builder, rng, shape, spec.dtype, other)
    y = concatenation(builder, (part, y) if order == "first" else (y, part), axis)
    return y if place == "end" else computed(builder, rng, y)


FAMILIES: tuple[Family, ...] = (_transposes, _parts, _functions, _joined_constants)
