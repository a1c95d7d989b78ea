"""What brings data elsewhere and has no neighbours in memory: parts of different sizes, a dimension
more or less, other orders, borders. All have to be equal.
"""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder.aliases import pack, reshape, split_v, transpose, unpack
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.padding import pad
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.move_grid import computed
from delegate.conformance.own_grid import EIGHT_BITS, dtype_of, model, one_layer, pair, shape_of
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC


def _uneven_splits() -> Grid:
    def make(name: str, *, sizes: str, axis: int, type: str) -> Case:
        shape = [1, 4, 9, 19]
        shape[axis] = sum(shape_of(sizes))

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> tuple[int, ...]:
            return split_v(builder, computed(builder, rng, x), shape_of(sizes), axis)

        return one_layer(name, "UnevenSplits", shape, type, layer, differing=NONE)

    sizes = ("16x3x16", "1x34x64", "32x48", "5x2", "80x4x1")
    return Grid("UnevenSplits.Op/", {"sizes": sizes, "axis": (1, 3), "type": EIGHT_BITS}, make)


def _packs() -> Grid:
    """A dimension more, and away again."""

    def make(name: str, *, shape: str, count: int, type: str) -> Case:
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

    shapes = ("1x7x20", "5x33", "16", "1x3x16")
    return Grid("Packs.Op/", {"shape": shapes, "count": (1, 2, 3), "type": EIGHT_BITS}, make)


def _reorders() -> Grid:
    """Reshapes that change channels, transposes, and one behind the other."""
    sizes = {
        "1x5x7x12": "1x35x3x4", "1x4x5x85": "1x20x17x5", "1x3x20x16": "1x3x4x80",
        "1x1x33x1": "1x1x1x33", "1x6x4x273": "1x24x3x91", "1x4x16x37": "1x4x8x74",
    }  # fmt: skip
    orders = {
        "columns": (0, 2, 1, 3), "channels": (0, 1, 3, 2), "first": (0, 3, 1, 2),
        "head": (0, 3, 1, 2),
    }  # fmt: skip

    def make(name: str, *, shape: str, by: str, type: str) -> Case:
        _, height, width, channels = shape_of(shape)

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            y = computed(builder, rng, x)
            if by == "reshape":
                y = reshape(builder, y, shape_of(sizes[shape]))
            else:
                y = transpose(builder, y, orders[by])
            if by == "head":
                y = reshape(builder, y, (1, channels, height * width))
            return computed(builder, rng, y)

        return one_layer(name, "Reorders", shape_of(shape), type, layer, differing=NONE)

    axes = {"shape": tuple(sizes), "by": ("reshape", *orders), "type": EIGHT_BITS}
    return Grid("Reorders.Op/", axes, make)


def _borders() -> Grid:
    """Of zero points, of any value, mirrored with the outermost pixels and without."""
    modes = {"reflect": REFLECT, "symmetric": SYMMETRIC}

    def make(name: str, *, by: str, amounts: str, channels: str, type: str) -> Case:
        (top, bottom, left, right), (own, more) = shape_of(amounts), pair(channels)
        sides = [[0, 0], [top, bottom], [left, right], [more, more // 2]]

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            value = int(rng.integers(*LIMITS[dtype_of(type)])) if by == "value" else None
            y = pad(builder, x, sides, value=value, mode=modes.get(by))
            return computed(builder, rng, y)

        shape = (1 + more % 2, 9, 7, own)
        return one_layer(name, "Borders", shape, type, layer, differing=NONE)

    def is_in(*, by: str, amounts: str, channels: str, type: str) -> bool:
        return by not in modes or (max(shape_of(amounts)) < 7 and pair(channels)[1] == 0)

    return Grid(
        "Borders.Op/",
        {
            "by": ("zero", "value", *modes),
            "amounts": ("1x1x1x1", "0x3x2x0", "6x5x4x3", "0x0x0x1", "17x1x0x33"),
            "channels": ("1x0", "16x0", "21x0", "64x0", "16x5", "3x16"),
            "type": EIGHT_BITS,
        },
        make,
        is_in,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_uneven_splits(), _packs(), _reorders(), _borders())
