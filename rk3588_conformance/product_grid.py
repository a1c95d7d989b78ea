"""FULLY_CONNECTED and BATCH_MATMUL beyond Teflon's grid, and layers with channels whose weights
vanish.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Arithmetic
from rk3588_conformance.builder.products import (
    covering,
)
from rk3588_conformance.builder.reals import numbers
from rk3588_conformance.builder.table_writer import TensorSpec
from rk3588_conformance.grid import (
    HALF_TYPES,
    TYPES,
    Grid,
    Values,
    layer_grid,
    model_grid,
    shape_of,
)
from rk3588_conformance.random_layers import draw_zero_point

# Leading dimensions by rank and number of rows; "1": none, of rank 1.
_LEADING = {
    "1": (), "1x1": (1,), "6": (6,), "1x1x1": (1, 1), "2x3": (2, 3), "1x5x1": (1, 5, 1),
    "2x1x7": (2, 1, 7),
}  # fmt: skip
_BIAS = {"drawn": None, "absent": False, "zero": 0}


def _dense(label: str, **axes: Any) -> Grid:
    """``rows``: how many, or the input's leading dimensions."""

    def layer(net: Net, v: Values) -> int:
        numbers = replace(v.layer_numbers, activation=v.clamp, bias=_BIAS[v.bias])
        return net.fully_connected(net.x, v.outputs, numbers, keep_num_dims=bool(v.keep_num_dims))

    return layer_grid(
        f"{label}.Op/",
        input_shape=lambda v: (*_LEADING.get(v.rows, (v.rows,)), v.inputs),
        is_in=lambda v: v.rows != "1" or not v.keep_num_dims,
        **axes,
    )(layer)


_DENSE_SHAPES = _dense(
    "DenseShapes",
    rows=tuple(_LEADING),
    inputs=(1, 33, 257),
    outputs=(1, 17, 130),
    keep_num_dims=(0, 1),
    type=TYPES,
)


@layer_grid(
    "DenseFlattened.Op/",
    input_shape=lambda v: (1, v.h, v.w, v.c),
    h=(1, 3),
    w=(2, 7),
    c=(1, 5, 16, 40),
    outputs=(2, 33),
    type=TYPES,
)
def _flattened(net: Net, v: Values) -> int:
    """A feature map of rank 4 whose pixels and channels together are the inputs of one row."""
    return net.fully_connected(net.x, v.outputs, v.layer_numbers, inputs=v.h * v.w * v.c)


_FLAT_ORDERS = {"lies": None, "channels_first": (0, 3, 1, 2), "turned": (0, 2, 1, 3)}


@layer_grid(
    "DenseBehindImage.Op/",
    input_shape=lambda v: (v.images, v.h, v.w, v.c),
    images=(1, 2),
    h=(1, 5, 36),
    w=(3, 20),
    c=(5, 16, 40),
    order=tuple(_FLAT_ORDERS),
    readers=(1, 2),
    type=TYPES,
    is_in=lambda v: v.h * v.w * v.c < 10000,  # else kernels of the whole image fit no task
)
def _behind_image(net: Net, v: Values) -> tuple[int, ...]:
    """Computed images, flattened in the order of pixels or of channels, for one layer or two."""
    axes = _FLAT_ORDERS[v.order]
    image = net.computed(net.x)
    moved = image if axes is None else net.transpose(image, axes)
    flat = net.reshape(moved, (v.images, v.h * v.w * v.c))
    return tuple(net.fully_connected(flat, 9 + n, v.layer_numbers) for n in range(v.readers))


_DENSE = (
    _dense(
        "DenseNumbers",
        inputs=101,
        outputs=37,
        activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
        bias=tuple(_BIAS),
        rows=(1, 19),
        type=TYPES,
    ),
    # More weights per output than CBUF holds for a group of kernels.
    _dense(
        "DenseManyInputs",
        inputs=(11279, 25089, 30011, 62723),
        outputs=(1, 31, 67),
        rows=(1, 2),
        activation=("NONE", "RELU6"),
        type=TYPES,
    ),
)


_ENDS = np.iinfo(np.int32)
_BIASES = {"lowest": (_ENDS.min,), "highest": (_ENDS.max,), "both": (_ENDS.min, _ENDS.max)}
_SCALES = {"1e_minus_12": 1e-12, "1e_minus_16": 1e-16, "1e_minus_30": 1e-30}
"""The scales of dead channels, where the others' are about 1: with much more, int32's end is a
step.
"""


