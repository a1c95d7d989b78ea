"""Families of operators that bring data elsewhere: parts, joins, other shapes and orders, blocks,
borders, and transposed convolutions, which bring pixels apart. All but these have to be equal.
"""

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from delegate.model.graph import DType, Padding, Quantization
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import moves
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.grid import (
    EIGHT_BITS,
    PADDINGS,
    TYPES,
    Values,
    layer_grid,
    model_grid,
    pair,
    shape_of,
)
from rk3588_conformance.net import Net
from rk3588_conformance.tolerance import NONE, PER_CHANNEL


@model_grid(
    "Joins.Op/",
    description="join",
    parts=("16x5", "1x1", "4x1x80", "15x17", "31x33x16", "3x3x3x3", "48x16", "2x40"),
    axis=(1, 3),
)
def _joins(net: Net, v: Values) -> int:
    quantization = net.drawn(v.dtype)
    tensors = []
    for number, size in enumerate(shape_of(v.parts)):
        shape = [1, 5, 7, 19]
        shape[v.axis] = size
        tensors.append(net.computed(net.input(f"x{number}", shape, v.dtype, quantization)))
    return moves.concatenation(net, tensors, v.axis)


@layer_grid(
    "Cuts.Op/",
    shape="1x9x11x40",
    begin=("0x0x0", "2x0x16", "1x3x5", "3x1x33", "0x7x1"),
    size=("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
    by=("slice", "strided"),
)
def _cuts(net: Net, v: Values) -> int:
    y, box = net.computed(net.x), ((0, *shape_of(v.begin)), (1, *shape_of(v.size)))
    return net.computed(moves.slice_of(net, y, *box, strided=v.by == "strided"))


@layer_grid(
    "Splits.Op/",
    input_shape=lambda v: (1, 4, 9, v.channels * v.count),
    channels=(1, 15, 16, 17, 33, 64),
    count=(2, 3, 5),
)
def _splits(net: Net, v: Values) -> tuple[int, ...]:
    return moves.split(net, net.computed(net.x), v.count, 3)


@layer_grid(
    "Reshapes.Op/",
    size="6x10",
    to=("1x10x6", "1x60", "60", "1x1x60", "1x4x15"),
    channels=(1, 16, 33),
)
def _reshapes(net: Net, v: Values) -> int:
    shape = (*shape_of(v.to), v.channels)
    return net.computed(moves.reshape(net, net.computed(net.x), shape))


_BLOCKS = (
    ("SPACE_TO_DEPTH", (SpaceToDepthOptions, True)),
    ("DEPTH_TO_SPACE", (DepthToSpaceOptions, False)),
)
"""Operators, their options, and whether pixels become channels."""


def _block_shapes(v: Values) -> tuple[Sequence[int], ...]:
    """Before and behind it."""
    height, width = pair(v.size)
    spatial = (1, height * v.block, width * v.block, v.channels)
    flat = (1, height, width, v.channels * v.block**2)
    return (spatial, flat) if dict(_BLOCKS)[v.op][1] else (flat, spatial)


@layer_grid(
    "Blocks.Op/",
    input_shape=lambda v: _block_shapes(v)[0],
    op=tuple(dict(_BLOCKS)),
    block=(2, 3, 4),
    channels=(1, 3, 16, 17, 33),
    size=("1x1", "3x5", "7x1", "11x13"),
)
def _blocks(net: Net, v: Values) -> int:
    options = dict(_BLOCKS)[v.op][0](v.block)
    return net.result(v.op, (net.x,), "y", _block_shapes(v)[1], options=options)


@layer_grid(
    "TransposeConv.Op/",
    differing=PER_CHANNEL,
    input_shape=lambda v: (1, *pair(v.size), pair(v.channels)[0]),
    is_in=lambda v: all(map(operator.ge, pair(v.kernel), pair(v.stride))),
    kernel=("2x2", "3x3", "4x4", "5x3"),
    stride=("2x2", "1x1", "3x2"),
    padding=tuple(PADDINGS),
    channels=("1x1", "16x17", "33x15", "40x64"),
    size=("1x7", "5x4", "13x11"),
    type=TYPES,
)
def _transposed(net: Net, v: Values) -> int:
    (kh, kw), (sh, sw) = pair(v.kernel), pair(v.stride)
    (height, width), (inputs, outputs) = pair(v.size), pair(v.channels)
    scheme, rng, given = PADDINGS[v.padding], net.rng, net.scaling(net.x)
    rows, columns = (
        n * s if scheme is Padding.SAME else (n - 1) * s + k
        for n, s, k in ((height, sh, kh), (width, sw, kw))
    )
    count = outputs if v.is_per_channel else 1
    scales = tuple(float(np.float32(s)) for s in 0.01 * 2 ** rng.uniform(-2, 1, count))
    zero = int(rng.integers(100, 150)) if v.dtype is DType.UINT8 else 0
    values = rng.integers(-127, 128, (outputs, kh, kw, inputs))
    stored = (values + (127 if v.dtype is DType.UINT8 else 0)).astype(v.dtype.element.dtype)
    weights = net.constant("w", stored, Quantization(scales, (zero,) * count))
    shape = (1, rows, columns, outputs)
    numbers = net.constant("shape", np.array(shape, np.int32))
    scale = Quantization(tuple(given.scale * s for s in scales), (0,) * count)
    bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
    b = net.constant("b", bias, scale)
    terms = inputs * kh * kw / (sh * sw)
    spread = given.scale * max(scales) * 75 * 75 * max(terms, 1.0) ** 0.5
    zero_points = net.drawn(v.dtype).zero_points
    result = Quantization((float(np.float32(spread / 40)),), zero_points)
    return net.result(
        "TRANSPOSE_CONV", (numbers, weights, net.x, b), "y", shape, result,
        dtype=v.dtype, options=TransposeConvOptions(scheme, sh, sw), version=3,
    )  # fmt: skip


def _split_shape(v: Values) -> list[int]:
    shape = [1, 4, 9, 19]
    shape[v.axis] = sum(shape_of(v.sizes))
    return shape


@layer_grid(
    "UnevenSplits.Op/",
    input_shape=_split_shape,
    sizes=("16x3x16", "1x34x64", "32x48", "5x2", "80x4x1"),
    axis=(1, 3),
)
def _uneven_splits(net: Net, v: Values) -> tuple[int, ...]:
    return moves.split_v(net, net.computed(net.x), shape_of(v.sizes), v.axis)


@model_grid(
    "Packs.Op/",
    shape=("1x7x20", "5x33", "16", "1x3x16"),
    count=(1, 2, 3),
)
def _packs(net: Net, v: Values) -> tuple[int, ...]:
    """A dimension more, and away again."""
    axis, quantization = int(len(v.input_shape) == 3), net.drawn(v.dtype)
    inputs = [net.input(f"x{n}", v.input_shape, v.dtype, quantization) for n in range(v.count)]
    packed = moves.pack(net, [net.computed(x) for x in inputs], axis)
    return moves.unpack(net, net.computed(packed), axis)


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
def _reorders(net: Net, v: Values) -> int:
    """Reshapes that change channels, transposes, and one behind the other."""
    height, width, channels = v.input_shape[1:]
    y = net.computed(net.x)
    if v.by == "reshape":
        y = moves.reshape(net, y, shape_of(_SIZES[v.shape]))
    else:
        y = moves.transpose(net, y, _ORDERS[v.by])
    if v.by == "head":
        y = moves.reshape(net, y, (1, channels, height * width))
    return net.computed(y)


_MODES = {"reflect": REFLECT, "symmetric": SYMMETRIC}


@layer_grid(
    "Borders.Op/",
    input_shape=lambda v: (1 + pair(v.channels)[1] % 2, 9, 7, pair(v.channels)[0]),
    is_in=lambda v: (
        v.by not in _MODES or (max(shape_of(v.amounts)) < 7 and pair(v.channels)[1] == 0)
    ),
    by=("zero", "value", *_MODES),
    amounts=("1x1x1x1", "0x3x2x0", "6x5x4x3", "0x0x0x1", "17x1x0x33"),
    channels=("1x0", "16x0", "21x0", "64x0", "16x5", "3x16"),
    type=EIGHT_BITS,
)
def _borders(net: Net, v: Values) -> int:
    """Add borders of zero points, of any value, mirrored with the outermost pixels and without."""
    (top, bottom, left, right), (_, more) = shape_of(v.amounts), pair(v.channels)
    sides = [[0, 0], [top, bottom], [left, right], [more, more // 2]]
    value = int(net.rng.integers(*LIMITS[v.dtype])) if v.by == "value" else None
    return net.computed(moves.pad(net, net.x, sides, value=value, mode=_MODES.get(v.by)))


_PLACES = ("begin", "inside", "end")
"""The place of a move in its partition."""


def moved_at(net: Net, place: str, move: Callable[[int], int]) -> int:
    """The input, moved between tasks or at an end of the partition."""
    y = move(net.x if place == "begin" else net.computed(net.x))
    return y if place == "end" else net.computed(y)


@layer_grid(
    "Tiles.Op/",
    is_in=lambda v: len(shape_of(v.shape)) == len(shape_of(v.times)),
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
def _tiles(net: Net, v: Values) -> int:
    return moved_at(net, v.place, lambda y: moves.tile(net, y, shape_of(v.times)))


@layer_grid(
    "TilesOfRank.Op/",
    is_in=lambda v: len(shape_of(v.shape)) == len(shape_of(v.times)),
    input_shape=lambda v: as_image(v.input_shape),
    shape=("1x5x1x7x16", "1x5x7x1x33", "2x3x4x1x5", "1x2x3x2x3x16"),
    times=("1x1x2x1x1", "1x1x1x2x1", "1x2x1x1x1", "2x1x1x1x3", "1x1x2x1x2x1", "1x2x1x3x1x1"),
    place=_PLACES,
)
def _tiles_of_rank(net: Net, v: Values) -> int:
    """Add a tile of more than four dimensions, as Keras enlarges images by repeating."""

    def move(y: int) -> int:
        tiled = moves.tile(net, moves.reshape(net, y, v.input_shape), shape_of(v.times))
        return tiled if v.place == "end" else reshaped_to_image(net, tiled)

    return moved_at(net, v.place, move)


def as_image(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a shape of four dimensions: those between height and channels are columns."""
    images, height, *inner, channels = shape
    return images, height, prod(inner), channels


def reshaped_to_image(net: Net, x: int) -> int:
    return moves.reshape(net, x, as_image(net.spec(x).shape))


_INDICES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "one": lambda _, size: size // 2,
    "reversed": lambda _, size: np.arange(size)[::-1],
    "every_second": lambda _, size: np.arange(0, size, 2),
    "shuffled": lambda rng, size: rng.permutation(size),
    "repeated": lambda rng, size: np.sort(rng.integers(0, size, 9)),
    "range": lambda _, size: np.arange(size // 3, size),
    "rows": lambda rng, size: rng.integers(0, size, (1, 3)),
}


def _is_taken(v: Values) -> bool:
    """Return whether the result has a dimension, up to four, and one image, and is more than a
    little of what the CPU gives.
    """
    rank = len(v.input_shape)
    after = rank + {"one": -1, "rows": 1}.get(v.indices, 0)
    is_little = v.indices == "one" and v.place == "begin"
    return v.axis < rank and 0 < after < 5 and (rank < 4 or v.axis > 0) and not is_little


@layer_grid(
    "Gathers.Op/",
    is_in=_is_taken,
    shape=("1x5x7x12", "1x3x16x48", "1x11x33", "4x70", "19"),
    axis=(0, 1, 2, 3),
    indices=tuple(_INDICES),
    place=_PLACES,
)
def _gathers(net: Net, v: Values) -> int:
    """Add any places along any dimension; a single one takes the dimension away."""
    places = _INDICES[v.indices](net.rng, v.input_shape[v.axis])
    return moved_at(net, v.place, lambda y: moves.gather(net, y, places, v.axis))
