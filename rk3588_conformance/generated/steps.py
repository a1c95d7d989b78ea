"""Steps of random graphs that compute: with weights, of two values, of one, over windows.

Tensors are images of 8 bits, but where a step says otherwise.
"""

from dataclasses import replace
from math import prod

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.sub import SubOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder import options
from rk3588_conformance.builder.ranges import LIMITS, float32
from rk3588_conformance.generated.generator import ACTIVATIONS, CHANNELS, CLAMPED, Generator, Step
from rk3588_conformance.generated.move_steps import MOST_PIXELS, bordered
from rk3588_conformance.grid import Outputs

UNARY = ("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH", "LEAKY_RELU", "ABS")


def _conv(g: Generator, x: int) -> Outputs:
    window = g.drawn_window(x)
    return () if window is None else g.conv(x, g.pick(CHANNELS), window, g.numbers())


def _depthwise(g: Generator, x: int) -> Outputs:
    window = g.drawn_window(x)
    if window is None:
        return ()
    multiplier = g.pick((1, 1, 1, 1, 2)) if g.shape(x)[3] < 40 else 1
    return g.depthwise(x, window, g.numbers(), multiplier=multiplier)


def _dense(g: Generator, x: int) -> Outputs:
    """Add FULLY_CONNECTED with the rank kept, or on [N, C] or an image that is flattened."""
    keep = g.chance(0.5)
    if not keep and g.is_resized:
        return ()
    if not keep and g.shape(x)[1:3] != (1, 1):
        axes = g.choose([None, None, (0, 3, 1, 2), (0, 2, 1, 3)])
        moved = x if axes is None else g.transpose(x, axes)
        x = g.reshape(moved, (g.shape(x)[0], prod(g.shape(x)[1:])))
    # Runtimes before 2.17 take scales per channel for none at all.
    numbers = replace(g.numbers(), per_channel=False, bias=False if g.chance(0.2) else None)
    y = g.fully_connected(x, g.pick(CHANNELS), numbers, keep_num_dims=keep)
    if not keep:
        g.output(y)
        return ()
    return y


def _pad(g: Generator, x: int) -> Outputs:
    """PAD, then mostly a convolution without padding."""
    sides = g.rng.integers(0, 3, (2, 2)).tolist()
    amounts = np.array([[0, 0], *sides, [0, 0]], np.int32 if g.chance(0.8) else np.int64)
    shape = (np.array(g.shape(x)) + amounts.sum(1)).tolist()
    y = g.result("PAD", (x, g.constant("amounts", amounts)), "pad", shape, version=2)
    made = [y]
    for _ in range(g.pick((0, 1, 1, 1, 2))):
        window = g.drawn_window(y, padding=Padding.VALID)
        if window is None:
            continue
        if g.chance(0.5):
            made.append(g.conv(y, g.pick(CHANNELS), window, g.numbers()))
        else:
            made.append(g.depthwise(y, window, g.numbers()))
    return made if y not in g.read or g.chance(0.2) else made[1:]


def _branches(g: Generator, x: int) -> Outputs:
    """Convolutions of one map that differ in their kernels and their results' scales."""
    window = g.drawn_window(x)
    if window is None:
        return ()
    made: list[int] = []
    for number in range(g.pick((2, 2, 3))):
        output = Quantization((g.quantization().scale,), (LIMITS[g.dtype][0],))
        numbers = replace(g.numbers(), activation=Activation.RELU, output=output)
        y = g.conv(x, g.pick((32, 32, 64, 16)), window, numbers)
        made.append(y)
        if g.chance(0.8):
            more = bordered(g, y) if number else _spread(g, y)
            made += [more] if isinstance(more, int) else more
    return made


def _spread(g: Generator, x: int) -> Outputs:
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
    if g.has_other_shapes or rows * columns > MOST_PIXELS:
        return ()
    q = g.quantization()
    low, high = LIMITS[g.dtype]
    values = g.rng.integers(low + 1, high + 1, (outputs, *kernel, c)).astype(g.dtype.element.dtype)
    middle = 0 if low else g.pick((0, 119, 128, 255))
    # About so many products meet in an output, each of some 75 by 75 steps.
    met = max(c * prod(kernel) / prod(strides), 1.0)
    given = g.scaling(x).scale
    base = 40 * q.scale / (given * 75 * 75 * met**0.5)
    spread = g.rng.uniform(-1.5, 1.5, outputs if g.per_channel else 1)
    scales = tuple(float32(base * 2**s) for s in spread)
    bias = g.rng.integers(-20000, 20000, outputs).astype(np.int32)
    zeros = (0,) * len(scales)
    products = tuple(float(np.float32(given) * np.float32(s)) for s in scales)
    shape = (n, rows, columns, outputs)
    inputs = [
        g.constant("shape", np.array(shape, np.int32)),
        g.constant("weights", values, Quantization(scales, (middle,) * len(zeros))),
        x,
    ]
    if g.chance(0.7):
        inputs.append(g.constant("bias", bias, Quantization(products, zeros)))
    # Only runtimes from 2.15 on have version 4, which may clamp.
    padding = Padding.SAME if is_same else Padding.VALID
    table = TransposeConvOptions(padding, strides[0], strides[1], Activation.NONE)
    return g.result(
        "TRANSPOSE_CONV", inputs, "spread", shape, q, dtype=g.dtype, options=table, version=3
    )


