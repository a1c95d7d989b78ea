"""Steps of random graphs that pool, resize, reorder, and compute functions of one or two
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.mul import MulOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.sub import SubOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import moves, options, pooling
from rk3588_conformance.builder.functions import function, quotient
from rk3588_conformance.builder.layers import conv
from rk3588_conformance.builder.moves import pad, resize
from rk3588_conformance.builder.products import matrix_product
from rk3588_conformance.builder.ranges import LIMITS

if TYPE_CHECKING:
    from rk3588_conformance.generated.random_graphs import Generator

UNARY = ("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH", "LEAKY_RELU", "ABS")
CLAMPED = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6)
MOST_PIXELS = 1500  # of what is made larger
MOST_REPEATED = 20_000
"""Elements of a tensor that is repeated."""


def _function(g: Generator, x: int) -> list[int]:
    """Add a function of one value; a uint8 ABS is none of the runtime's."""
    op = UNARY[g.pick(len(UNARY) - (g.dtype is DType.UINT8))]
    low = -128 if g.dtype is DType.INT8 else 0
    fixed = {
        "LOGISTIC": Quantization((1 / 256,), (low,)),
        "TANH": Quantization((1 / 128,), (low + 128,)),
    }
    table = None
    if op == "LEAKY_RELU":
        table = options.of(LeakyReluOptions(float(np.float32(g.pick((0.01, 0.1, 0.3, 1.7))))))
    g.read.add(x)
    return [function(g.builder, op, (x,), fixed.get(op) or g.quantization(), table)]


def _quotient(g: Generator, x: int) -> list[int]:
    """Divide by a constant; the runtime does so with uint8 alone. Of int8: branches."""
    if g.dtype is not DType.UINT8:
        return _branches(g, x)
    g.read.add(x)
    return [quotient(g.builder, g.rng, x, is_above=g.chance(0.5), activation=CLAMPED[g.pick(4)])]


def _slopes(g: Generator, x: int) -> list[int]:
    """PRELU with a slope per channel, or any that are broadcast."""
    shape = tuple(size if g.chance(0.3) else 1 for size in g.shape(x)[1:3])
    if g.is_resized or g.is_stretched:
        shape = (1, 1)
    slopes = g.constant((*shape, g.shape(x)[3]))
    g.read.add(x)
    return [function(g.builder, "PRELU", (x, slopes), g.quantization())]


def _other(g: Generator, x: int) -> int:
    """A second operand: the same, one of the same shape, one value, one per channel, or one per
    pixel.
    """
    kind = g.pick(range(7))
    if kind == 6 and not (g.is_resized or g.is_stretched):
        images, height, width, _ = g.shape(x)
        image = (height, width) if g.chance(0.7) else (1, 1)
        other = g.input((images if g.chance(0.5) else 1, *image, 1))
        g.tensors.insert(0, other)
        return other
    if kind == 0:
        return x
    if kind == 1:
        return g.constant((1,))
    if kind == 2:
        return g.constant((g.shape(x)[3],))
    fitting = [t for t in g.tensors if g.shape(t) == g.shape(x)]
    return fitting[g.pick(len(fitting))]


def _pair(g: Generator, x: int) -> list[int]:
    """MUL or SUB of two values."""
    other = _other(g, x)
    pair = (x, other) if g.chance(0.5) or g.shape(other) != g.shape(x) else (other, x)
    activation = CLAMPED[g.pick(len(CLAMPED))]
    g.read.update(pair)
    if g.chance(0.6):
        return [function(g.builder, "MUL", pair, g.quantization(), MulOptions(activation))]
    return [function(g.builder, "SUB", pair, g.quantization(), SubOptions(activation))]


def _squares(g: Generator, x: int) -> list[int]:
    """Add a SQUARED_DIFFERENCE, of int8 only; scales of results for which the runtime has a
    multiplier.
    """
    other = _other(g, x)
    if g.dtype is not DType.INT8:
        return []
    largest = max(g.scale(x), g.scale(other))
    q = g.quantization()
    if 4 * largest**2 >= q.scale * (1 << 14):
        return []
    g.read.update((x, other))
    return [function(g.builder, "SQUARED_DIFFERENCE", (x, other), q)]