@dataclass(frozen=True, slots=True)
class _Dead:
    """A random part of the channels, not all, has ``scale`` times the scale of the others."""

    activation: Activation
    scale: float
    biases: tuple[int, ...]

    def drawn(
        self, rng: np.random.Generator, _x: TensorSpec, shape: Sequence[int], axis: int
    ) -> Arithmetic:
        channels = shape[axis]
        is_dead = rng.random(channels) < 0.3
        is_dead[rng.permutation(channels)[:2]] = (True, False)
        scales = np.exp(rng.uniform(-1, 1, channels)) * np.where(is_dead, self.scale, 1.0)
        live = rng.integers(-999, 1000, channels)
        bias = np.where(is_dead, rng.choice(self.biases, channels), live).astype(np.int32)
        return Arithmetic(
            activation=self.activation, per_channel=True, weight_scales=tuple(scales), bias=bias
        )


@layer_grid(
    "DeadChannels.Op/",
    input_shape=lambda v: (1, v.channels) if v.layer == "fully_connected" else v.input_shape,
    type="per_channel",
    size="7x5",
    layer=("conv", "depthwise", "fully_connected"),
    scale=tuple(_SCALES),
    bias=tuple(_BIASES),
    activation=("none", "relu6"),
    channels=(3, 24, 67),
)
def _dead_channels(net: Net, v: Values) -> int:
    """Channels whose weights vanish: their scales are tiny, their biases saturate at the ends of
    int32, as quantisers leave them, and TensorFlow Lite's sums wrap.
    """
    numbers = _Dead(v.clamp, _SCALES[v.scale], _BIASES[v.bias])
    if v.layer == "fully_connected":
        return net.fully_connected(net.x, 33, numbers)
    if v.layer == "depthwise":
        return net.depthwise(net.x, v.kernel_window, numbers)
    return net.conv(net.x, 19, v.kernel_window, numbers)


@layer_grid(
    "MatrixProduct.Op/",
    input_shape=lambda v: (*shape_of(v.rows), v.inputs),
    type="int8",
    rows=("1", "19", "5x1", "3x7", "2x3x5"),
    inputs=(1, 33, 257),
    outputs=(1, 17, 130),
    order=("inputs_first", "outputs_first"),
    zero=("none", "drawn"),
    percent=(25, 100, 400),
)
def _matrix_products(net: Net, v: Values) -> int:
    """A constant second operand: ranks, sizes, both orders, zero points and multipliers."""
    ones = (1,) * int(net.rng.integers(0, len(shape_of(v.rows))))
    matrix = net.rng.integers(-127, 128, (*ones, v.inputs, v.outputs)).astype(np.int8)
    point = 0 if v.zero == "none" else draw_zero_point(net.rng, DType.INT8)
    return net.matrix_product(net.x, matrix, net.drawn(DType.INT8),
        zero_point=point, multiplier=v.percent / 100, adj_y=v.order == "outputs_first",
    )  # fmt: skip


SIZES = {
    "one": (1, 1, 1), "small": (3, 16, 2), "odd": (5, 33, 17), "groups": (7, 64, 64),
    "ends": (9, 49, 31), "more": (2, 97, 34), "strided": (6, 170, 40), "wide": (33, 15, 129),
}  # fmt: skip
"""Rows, inputs, outputs."""
LEADS = {
    "none": ((), ()), "rows": ((3,), (3,)), "heads": ((2, 3), (2, 3)), "one": ((2,), (1,)),
    "shared": ((2, 3), ()), "first": ((1,), (2,)), "single": ((1,), ()),
}  # fmt: skip
_POINTS = {"none": (0, 0), "low": (-128, 5), "high": (127, -128), "second": (0, 127)}


def computed_shapes(v: Values) -> list[tuple[int, ...]]:
    """Return the shapes of both operands; ``adj`` names those that are turned, x and y."""
    rows, inputs, outputs = SIZES[v.size]
    first = (inputs, rows) if "x" in v.adj else (rows, inputs)
    second = (outputs, inputs) if "y" in v.adj else (inputs, outputs)
    return [(*LEADS[v.lead][0], *first), (*LEADS[v.lead][1], *second)]