def _product(g: Generator, x: int) -> Outputs:
    """Add a product with a constant of int8; the runtime has none of uint8."""
    if g.dtype is not DType.INT8:
        return ()
    outputs = g.pick((1, 3, 8, 17, 40))
    matrix = g.rng.integers(-127, 128, (g.shape(x)[3], outputs)).astype(np.int8)
    point, adj_y = g.pick((0, 0, -7, 101)), g.chance(0.5)
    return g.matrix_product(x, matrix, g.quantization(), zero_point=point, adj_y=adj_y)


def _blocks(g: Generator, x: int) -> Outputs:
    """Add DEPTH_TO_SPACE or SPACE_TO_DEPTH; a matrix product where the shape has no blocks."""
    n, h, w, c = g.shape(x)
    size = g.pick((2, 2, 3))
    if c % size**2 == 0 and h * w * size**2 <= MOST_PIXELS:
        shape = (n, h * size, w * size, c // size**2)
        return g.result("DEPTH_TO_SPACE", (x,), "blocks", shape, options=DepthToSpaceOptions(size))
    if h % size == 0 and w % size == 0 and c <= 48:
        shape = (n, h // size, w // size, c * size**2)
        return g.result("SPACE_TO_DEPTH", (x,), "blocks", shape, options=SpaceToDepthOptions(size))
    return _product(g, x)


def _add(g: Generator, x: int) -> Outputs:
    shape = g.shape(x)
    kind = g.pick(range(5))
    if kind == 0:
        other = x
    elif kind == 1:  # a constant of any shape that is broadcast
        kept = tuple(d if g.chance(0.6) else 1 for d in shape)
        if g.is_resized:
            kept = (1, *kept[1:])
        rank = 0
        while rank < 3 and kept[rank] == 1 and g.chance(0.3):
            rank += 1
        other = g.new_constant(kept[rank:])
    elif kind == 2 and g.chance(0.4):  # one value per channel, computed
        other = g.new_input((shape[0] if g.chance(0.5) or g.is_resized else 1, 1, 1, shape[3]))
        g.tensors.insert(0, other)
    else:
        other = g.choose(g.like(x))
    return sum_of(g, g.either_way(x, other), g.shared)


def sum_of(g: Generator, pair: tuple[int, int], result: Quantization | None) -> int:
    """``result`` None: what most sums are within."""
    scale, zero_point = (None, None) if result is None else (result.scale, result.zero_point)
    return g.add(*pair, activation=g.choose(ACTIVATIONS), output_scale=scale,
        output_zero_point=zero_point,
    )  # fmt: skip


def _other(g: Generator, x: int) -> int:
    """A second operand: the same, one of the same shape, one value, one per channel, or one per
    pixel.
    """
    kind = g.pick(range(7))
    images, height, width, channels = g.shape(x)
    if kind == 6 and not g.has_other_shapes:
        image = (height, width) if g.chance(0.7) else (1, 1)
        other = g.new_input((images if g.chance(0.5) else 1, *image, 1))
        g.tensors.insert(0, other)
        return other
    if kind == 0:
        return x
    if kind in (1, 2):
        return g.new_constant((1 if kind == 1 else channels,))
    return g.choose(g.like(x))


def _pair(g: Generator, x: int) -> Outputs:
    """MUL or SUB of two values."""
    other = _other(g, x)
    pair = (x, other) if g.chance(0.5) or g.shape(other) != g.shape(x) else (other, x)
    activation = g.choose(CLAMPED)
    if g.chance(0.6):
        return g.function("MUL", pair, g.quantization(), MulOptions(activation))
    return g.function("SUB", pair, g.quantization(), SubOptions(activation))


def _squares(g: Generator, x: int) -> Outputs:
    """Add a SQUARED_DIFFERENCE, of int8 only; scales of results for which the runtime has a
    multiplier.
    """
    other = _other(g, x)
    if g.dtype is not DType.INT8:
        return ()
    largest, q = max(g.scaling(x).scale, g.scaling(other).scale), g.quantization()
    if 4 * largest**2 >= q.scale * (1 << 14):
        return ()
    return g.function("SQUARED_DIFFERENCE", (x, other), q)


def _extremum(g: Generator, x: int) -> Outputs:
    """Add a maximum or minimum of tensors with one quantisation: the kernels compare raw values."""
    fitting = [t for t in g.like(x) if g.spec(t).quantization == g.spec(x).quantization]
    other = g.choose(fitting)
    return g.function(g.choose(("MAXIMUM", "MINIMUM")), (x, other), g.scaling(x))


def computed(g: Generator, x: int) -> int:
    """Add a function of one value, of any rank; a uint8 ABS is none of the runtime's."""
    op = UNARY[g.pick(len(UNARY) - (g.dtype is DType.UINT8))]
    low = LIMITS[g.dtype][0]
    fixed = {
        "LOGISTIC": Quantization((1 / 256,), (low,)),
        "TANH": Quantization((1 / 128,), (low + 128,)),
    }
    table = None
    if op == "LEAKY_RELU":
        table = LeakyReluOptions(float32(g.pick((0.01, 0.1, 0.3, 1.7))))
    return g.function(op, (x,), fixed.get(op) or g.quantization(), table)


def shares(g: Generator, x: int) -> Outputs:
    """Add a SOFTMAX, of any rank up to 4, whose classes are the channels."""
    if len(g.shape(x)) > 4:
        return ()
    result = Quantization((1 / 256,), (LIMITS[g.dtype][0],))
    beta = g.choose((1.0, 1.0, 0.25, 4.0))
    return g.function("SOFTMAX", (x,), result, options.softmax(beta))


def _quotient(g: Generator, x: int) -> Outputs:
    """Divide by a constant; the runtime does so with uint8 alone. Of int8: branches."""
    if g.dtype is not DType.UINT8:
        return _branches(g, x)
    return g.quotient(x, is_above=g.chance(0.5), activation=g.choose(CLAMPED))


def _slopes(g: Generator, x: int) -> Outputs:
    """PRELU with a slope per channel, or any that are broadcast."""
    shape = tuple(size if g.chance(0.3) else 1 for size in g.shape(x)[1:3])
    if g.has_other_shapes:
        shape = (1, 1)
    slopes = g.new_constant((*shape, g.shape(x)[3]))
    return g.function("PRELU", (x, slopes), g.quantization())


def _pool(g: Generator, x: int) -> Outputs:
    """A pool; or a node of the CPU, BATCH_TO_SPACE_ND of single pixels, whose kernels all agree."""
    rows, columns = (min(side, g.pick((1, 2))) for side in g.shape(x)[1:3])
    if g.chance(0.5):
        table = PoolOptions(padding=Padding.SAME, filter_h=rows, filter_w=columns)
        return g.result("MAX_POOL_2D", (x,), "pool", options=table, version=2)
    sizes = {"block": [1, 1], "crops": [[0, 0], [0, 0]]}
    return g.result("BATCH_TO_SPACE_ND", (x,), "kept", numbers=sizes, version=2)


def _pooled(g: Generator, x: int) -> Outputs:
    _, h, w, _ = g.shape(x)
    kh, kw = (g.pick((1, 2, 2, 3, 3, 5, 7)) for _ in "hw")
    padding = Padding.SAME
    if kh <= h and kw <= w and g.chance(0.5):
        padding = Padding.VALID
    op = g.choose(("MAX_POOL_2D", "AVERAGE_POOL_2D"))
    sh, sw = (g.pick((1, 1, 2, 3)) for _ in "hw")
    return g.pool(op, x, kh, kw, sh, sw, padding, g.choose(CLAMPED))


def _reduced(g: Generator, x: int) -> Outputs:
    if not g.chance(0.5):
        axes = (3,) if g.chance(0.3) else (1, 2)
        return g.reduced("REDUCE_MAX", x, keep_dims=True, axes=axes)
    op = "SUM" if g.dtype is DType.UINT8 and g.chance(0.3) else "MEAN"
    return g.reduced(op, x, g.quantization(), keep_dims=True)


def _input(g: Generator, x: int) -> Outputs:
    return g.new_input(g.shape(x))


MAKERS: dict[str, Step] = {"function": computed} | {
    make.__name__.strip("_"): make
    for make in (
        _conv, _depthwise, _dense, _add, _pad, _pool, _input, shares, _quotient, _slopes, _pair,
        _squares, _extremum, _pooled, _reduced, _spread, _blocks,
    )
}  # fmt: skip
"""Steps by their names."""