def _shares(g: Generator, x: int) -> list[int]:
    """Add a SOFTMAX, whose classes are the channels."""
    g.read.add(x)
    result = Quantization((1 / 256,), (LIMITS[g.dtype][0],))
    beta = (1.0, 1.0, 0.25, 4.0)[g.pick(4)]
    return [function(g.builder, "SOFTMAX", (x,), result, options.softmax(beta))]


def _extremum(g: Generator, x: int) -> list[int]:
    """Add a maximum or minimum of tensors with one quantisation: the kernels compare raw values."""
    spec = g.builder.spec(x)
    fitting = [
        t for t in g.tensors
        if g.shape(t) == g.shape(x) and g.builder.spec(t).quantization == spec.quantization
    ]  # fmt: skip
    other = fitting[g.pick(len(fitting))]
    assert spec.quantization is not None
    g.read.update((x, other))
    op = ("MAXIMUM", "MINIMUM")[g.pick(2)]
    return [function(g.builder, op, (x, other), spec.quantization)]


def _pooled(g: Generator, x: int) -> list[int]:
    _, h, w, _ = g.shape(x)
    kh, kw = (g.pick((1, 2, 2, 3, 3, 5, 7)) for _ in "hw")
    padding = Padding.SAME
    if kh <= h and kw <= w and g.chance(0.5):
        padding = Padding.VALID
    g.read.add(x)
    op = ("MAX_POOL_2D", "AVERAGE_POOL_2D")[g.pick(2)]
    sh, sw = (g.pick((1, 1, 2, 3)) for _ in "hw")
    return [pooling.pool(g.builder, op, x, kh, kw, sh, sw, padding, CLAMPED[g.pick(4)])]


def _reduced(g: Generator, x: int) -> list[int]:
    g.read.add(x)
    if g.chance(0.5):
        if g.dtype is DType.UINT8 and g.chance(0.3):
            return [pooling.reduced(g.builder, "SUM", x, g.quantization(), keep_dims=True)]
        return [pooling.reduced(g.builder, "MEAN", x, g.quantization(), keep_dims=True)]
    return [pooling.reduced(g.builder, "REDUCE_MAX", x, keep_dims=True)]


