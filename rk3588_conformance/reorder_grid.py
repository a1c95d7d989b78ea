"""Families of operators that bring data elsewhere and have no neighbours in memory: parts of
different sizes, a dimension more or less, other orders, borders. All have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import (
    gather,
    pack,
    pad,
    reshape,
    split_v,
    tile,
    transpose,
    unpack,
)
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Value, grid
from rk3588_conformance.move_grid import computed
from rk3588_conformance.own_grid import EIGHT_BITS, dtype_of, layer_grid, model, pair, shape_of
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE


def _split_shape(*, sizes: str, axis: int, **_: Value) -> list[int]:
    shape = [1, 4, 9, 19]
    shape[axis] = sum(shape_of(sizes))
    return shape


@layer_grid(
    "UnevenSplits.Op/",
    differing=NONE,
    input_shape=_split_shape,
    sizes=("16x3x16", "1x34x64", "32x48", "5x2", "80x4x1"),
    axis=(1, 3),
    type=EIGHT_BITS,
)
def _uneven_splits(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, sizes: str, axis: int, **_: Value
) -> tuple[int, ...]:
    return split_v(builder, computed(builder, rng, x), shape_of(sizes), axis)


@grid("Packs.Op/", shape=("1x7x20", "5x33", "16", "1x3x16"), count=(1, 2, 3), type=EIGHT_BITS)
def _packs(name: str, *, shape: str, count: int, type: str) -> Case:
    """A dimension more, and away again."""
    axis = 1 if len(shape_of(shape)) == 3 else 0

    def body(builder: ModelBuilder, rng: np.random.Generator) -> tuple[int, ...]:
        dtype = dtype_of(type)
        quantization = draw_quantization(rng, dtype)
        inputs = [
            builder.input(f"x{n}", shape_of(shape), dtype, quantization) for n in range(count)
        ]
        parts = [computed(builder, rng, x) for x in inputs]
        packed = computed(builder, rng, pack(builder, parts, axis))
        return unpack(builder, packed, axis)

    return Case(name, "Packs", model("Packs", body), differing=NONE)


_SIZES = {
    "1x5x7x12": "1x35x3x4", "1x4x5x85": "1x20x17x5", "1x3x20x16": "1x3x4x80",
    "1x1x33x1": "1x1x1x33", "1x6x4x273": "1x24x3x91", "1x4x16x37": "1x4x8x74",
}  # fmt: skip
_ORDERS = {
    "columns": (0, 2, 1, 3), "channels": (0, 1, 3, 2), "first": (0, 3, 1, 2),
    "head": (0, 3, 1, 2),
}  # fmt: skip


@layer_grid(
    "Reorders.Op/", differing=NONE, shape=tuple(_SIZES), by=("reshape", *_ORDERS), type=EIGHT_BITS
)
def _reorders(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, shape: str, by: str, **_: Value
) -> int:
    """Reshapes that change channels, transposes, and one behind the other."""
    height, width, channels = shape_of(shape)[1:]
    y = computed(builder, rng, x)
    if by == "reshape":
        y = reshape(builder, y, shape_of(_SIZES[shape]))
    else:
        y = transpose(builder, y, _ORDERS[by])
    if by == "head":
        y = reshape(builder, y, (1, channels, height * width))
    return computed(builder, rng, y)


_MODES = {"reflect": REFLECT, "symmetric": SYMMETRIC}


@layer_grid(
    "Borders.Op/",
    differing=NONE,
    input_shape=lambda channels, **_: (1 + pair(channels)[1] % 2, 9, 7, pair(channels)[0]),
    is_in=lambda by, amounts, channels, **_: (
        by not in _MODES or (max(shape_of(amounts)) < 7 and pair(channels)[1] == 0)
    ),
    by=("zero", "value", *_MODES),
    amounts=("1x1x1x1", "0x3x2x0", "6x5x4x3", "0x0x0x1", "17x1x0x33"),
    channels=("1x0", "16x0", "21x0", "64x0", "16x5", "3x16"),
    type=EIGHT_BITS,
)
def _borders(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, by: str, amounts: str,
    channels: str, type: str,
) -> int:  # fmt: skip
    """Add borders of zero points, of any value, mirrored with the outermost pixels and without."""
    (top, bottom, left, right), (_, more) = shape_of(amounts), pair(channels)
    sides = [[0, 0], [top, bottom], [left, right], [more, more // 2]]
    value = int(rng.integers(*LIMITS[dtype_of(type)])) if by == "value" else None
    return computed(builder, rng, pad(builder, x, sides, value=value, mode=_MODES.get(by)))


_PLACES = ("begin", "inside", "end")
"""The place of a move in its partition."""


def _moved_at(
    place: str, builder: ModelBuilder, rng: np.random.Generator, x: int, move: Callable[[int], int]
) -> int:
    y = move(x if place == "begin" else computed(builder, rng, x))
    return y if place == "end" else computed(builder, rng, y)


@layer_grid(
    "Tiles.Op/",
    differing=NONE,
    is_in=lambda shape, times, **_: len(shape_of(shape)) == len(shape_of(times)),
    shape=(
        "1x5x7x12", "1x1x1x40", "1x7x1x33", "1x1x13x1", "1x40x61x48", "2x3x4x33", "1x11x16", "3x64",
        "17",
    ),
    times=(
        "1x1x1x3", "1x1x5x1", "1x4x1x1", "1x3x2x2", "3x1x2x1", "1x7x1", "1x2x3", "5x1", "1x2", "3",
    ),
    place=_PLACES,
    type=EIGHT_BITS,
)  # fmt: skip
def _tiles(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, times: str, place: str, **_: Value
) -> int:
    return _moved_at(place, builder, rng, x, lambda y: tile(builder, y, shape_of(times)))


@layer_grid(
    "TilesOfRank.Op/",
    differing=NONE,
    is_in=lambda shape, times, **_: len(shape_of(shape)) == len(shape_of(times)),
    input_shape=lambda shape, **_: as_image(shape_of(shape)),
    shape=("1x5x1x7x16", "1x5x7x1x33", "2x3x4x1x5", "1x2x3x2x3x16"),
    times=("1x1x2x1x1", "1x1x1x2x1", "1x2x1x1x1", "2x1x1x1x3", "1x1x2x1x2x1", "1x2x1x3x1x1"),
    place=_PLACES,
    type=EIGHT_BITS,
)
def _tiles_of_rank(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, shape: str, times: str, place: str,
    **_: Value,
) -> int:  # fmt: skip
    """Add a tile of more than four dimensions, as Keras enlarges images by repeating."""

    def move(y: int) -> int:
        tiled = tile(builder, reshape(builder, y, shape_of(shape)), shape_of(times))
        if place == "end":
            return tiled
        return reshape(builder, tiled, as_image(builder.spec(tiled).shape))

    return _moved_at(place, builder, rng, x, move)


def as_image(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a shape of four dimensions: those between height and channels are columns."""
    images, height, *inner, channels = shape
    return images, height, prod(inner), channels


