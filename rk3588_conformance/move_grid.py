"""Families of operators that bring data elsewhere: parts, joins, other shapes and orders, blocks,
borders, and transposed convolutions, which bring pixels apart. All but these have to be equal.
"""

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.strided_slice import StridedSliceOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.grid import (
    MOVED_TYPES,
    PADDINGS,
    TYPES,
    Values,
    layer_grid,
    model_grid,
    pair,
    shape_of,
)
from rk3588_conformance.tolerance import NONE, PER_CHANNEL


@model_grid(
    "Joins.Op/",
    description="join",
    parts=("16x5", "1x1", "4x1x80", "15x17", "31x33x16", "3x3x3x3", "48x16", "2x40"),
    axis=(1, 3),
    type=MOVED_TYPES,
)
def _joins(net: Net, v: Values) -> int:
    quantization = v.quantization(net)
    tensors = []
    for number, size in enumerate(shape_of(v.parts)):
        shape = [1, 5, 7, 19]
        shape[v.axis] = size
        tensors.append(net.computed(net.input(f"x{number}", shape, v.dtype, quantization)))
    return net.concatenation(tensors, v.axis)


@layer_grid(
    "Cuts.Op/",
    shape="1x9x11x40",
    begin=("0x0x0", "2x0x16", "1x3x5", "3x1x33", "0x7x1"),
    size=("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
    by=("slice", "strided"),
    type=MOVED_TYPES,
)
def _cuts(net: Net, v: Values) -> int:
    y, box = net.computed(net.x), ((0, *shape_of(v.begin)), (1, *shape_of(v.size)))
    return net.computed(net.slice_of(y, *box, strided=v.by == "strided"))


@layer_grid(
    "Splits.Op/",
    input_shape=lambda v: (1, 4, 9, v.channels * v.count),
    channels=(1, 15, 16, 17, 33, 64),
    count=(2, 3, 5),
    type=MOVED_TYPES,
)
def _splits(net: Net, v: Values) -> tuple[int, ...]:
    return net.split(net.computed(net.x), v.count, 3)


@layer_grid(
    "Reshapes.Op/",
    size="6x10",
    to=("1x10x6", "1x60", "60", "1x1x60", "1x4x15"),
    channels=(1, 16, 33),
    type=MOVED_TYPES,
)
def _reshapes(net: Net, v: Values) -> int:
    shape = (*shape_of(v.to), v.channels)
    return net.computed(net.reshape(net.computed(net.x), shape))


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
    is_in=lambda v: v.block == 2 or not v.is_half,
    op=tuple(dict(_BLOCKS)),
    block=(2, 3, 4),
    channels=(1, 3, 16, 17, 33),
    size=("1x1", "3x5", "7x1", "11x13"),
    type=MOVED_TYPES,
)
def _blocks(net: Net, v: Values) -> int:
    options = dict(_BLOCKS)[v.op][0](v.block)
    x = net.computed(net.x) if v.is_half else net.x
    y = net.result(v.op, (x,), "y", _block_shapes(v)[1], options=options)
    return net.computed(y) if v.is_half else y


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
    outputs, sides = pair(v.channels)[1], (pair(v.kernel), pair(v.stride))
    return net.transpose_conv(
        net.x, outputs, *sides, PADDINGS[v.padding], per_channel=v.is_per_channel
    )


def _split_shape(v: Values) -> list[int]:
    shape = [1, 4, 9, 19]
    shape[v.axis] = sum(shape_of(v.sizes))
    return shape


@layer_grid(
    "Dimensions.Op/",
    shape=("1x4x6x8", "1x3x7x5", "1x6x4x33"),
    by=("squeeze", "expand"),
    type=MOVED_TYPES,
)
def _dimensions(net: Net, v: Values) -> int:
    """Drop the images' dimension, which may come again."""
    y = net.squeeze(net.computed(net.x), v.input_shape[1:])
    return net.computed(net.expand_dims(y, v.input_shape) if v.by == "expand" else y)