def meets(v: Values) -> bool:
    """Return whether runtimes agree: not where a first operand is turned and several matrices meet
    one.
    """
    first, second = LEADS[v.lead]
    return "x" not in v.adj or first == second or math.prod(first) == math.prod(second) == 1


def _points(net: Net, v: Values) -> list[Quantization | None]:
    """Draw the quantisation of both operands, which have zero points at the ends."""
    if v.is_half:
        return [None, None]
    return [Quantization(net.drawn(v.dtype).scales, (point,)) for point in _POINTS[v.zero]]


@model_grid(
    "ComputedProduct.Op/",
    description="computed product",
    type=("int8", *HALF_TYPES),
    size=tuple(SIZES),
    lead=tuple(LEADS),
    adj=("none", "x", "y", "xy"),
    zero=tuple(_POINTS),
    is_in=lambda v: meets(v) and (v.zero == "none" or not v.is_half),
)
def _computed_products(net: Net, v: Values) -> int:
    """Two computed matrices: sizes, leading dimensions that are equal or broadcast, orders of both,
    zero points at both ends.
    """
    x, y = (
        net.input(name, shape, v.dtype, q)
        for name, shape, q in zip("xy", computed_shapes(v), _points(net, v), strict=True)
    )
    return _product(net, v, x, y)


def _product(net: Net, v: Values, x: int, y: int) -> int:
    given = () if v.is_half else (net.scaling(x), net.scaling(y))
    output = covering(SIZES[v.size][1], *given) if given else None
    return net.computed_product(x, y, output, adj_x="x" in v.adj, adj_y="y" in v.adj)


@model_grid(
    "ComputedWeights.Op/",
    description="dense layer of computed weights",
    type=("int8", *HALF_TYPES),
    size=tuple(SIZES),
    rows=("1x1", "6", "2x3", "2x1x7"),
    keep_num_dims=(0, 1),
    bias=("absent", "drawn"),
    zero=tuple(_POINTS),
    is_in=lambda v: v.zero == "none" or not v.is_half,
)
def _computed_weights(net: Net, v: Values) -> int:
    """FULLY_CONNECTED of two inputs: sizes, images, zero points at both ends, clamps and biases."""
    _, inputs, outputs = SIZES[v.size]
    first, second = _points(net, v)
    x = net.input("x", (*_LEADING[v.rows], inputs), v.dtype, first)
    weights = net.input("weights", (outputs, inputs), v.dtype, second)
    clamp = Activation.RELU6 if net.rng.integers(2) else Activation.NONE
    options = FullyConnectedOptions(clamp, keep_num_dims=bool(v.keep_num_dims))
    bias: npt.NDArray[np.generic] | None = None
    if v.bias == "drawn" and v.is_half:
        bias = numbers(net.rng, (outputs,))
    elif v.bias == "drawn":
        bias = net.rng.integers(-30000, 30000, outputs).astype(np.int32)
    output = covering(inputs, first, second) if first and second else None
    return net.computed_dense(x, weights, output, options, bias)


_ORDERS = {"swapped": ((0, 1, 3, 2), (0, 1, 3, 2)), "heads": ((0, 2, 3, 1), (0, 3, 1, 2))}
"""Axes before a product, which brings heads in front of rows and columns, and behind it."""


@model_grid(
    "TurnedProduct.Op/",
    description="turned product",
    type="int8",
    lead="heads",
    size=("odd", "groups", "ends"),
    turned=("x", "y", "xy", "result", "xresult", "yresult", "xyresult"),
    order=tuple(_ORDERS),
    adj=("none", "x", "y", "xy"),
)
def _turned_products(net: Net, v: Values) -> int:
    """Products of heads, as of attention, beside transposes that exchange rows and columns."""
    axes, behind = _ORDERS[v.order]
    numbers = [Quantization(net.drawn(DType.INT8).scales, (point,)) for point in _POINTS["low"]]
    operands = []
    for name, wanted, given in zip("xy", computed_shapes(v), numbers, strict=True):
        is_turned = name in v.turned.removesuffix("result")
        shape = tuple(wanted[axes.index(axis)] for axis in range(4)) if is_turned else wanted
        made = net.computed(net.input(name, shape, DType.INT8, given))
        operands.append(net.transpose(made, axes) if is_turned else made)
    made = _product(net, v, *operands)
    return net.computed(net.transpose(made, behind) if "result" in v.turned else made)