_Indices = Callable[[np.random.Generator, int], Any]

_INDICES: dict[str, _Indices] = {
    "one": lambda _, size: size // 2,
    "reversed": lambda _, size: np.arange(size)[::-1],
    "every_second": lambda _, size: np.arange(0, size, 2),
    "shuffled": lambda rng, size: rng.permutation(size),
    "repeated": lambda rng, size: np.sort(rng.integers(0, size, 9)),
    "range": lambda _, size: np.arange(size // 3, size),
    "rows": lambda rng, size: rng.integers(0, size, (1, 3)),
}


def _is_taken(*, shape: str, axis: int, indices: str, place: str, **_: Value) -> bool:
    """Return whether the result has a dimension, up to four, and one image, and is more than a
    little of what the CPU gives.
    """
    rank = len(shape_of(shape))
    after = rank + {"one": -1, "rows": 1}.get(indices, 0)
    is_little = indices == "one" and place == "begin"
    return axis < rank and 0 < after < 5 and (rank < 4 or axis > 0) and not is_little


@layer_grid(
    "Gathers.Op/",
    differing=NONE,
    is_in=_is_taken,
    shape=("1x5x7x12", "1x3x16x48", "1x11x33", "4x70", "19"),
    axis=(0, 1, 2, 3),
    indices=tuple(_INDICES),
    place=_PLACES,
    type=EIGHT_BITS,
)
def _gathers(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, shape: str, axis: int, indices: str,
    place: str, **_: Value,
) -> int:  # fmt: skip
    """Add any places along any dimension; a single one takes the dimension away."""
    places = _INDICES[indices](rng, shape_of(shape)[axis])
    return _moved_at(place, builder, rng, x, lambda y: gather(builder, y, places, axis))


FAMILIES: tuple[Family, ...] = (
    _uneven_splits,
    _packs,
    _reorders,
    _borders,
    _tiles,
    _tiles_of_rank,
    _gathers,
)