_DROPPED = {
    "first": ("1x17x32", {1: 0}), "last": ("1x17x32", {1: -1}), "middle": ("1x16x20", {1: 7}),
    "images": ("2x5x48", {1: 2}), "row": ("1x6x5x24", {1: -2}), "column": ("1x6x5x24", {2: 3}),
    "pixel": ("1x6x5x24", {1: 1, 2: 4}), "image": ("3x6x5x16", {0: 1}),
    "inner": ("1x4x3x5x16", {2: 1}), "channel": ("1x6x5x24", {3: 17}),
}  # fmt: skip
"""Shapes, and the place in each dimension that is dropped."""


@layer_grid(
    "DroppedDimensions.Op/",
    input_shape=lambda v: shape_of(_DROPPED[v.at][0]),
    at=tuple(_DROPPED),
    end=(0, 9),
    begin_mask=(0, 2),
)
def _dropped(net: Net, v: Values) -> int:
    """STRIDED_SLICE as `x[:, 0]` takes a token: a dropped dimension is one element, wherever the
    file says that it ends, and the first one if it is masked.
    """
    y, at = net.computed(net.x), _DROPPED[v.at][1]
    shape, ranks = net.spec(y).shape, range(len(net.spec(y).shape))
    numbers = {
        "begin": [at.get(axis, 0) for axis in ranks],
        "end": [v.end if axis in at else shape[axis] for axis in ranks],
        "steps": [1] * len(shape),
    }
    rest, shrink = tuple(shape[n] for n in ranks if n not in at), sum(1 << axis for axis in at)
    whole = sum(1 << axis for axis in ranks if axis not in at)
    table = StridedSliceOptions(v.begin_mask | whole, whole, 0, 0, shrink)
    how: dict[str, Any] = {"options": table, "numbers": numbers, "version": 2}
    return net.computed(net.result("STRIDED_SLICE", (y,), "z", rest, **how))


@layer_grid(
    "UnevenSplits.Op/",
    input_shape=_split_shape,
    sizes=("16x3x16", "1x34x64", "32x48", "5x2", "80x4x1"),
    axis=(1, 3),
    type=MOVED_TYPES,
)
def _uneven_splits(net: Net, v: Values) -> tuple[int, ...]:
    return net.split_v(net.computed(net.x), shape_of(v.sizes), v.axis)


@model_grid(
    "Packs.Op/",
    shape=("1x7x20", "5x33", "16", "1x3x16"),
    count=(1, 2, 3),
    type=MOVED_TYPES,
)
def _packs(net: Net, v: Values) -> tuple[int, ...]:
    """A dimension more, and away again."""
    axis, quantization = int(len(v.input_shape) == 3), v.quantization(net)
    inputs = [net.input(f"x{n}", v.input_shape, v.dtype, quantization) for n in range(v.count)]
    packed = net.pack([net.computed(x) for x in inputs], axis)
    return net.unpack(net.computed(packed), axis)


_SIZES = {
    "1x5x7x12": "1x35x3x4", "1x4x5x85": "1x20x17x5", "1x3x20x16": "1x3x4x80",
    "1x1x33x1": "1x1x1x33", "1x6x4x273": "1x24x3x91", "1x4x16x37": "1x4x8x74",
}  # fmt: skip
_ORDERS = {
    "columns": (0, 2, 1, 3), "channels": (0, 1, 3, 2), "first": (0, 3, 1, 2),
    "head": (0, 3, 1, 2),
}  # fmt: skip


@layer_grid(
    "Reorders.Op/",
    differing=NONE,
    # Of two bytes to a value these make two partitions.
    is_in=lambda v: not (v.is_half and v.shape in ("1x1x33x1", "1x6x4x273")),
    shape=tuple(_SIZES),
    by=("reshape", *_ORDERS),
    type=MOVED_TYPES,
)
def _reorders(net: Net, v: Values) -> int:
    """Reshapes that change channels, transposes, and one behind the other."""
    height, width, channels = v.input_shape[1:]
    y = net.computed(net.x)
    if v.by == "reshape":
        y = net.reshape(y, shape_of(_SIZES[v.shape]))
    else:
        y = net.transpose(y, _ORDERS[v.by])
    if v.by == "head":
        y = net.reshape(y, (1, channels, height * width))
    return net.computed(y)