def _resized(g: Generator, x: int) -> list[int]:
    """Resize by whole factors mostly; with values in between up or down."""
    _, h, w, _ = g.shape(x)
    if g.chance(0.3):
        factor = g.pick((2, 2, 4, 3, 5))
        rows, columns = factor * h, factor * w
        if g.chance(0.3):
            rows, columns = (side // factor if side % factor == 0 else side for side in (h, w))
        if rows * columns > MOST_PIXELS:
            return []
        g.read.add(x)
        where = g.pick(range(3))
        between = ResizeBilinearOptions(where == 1, where == 2)
        return [resize(g.builder, "RESIZE_BILINEAR", x, rows, columns, between)]
    rows, columns = (side * g.pick((1, 2, 2, 3)) for side in (h, w))
    if g.chance(0.1):
        rows += 1
    if rows * columns > MOST_PIXELS:
        return []
    g.read.add(x)
    corners = g.pick(range(3))
    table = ResizeNearestOptions(corners == 1, corners == 2)
    return [resize(g.builder, "RESIZE_NEAREST_NEIGHBOR", x, rows, columns, table)]


def _spread(g: Generator, x: int) -> list[int]:
    """TRANSPOSE_CONV, whose size is a constant of the model."""
    n, h, w, c = g.shape(x)
    kernel = [g.pick((1, 2, 3, 3, 4, 5)) for _ in "hw"]
    strides = [g.pick(range(1, min(side, 4) + 1)) for side in kernel]
    is_same = g.chance(0.6)
    rows, columns = (
        size * stride - g.pick(range(stride)) if is_same else (size - 1) * stride + side
        for size, side, stride in zip((h, w), kernel, strides, strict=True)
    )
    outputs = g.pick((1, 3, 8, 16, 17, 33))
    if g.is_resized or g.is_stretched or rows * columns > MOST_PIXELS:
        return []
    q = g.quantization()
    low, high = LIMITS[g.dtype]
    values = g.rng.integers(low + 1, high + 1, (outputs, *kernel, c)).astype(g.dtype.element.dtype)
    middle = 0 if low else g.pick((0, 119, 128, 255))
    # About so many products meet in an output, each of some 75 by 75 steps.
    met = max(c * prod(kernel) / prod(strides), 1.0)
    base = 40 * q.scale / (g.scale(x) * 75 * 75 * met**0.5)
    spread = g.rng.uniform(-1.5, 1.5, outputs if g.per_channel else 1)
    scales = tuple(float(np.float32(base * 2**s)) for s in spread)
    bias = g.rng.integers(-20000, 20000, outputs).astype(np.int32)
    zeros = (0,) * len(scales)
    products = tuple(float(np.float32(g.scale(x)) * np.float32(s)) for s in scales)
    name = f"spread{len(g.words)}"
    shape = (n, rows, columns, outputs)
    inputs = [
        g.builder.constant(f"{name}/shape", np.array(shape, np.int32)),
        g.builder.constant(f"{name}/weights", values, Quantization(scales, (middle,) * len(zeros))),
        x,
    ]
    if g.chance(0.7):
        inputs.append(g.builder.constant(f"{name}/bias", bias, Quantization(products, zeros)))
    y = g.builder.tensor(name, shape, g.dtype, q)
    padding = Padding.SAME if is_same else Padding.VALID
    # Only runtimes from 2.15 on have version 4, which may clamp.
    table = TransposeConvOptions(padding, strides[0], strides[1], Activation.NONE)
    g.builder.operator("TRANSPOSE_CONV", inputs, (y,), table, version=3)
    g.read.add(x)
    return [y]


def _product(g: Generator, x: int) -> list[int]:
    """Add a product with a constant of int8; the runtime has none of uint8."""
    if g.dtype is not DType.INT8:
        return []
    outputs = g.pick((1, 3, 8, 17, 40))
    matrix = g.rng.integers(-127, 128, (g.shape(x)[3], outputs)).astype(np.int8)
    g.read.add(x)
    point = g.pick((0, 0, -7, 101))
    adj_y = g.chance(0.5)
    return [matrix_product(g.builder, x, matrix, g.quantization(), zero_point=point, adj_y=adj_y)]


def _blocks(g: Generator, x: int) -> list[int]:
    """Add DEPTH_TO_SPACE or SPACE_TO_DEPTH; a matrix product where the shape has no blocks."""
    n, h, w, c = g.shape(x)
    size = g.pick((2, 2, 3))
    spec = g.builder.spec(x)
    if c % size**2 == 0 and h * w * size**2 <= MOST_PIXELS:
        op, shape = "DEPTH_TO_SPACE", (n, h * size, w * size, c // size**2)
        table = options.of(DepthToSpaceOptions(size))
    elif h % size == 0 and w % size == 0 and c <= 48:
        op, shape = "SPACE_TO_DEPTH", (n, h // size, w // size, c * size**2)
        table = options.of(SpaceToDepthOptions(size))
    else:
        return _product(g, x)
    y = g.builder.tensor(f"blocks{len(g.words)}", shape, spec.dtype, spec.quantization)
    g.builder.operator(op, (x,), (y,), table)
    g.read.add(x)
    return [y]


def _transposed(g: Generator, x: int) -> list[int]:
    """Transpose, also with a reshape behind it, as heads have it."""
    axes = [(0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 3, 1)][g.pick(range(4))]
    g.read.add(x)
    y = moves.transpose(g.builder, x, axes, f"transposed{len(g.words)}")
    if g.is_resized or g.is_stretched or g.chance(0.6):
        return [y]
    n, h, w, c = g.shape(y)
    shape = (n, 1, h, w * c) if g.chance(0.5) else (n, h, 1, w * c)
    z = moves.reshape(g.builder, y, shape, f"reshaped{len(g.words)}")
    g.read.add(y)
    return [y, z] if g.chance(0.3) else [z]


def _reshaped(g: Generator, x: int) -> list[int]:
    """Pixels that become channels, or the other way round."""
    n, h, w, c = g.shape(x)
    if g.is_resized or g.is_stretched:
        return []
    parts = [k for k in range(2, 9) if c % k == 0]
    if parts and g.chance(0.6):
        k = parts[g.pick(len(parts))]
        shape = (n, h, w * k, c // k)
    else:
        shape = (n, h, 1, w * c) if g.chance(0.5) else (n, w, h, c)
    g.read.add(x)
    return [moves.reshape(g.builder, x, shape, f"reshaped{len(g.words)}")]


def _bordered(g: Generator, x: int) -> list[int]:
    """Add a border of any value, or mirrored."""
    shape = g.shape(x)
    mode = g.pick((REFLECT, SYMMETRIC)) if g.chance(0.5) else None
    most = 4 if mode is None else min(*shape[1:3], 4) - (mode == REFLECT)
    sides = g.rng.integers(0, most + 1, (2, 2)).tolist()
    value = None if mode is not None else g.pick(range(*LIMITS[g.dtype]))
    name = f"bordered{len(g.words)}"
    g.read.add(x)
    return [pad(g.builder, x, [[0, 0], *sides, [0, 0]], value=value, mode=mode, name=name)]


def _uneven(g: Generator, x: int) -> list[int]:
    channels = g.shape(x)[3]
    if channels < 2:
        return []
    first = g.pick(range(1, channels))
    g.read.add(x)
    name = f"uneven{len(g.words)}_"
    return list(moves.split_v(g.builder, x, (first, channels - first), 3, name))


def _repeated(g: Generator, x: int) -> list[int]:
    """The image several times side by side, mostly in one direction."""
    times = [1, *(g.pick((1, 1, 2, 3)) for _ in "hwc")]
    if prod(g.shape(x)) * prod(times) > MOST_REPEATED:
        return []
    g.read.add(x)
    return [moves.tile(g.builder, x, times, f"repeated{len(g.words)}")]


def _gathered(g: Generator, x: int) -> list[int]:
    """Any channels, or rows or columns of images that keep their size."""
    axis = 3 if g.is_resized or g.is_stretched else g.pick((1, 2, 3))
    size = g.shape(x)[axis]
    places = g.rng.integers(0, size, g.pick((1, 2, 5, 17)))
    if g.chance(0.5):
        places = np.arange(size)[:: g.pick((-1, 2, 3))]
    g.read.add(x)
    return [moves.gather(g.builder, x, places, axis, f"gathered{len(g.words)}")]


def _branches(g: Generator, x: int) -> list[int]:
    """Convolutions of one map that differ in their kernels and their results' scales."""
    window = g.window(x)
    if window is None:
        return []
    g.read.add(x)
    zero_point, made = LIMITS[g.dtype][0], []
    for number in range(g.pick((2, 2, 3))):
        output = Quantization((g.quantization().scale,), (zero_point,))
        numbers = replace(g.numbers(), activation=Activation.RELU, output=output)
        name = f"branch{len(g.words)}_{number}"
        y = conv(g.builder, g.rng, x, g.pick((32, 32, 64, 16)), window, numbers, name=name)
        made.append(y)
        if g.chance(0.8):
            g.read.add(y)
            made += _bordered(g, y) if number else _spread(g, y)
    return made


MAKERS: dict[str, Callable[[Generator, int], list[int]]] = {
    "function": _function,
    "quotient": _quotient,
    "slopes": _slopes,
    "pair": _pair,
    "squares": _squares,
    "shares": _shares,
    "extremum": _extremum,
    "pooled": _pooled,
    "reduced": _reduced,
    "resized": _resized,
    "spread": _spread,
    "blocks": _blocks,
    "transposed": _transposed,
    "reshaped": _reshaped,
    "bordered": _bordered,
    "uneven": _uneven,
    "repeated": _repeated,
    "gathered": _gathered,
}
STEPS: Sequence[str] = (*2 * ("function",), "shares", "quotient", "slopes", *4 * ("pair",),
                        "squares", "extremum", *2 * ("pooled",), "reduced", *2 * ("resized",),
                        *2 * ("spread",), "blocks", *2 * ("transposed",), "reshaped", "bordered",
                        "uneven", "repeated", "gathered")  # fmt: skip
