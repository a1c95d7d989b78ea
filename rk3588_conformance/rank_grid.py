"""Families of tensors with five and six dimensions, as shuffled channels, heads of detectors and
windows of transformers have them, and of moves from images to images.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.grid import Values, layer_grid, shape_of
from rk3588_conformance.move_grid import as_image, moved_at, reshaped_to_image
from rk3588_conformance.tolerance import SUM_ALONE

_TRANSPOSED = {
    "shuffled": ("1x6x5x2x24", (0, 1, 2, 4, 3)), "shuffled_3": ("1x5x7x3x11", (0, 1, 2, 4, 3)),
    "windows": ("1x4x3x2x5x16", (0, 1, 3, 2, 4, 5)), "windows_5": ("2x3x4x5x33", (0, 2, 1, 3, 4)),
    "patches": ("1x4x4x3x2x7", (0, 1, 3, 2, 4, 5)), "back": ("6x2x5x16", (1, 0, 2, 3)),
    "anchors": ("1x7x5x3x20", (0, 3, 1, 2, 4)),
    "heads": ("1x19x3x2x16", (2, 0, 3, 1, 4)), "keys": ("4x9x3x16", (0, 2, 3, 1)),
    "merged": ("3x17x32", (1, 0, 2)), "images_inside": ("4x5x3x16", (1, 0, 2, 3)),
}  # fmt: skip


@layer_grid(
    "TransposesOfRank.Op/",
    input_shape=lambda v: as_image(shape_of(_TRANSPOSED[v.by][0])),
    by=tuple(_TRANSPOSED),
    place=("inside", "end"),
)
def _transposes(net: Net, v: Values) -> int:
    """Add a reshape, a transpose and, unless it is the end, a reshape to an image."""
    shape, axes = _TRANSPOSED[v.by]

    def move(x: int) -> int:
        y = net.transpose(net.reshape(x, shape_of(shape)), axes)
        return y if v.place == "end" else reshaped_to_image(net, y)

    return moved_at(net, v.place, move)


_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def _in_parts(net: Net, x: int, parts: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Add ``axes`` of channels and pixels in ``parts``, channels first, as PyTorch has them."""
    _, height, width, channels = net.spec(x).shape
    first = net.transpose(x, _TO_FIRST)
    y = net.transpose(net.reshape(first, (1, *parts, height, width)), axes)
    rows = height * 2 if len(parts) == 3 else height
    size = (1, channels * height // rows // (rows // height), rows, width * rows // height)
    return net.transpose(net.reshape(y, size), _TO_LAST)


def _shuffled(net: Net, x: int, groups: int) -> int:
    parts = (groups, net.spec(x).shape[3] // groups)
    return _in_parts(net, x, parts, (0, 2, 1, 3, 4))


_SHUFFLES: dict[str, Callable[[Net, int], int]] = {
    "of_2": lambda net, x: _shuffled(net, x, 2),
    "of_3": lambda net, x: _shuffled(net, x, 3),
    "back": lambda net, x: _shuffled(net, x, net.spec(x).shape[3] // 2),
    "pixels": lambda net, x: _in_parts(
        net, x, (net.spec(x).shape[3] // 4, 2, 2), (0, 1, 4, 2, 5, 3)
    ),
}


@layer_grid(
    "Shuffles.Op/",
    input_shape=lambda v: v.input_shape,
    is_in=lambda v: v.input_shape[3] % (12 if v.by == "pixels" else 6) == 0,
    shape=("1x5x7x12", "1x1x9x24", "1x6x4x66", "1x3x2x132"),
    by=tuple(_SHUFFLES),
    place=("inside", "end"),
)
def _shuffles(net: Net, v: Values) -> int:
    """Shuffle channels, or pixels with channels."""
    return moved_at(net, v.place, lambda x: _SHUFFLES[v.by](net, x))


def _halves(net: Net, x: int, axis: int) -> int:
    return net.concatenation(net.split(x, 2, axis)[::-1], axis)


def _without_first(net: Net, x: int, axis: int) -> int:
    shape = net.spec(x).shape
    begin = [int(n == axis) for n in range(len(shape))]
    return net.slice_of(x, begin, np.subtract(shape, begin).tolist())


_MOVES: dict[str, Callable[[Net, int, int], int]] = {
    "halves": _halves,
    "without_first": _without_first,
    "unpacked": lambda net, x, axis: net.pack(net.unpack(x, axis)[::-1], axis),
    "gathered": lambda net, x, axis: net.gather(x, (1, 0, 1), axis),
}


def _is_cut(v: Values) -> bool:
    """Return whether the runtime has it, and a dimension besides becomes none of the channels."""
    rank = len(v.input_shape)
    is_possible = (v.by, rank) != ("without_first", 6) and (v.by, v.axis) != ("unpacked", rank - 1)
    return v.axis < rank and v.input_shape[v.axis] % 2 == 0 and is_possible


@layer_grid(
    "PartsOfRank.Op/",
    input_shape=lambda v: as_image(v.input_shape),
    is_in=_is_cut,
    shape=("1x6x5x2x24", "2x4x3x2x16", "1x2x4x6x3x32", "1x8x1x1x7", "1x4x2x3x64"),
    axis=(1, 2, 3, 4, 5),
    by=tuple(_MOVES),
)
def _parts(net: Net, v: Values) -> int:
    """Cut and join along a dimension."""
    y = net.reshape(net.computed(net.x), v.input_shape)
    return net.computed(reshaped_to_image(net, _MOVES[v.by](net, y, v.axis)))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The quantisation of a result, and a constant of the operand's shape or of its channels."""

    result: Quantization
    whole: int
    channels: int


def _mean(first: int, *, keep_dims: bool) -> Callable[[Net, int, _Drawn], int]:
    """Return what adds a mean of all dimensions from ``first`` on but the last."""

    def added(net: Net, x: int, drawn: _Drawn) -> int:
        axes = tuple(range(first, len(net.spec(x).shape) - 1))
        return net.reduced("MEAN", x, drawn.result, keep_dims=keep_dims, axes=axes)

    return added


def _curve(net: Net, x: int, _: _Drawn) -> int:
    low, high = LIMITS[net.spec(x).dtype]
    return net.function("TANH", (x,), one_scale(1 / 128, (low + high + 1) // 2))


_LAYERS: dict[str, Callable[[Net, int, _Drawn], int]] = {
    "curve": _curve,
    "clamp": lambda net, x, drawn: net.function("RELU6", (x,), drawn.result),
    "sum": lambda net, x, d: net.function("ADD", (x, d.whole), d.result, AddOptions()),
    "sum_of_channels": lambda net, x, d: net.function(
        "ADD", (x, d.channels), d.result, AddOptions()
    ),
    "product": lambda net, x, d: net.function("MUL", (x, d.whole), d.result, MulOptions()),
    "mean": _mean(1, keep_dims=True),
    "mean_of_images": _mean(0, keep_dims=False),
    "mean_of_channels": lambda net, x, drawn: net.reduced(
        "MEAN", x, drawn.result, keep_dims=True, axes=(-1,)
    ),
}


@layer_grid(
    "FunctionsOfRank.Op/",
    differing=SUM_ALONE,
    is_in=lambda v: v.by != "mean_of_images" or v.input_shape[0] == 1,
    shape=("1x6x5x2x24", "2x3x4x2x7", "1x2x3x4x5x16", "2x1x3x2x2x33"),
    by=tuple(_LAYERS),
)
def _functions(net: Net, v: Values) -> int:
    """Add a function, a sum, a product or a mean of all dimensions."""
    result = net.rescaled(net.x, 1.3)
    whole, channels = (
        net.random_constant(size, v.dtype, result) for size in (v.input_shape, v.input_shape[-1:])
    )
    return _LAYERS[v.by](net, net.x, _Drawn(result, whole, channels))


_MEANS = ("MEAN",)
_FIRST_LAYERS = {
    "pixels": ("MEAN", (2, 3)), "channels": ("MEAN", (1,)), "image": ("MEAN", (0, 2, 3)),
    "largest": ("REDUCE_MAX", (2, 3)),
}  # fmt: skip
"""Operators and axes; a mean of several images at once is none of pixels."""


@layer_grid(
    "ChannelsFirst.Op/",
    differing=SUM_ALONE,
    shape=("1x5x7x33", "1x12x10x16", "1x1x9x20", "2x3x4x8", "1x36x40x5"),
    by=tuple(_FIRST_LAYERS),
    joined=(False, True),
    is_in=lambda v: v.by != "image" or v.input_shape[0] == 1,
)
def _channels_first(net: Net, v: Values) -> int:
    """Reduce pixels or channels of a map, channels first, and perhaps add the map."""
    result = net.rescaled(net.x, 1.3)
    x = net.transpose(net.computed(net.x), _TO_FIRST)
    op, axes = _FIRST_LAYERS[v.by]
    y = net.reduced(op, x, result if op in _MEANS else None, keep_dims=True, axes=axes)
    if v.joined:
        y = net.function("ADD", (x, y), result, AddOptions())
    return net.computed(net.transpose(y, _TO_LAST))


@layer_grid(
    "JoinedConstants.Op/",
    shape=("1x36x96", "1x5x7x19", "2x3x5x16", "1x2x3x5x33"),
    axis=(0, 1, 2, 3, 4),
    size=(1, 3, 16),
    order=("first", "last"),
    place=("begin", "inside", "end"),
    is_in=lambda v: v.axis < len(v.input_shape),
)
def _joined_constants(net: Net, v: Values) -> int:
    """Join a constant, as transformers have a token of the class; channels of uint8 may
    have another scale."""

    def move(y: int) -> int:
        spec, axis = net.spec(y), v.axis
        shape = (*spec.shape[:axis], int(v.size), *spec.shape[axis + 1 :])
        is_rescaled = spec.dtype is DType.UINT8 and axis == len(spec.shape) - 1
        other = net.rescaled(net.x, 0.7) if is_rescaled else spec.quantization
        part = net.random_constant(shape, spec.dtype, other)
        return net.concatenation((part, y) if v.order == "first" else (y, part), axis)

    return moved_at(net, v.place, move)