_MODES = {"reflect": REFLECT, "symmetric": SYMMETRIC}


@layer_grid(
    "Borders.Op/",
    input_shape=lambda v: (1 + pair(v.channels)[1] % 2, 9, 7, pair(v.channels)[0]),
    is_in=lambda v: (
        (v.by not in _MODES or (max(shape_of(v.amounts)) < 7 and pair(v.channels)[1] == 0))
        and not (v.by == "value" and v.is_half)
    ),
    by=("zero", "value", *_MODES),
    amounts=("1x1x1x1", "0x3x2x0", "6x5x4x3", "0x0x0x1", "17x1x0x33"),
    channels=("1x0", "16x0", "21x0", "64x0", "16x5", "3x16"),
    type=MOVED_TYPES,
)
def _borders(net: Net, v: Values) -> int:
    """Add borders of zero points, of any value, mirrored with the outermost pixels and without."""
    (top, bottom, left, right), (_, more) = shape_of(v.amounts), pair(v.channels)
    sides = [[0, 0], [top, bottom], [left, right], [more, more // 2]]
    value = int(net.rng.integers(*LIMITS[v.dtype])) if v.by == "value" else None
    return net.computed(net.pad(net.x, sides, value=value, mode=_MODES.get(v.by)))


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
    type=MOVED_TYPES,
)  # fmt: skip
def _tiles(net: Net, v: Values) -> int:
    return moved_at(net, v.place, lambda y: net.tile(y, shape_of(v.times)))


@layer_grid(
    "TilesOfRank.Op/",
    is_in=lambda v: len(shape_of(v.shape)) == len(shape_of(v.times)),
    input_shape=lambda v: as_image(v.input_shape),
    shape=("1x5x1x7x16", "1x5x7x1x33", "2x3x4x1x5", "1x2x3x2x3x16"),
    times=("1x1x2x1x1", "1x1x1x2x1", "1x2x1x1x1", "2x1x1x1x3", "1x1x2x1x2x1", "1x2x1x3x1x1"),
    place=_PLACES,
    type=MOVED_TYPES,
)
def _tiles_of_rank(net: Net, v: Values) -> int:
    """Add a tile of more than four dimensions, as Keras enlarges images by repeating."""

    def move(y: int) -> int:
        tiled = net.tile(net.reshape(y, v.input_shape), shape_of(v.times))
        return tiled if v.place == "end" else reshaped_to_image(net, tiled)

    return moved_at(net, v.place, move)


def as_image(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a shape of four dimensions: those between height and channels are columns."""
    images, height, *inner, channels = shape
    return images, height, prod(inner), channels


def reshaped_to_image(net: Net, x: int) -> int:
    return net.reshape(x, as_image(net.spec(x).shape))


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
    "Reversals.Op/",
    is_in=lambda v: v.axis < len(v.input_shape),
    shape=("1x5x7x12", "1x3x16x48", "2x6x3x33", "1x1x20x3", "1x40x1x16", "1x11x33", "4x70", "19"),
    axis=(0, 1, 2, 3),
    place=_PLACES,
    type=MOVED_TYPES,
)
def _reversals(net: Net, v: Values) -> int:
    """Flips of rows, columns and channels."""
    return moved_at(net, v.place, lambda y: net.reverse(y, v.axis))


@layer_grid(
    "Gathers.Op/",
    is_in=_is_taken,
    shape=("1x5x7x12", "1x3x16x48", "1x11x33", "4x70", "19"),
    axis=(0, 1, 2, 3),
    indices=tuple(_INDICES),
    place=_PLACES,
    type=MOVED_TYPES,
)
def _gathers(net: Net, v: Values) -> int:
    """Add any places along any dimension; a single one takes the dimension away."""
    places = _INDICES[v.indices](net.rng, v.input_shape[v.axis])
    return moved_at(net, v.place, lambda y: net.gather(y, places, v.axis))
