"""Operators in fp16 within their bounds for every element: convolutions, matrix products and
transposed convolutions, with weights as float32, as float16 behind DEQUANTIZE, and as int8 of
dynamic range; and maps over windows, and to other sizes.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from delegate.model.graph import Activation, DType, Padding
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.reals import Reals, numbers, stored_reals
from rk3588_conformance.grid import (
    HALF,
    HALF_TYPES,
    PADDINGS,
    Values,
    layer_grid,
    model_grid,
    shape_of,
)

_ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6)
_WEIGHTS = ("float32", "float16")
_PLAIN = f"{HALF}plain"


def _spread(v: Values) -> str:
    """Return the spread of weights, which are not the ends of fp16."""
    return "wide" if v.type.endswith("wide") else "plain"


def _reals(net: Net, v: Values, *, has_bias: bool = True) -> Reals:
    """Return numbers with any activation."""
    clamp = _ACTIVATIONS[int(net.rng.integers(len(_ACTIVATIONS)))]
    return Reals(activation=clamp, kind=v.weights, spread=_spread(v), has_bias=has_bias)


def _image(net: Net, channels: int, *, least: int = 6, most: int = 22, images: int = 1) -> int:
    """An input of up to ``images``, whose sides are drawn."""
    count, (h, w) = net.rng.integers(1, images + 1), net.rng.integers(least, most + 1, 2)
    return net.input("x", (int(count), int(h), int(w), channels), DType.FLOAT32)


def _from_to(channels: str) -> tuple[int, int]:
    """Return the numbers of input and output channels in "3to5"."""
    inputs, outputs = channels.split("to")
    return int(inputs), int(outputs)


_GEOMETRIES = {
    "1x1": (1, 1, 1, 1, 1, 1), "3x3": (3, 3, 1, 1, 1, 1), "5x2": (5, 2, 1, 1, 1, 1),
    "3x3s2": (3, 3, 2, 2, 1, 1), "2x3d2": (2, 3, 1, 1, 2, 2),
}  # fmt: skip


@model_grid(
    "Half.Conv/",
    window=tuple(_GEOMETRIES),
    channels=("3to5", "8to16", "17to33", "24to40", "40to8", "65to24", "96to130"),
    padding=tuple(PADDINGS),
    weights=_WEIGHTS,
    type=HALF_TYPES,
)
def _convolutions(net: Net, v: Values) -> int:
    covered = Window(*_GEOMETRIES[v.window], PADDINGS[v.padding])
    inputs, outputs = _from_to(v.channels)
    given = _reals(net, v, has_bias=bool(net.rng.integers(4)))
    return net.conv(_image(net, inputs, images=2), outputs, covered, given)


@model_grid(
    "Half.Depthwise/",
    kernel=(3, 5),
    stride=(1, 2),
    channels=(3, 8, 15, 16, 24, 28, 33, 48, 64, 72, 130),
    multiplier=(1, 2),
    weights=_WEIGHTS,
    type=HALF_TYPES,
)
def _depthwise(net: Net, v: Values) -> int:
    window = Window(v.kernel, v.kernel, v.stride, v.stride)
    return net.depthwise(_image(net, v.channels), window, _reals(net, v), multiplier=v.multiplier)


def _is_cube_or_small(v: Values) -> bool:
    """Return whether all three sizes are 512, or none."""
    return len({str(size) == "512" for size in (v.rows, v.inputs, v.outputs)}) == 1


@layer_grid(
    "Half.Product/",
    input_shape=lambda v: (v.rows, v.inputs),
    type=_PLAIN,
    rows=(1, 3, 512),
    inputs=(1, 24, 100, 512, 640, 1280),
    outputs=(1, 10, 63, 512, 1001),
    weights=_WEIGHTS,
    is_in=_is_cube_or_small,
)
def _products(net: Net, v: Values) -> int:
    return net.fully_connected(net.x, v.outputs, Reals(kind=v.weights))


@layer_grid(
    "Half.MatrixProduct/",
    input_shape=lambda v: (*shape_of(v.rows), v.inputs),
    rows=("1", "7", "2x5", "3x1x4", "512"),
    inputs=(1, 24, 100, 512, 640),
    outputs=(1, 10, 63, 512),
    order=("inputs_first", "outputs_first"),
    weights=_WEIGHTS,
    type=HALF_TYPES,
    is_in=_is_cube_or_small,
)
def _matrix_products(net: Net, v: Values) -> int:
    is_turned = v.order == "outputs_first"
    matrix = (v.outputs, v.inputs) if is_turned else (v.inputs, v.outputs)
    w = stored_reals(net, "w", numbers(net.rng, matrix, _spread(v)), v.weights)
    return net.computed_product(net.x, w, None, adj_y=is_turned)


_TRANSPOSED = {"2x2s2": (2, 2, 2), "3x3s2": (3, 3, 2), "4x4s2": (4, 4, 2), "3x2s1": (3, 2, 1)}


@model_grid(
    "Half.Transposed/",
    window=tuple(_TRANSPOSED),
    channels=("3to5", "16to1", "17to33", "40to8"),
    padding=tuple(PADDINGS),
    type=HALF_TYPES,
    weights="float16",
)
def _transposed(net: Net, v: Values) -> int:
    (kh, kw, stride), scheme = _TRANSPOSED[v.window], PADDINGS[v.padding]
    inputs, outputs = _from_to(v.channels)
    x = _image(net, inputs, least=3, most=10, images=2)
    given = _reals(net, v, has_bias=bool(net.rng.integers(2)))
    images, *sides, _ = net.spec(x).shape
    rows, columns = (
        n * stride + (max(k - stride, 0) if scheme is Padding.VALID else 0)
        for n, k in zip(sides, (kh, kw), strict=True)
    )
    result = (images, rows, columns, outputs)
    size = net.constant("size", np.array(result, np.int32))
    w, *bias = given.operands(net, (outputs, kh, kw, inputs), 0)
    table = TransposeConvOptions(scheme, stride, stride, given.activation)
    version = 3 if bias else 1
    operands = (size, w, x, *bias)
    return net.result(
        "TRANSPOSE_CONV", operands, "y", result, dtype=DType.FLOAT32, options=table, version=version
    )


@model_grid(
    "Half.DynamicRange/",
    type=_PLAIN,
    layer=("conv", "depthwise", "dense"),
    scales=("one", "per_channel"),
    channels=("1to10", "16to32", "24to33", "65to17", "100to130"),
)
def _dynamic_range(net: Net, v: Values) -> int:
    """Weights of int8 with one scale, or one per channel."""
    inputs, outputs = _from_to(v.channels)
    given, window = Reals(kind=v.scales), Window(3, 2)
    if v.layer == "dense":
        return net.fully_connected(net.input("x", (7, inputs), DType.FLOAT32), outputs, given)
    x = _image(net, inputs, least=3, most=11)
    return (
        net.depthwise(x, window, given)
        if v.layer == "depthwise"
        else net.conv(x, outputs, window, given)
    )


_LARGE = 31
_LARGE_TOO = ("mean", "average_pool")
"""Operators whose windows are larger than a kernel may be."""


def _padded(net: Net, x: int) -> int:
    return net.pad(x, [(0, 0), (0, 0), (0, 0), net.rng.integers(0, 20, 2).tolist()])


def _average(net: Net, x: int) -> int:
    _, height, width, _ = net.spec(x).shape
    sides = (2, 3, 1, 2)
    if max(height, width) > _LARGE:  # as squeeze-and-excite has it
        sides = (height, width, height, width)
    return net.pool("AVERAGE_POOL_2D", x, *sides, Padding.VALID, Activation.RELU)


def _doubled(aligned: bool, centres: bool, net: Net, x: int) -> int:
    """RESIZE_BILINEAR with corners aligned, or centres at halves, or neither."""
    rows, columns = (2 * size - aligned for size in net.spec(x).shape[1:3])
    return net.resize("RESIZE_BILINEAR", x, rows, columns, ResizeBilinearOptions(aligned, centres))


_POOLS: dict[str, Callable[[Net, int], int]] = {
    "pad": _padded,
    "mean": lambda net, x: net.reduced("MEAN", x, keep_dims=True),
    "row_mean": lambda net, x: net.reduced("MEAN", x, keep_dims=True, axes=(-1,)),
    "maximum": lambda net, x: net.reduced("REDUCE_MAX", x, keep_dims=True),
    "row_maximum": lambda net, x: net.reduced("REDUCE_MAX", x, keep_dims=True, axes=(-1,)),
    "max_pool": lambda net, x: net.pool("MAX_POOL_2D", x, 2, 2, 2, 2, Padding.VALID),
    "average_pool": _average,
    "bilinear_aligned": partial(_doubled, True, False),
    "bilinear_centres": partial(_doubled, False, True),
    "bilinear_plain": partial(_doubled, False, False),
}


@layer_grid(
    "Half.Pool/",
    op=tuple(_POOLS),
    shape=(
        "1x2x4x1", "1x7x6x3", "1x13x18x16", "2x4x12x33", "1x9x4x130", "1x31x8x24", "1x64x32x16",
        "2x33x62x33", "1x128x128x8",
    ),
    type=HALF_TYPES,
    is_in=lambda v: v.op in _LARGE_TOO or max(v.input_shape[1:3]) <= _LARGE,
)  # fmt: skip
def _pools(net: Net, v: Values) -> int:
    """Maxima, means and added channels."""
    return _POOLS[v.op](net, net.x)


_WINDOWS = {
    "2x2s1": (2, 2, 1, 1), "3x3s1": (3, 3, 1, 1), "3x3s2": (3, 3, 2, 2), "2x3s2": (2, 3, 2, 1),
    "5x5s1": (5, 5, 1, 1), "4x1s3": (4, 1, 3, 2), "7x7s4": (7, 7, 4, 4), "9x3s2": (9, 3, 2, 2),
}  # fmt: skip
"""Rows, columns, and the strides of both."""


def _is_covered(v: Values) -> bool:
    height, width = v.input_shape[1:3]
    rows, columns = _WINDOWS[v.window][:2]
    return v.padding == "same" or (rows <= height and columns <= width)


_CLAMPED = ("AVERAGE_POOL_2D",)


@layer_grid(
    "Half.Window/",
    op=("MAX_POOL_2D", "AVERAGE_POOL_2D"),
    window=tuple(_WINDOWS),
    padding=tuple(PADDINGS),
    shape=("1x7x6x3", "1x13x18x16", "2x5x12x33", "1x9x4x130", "1x31x9x8", "1x4x5x24"),
    type=HALF_TYPES,
    is_in=_is_covered,
)
def _windows(net: Net, v: Values) -> int:
    """Pools whose windows overlap, or reach beyond the image."""
    is_clamped = v.op in _CLAMPED and net.rng.integers(2)
    clamp = Activation.RELU if is_clamped else Activation.NONE
    return net.pool(v.op, net.x, *_WINDOWS[v.window], PADDINGS[v.padding], clamp)
