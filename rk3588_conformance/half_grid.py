"""Convolutions, matrix products and transposed convolutions in fp16, within their bounds for every
element; weights as float32, as float16 behind DEQUANTIZE, and as int8 of dynamic range. And what
all families of one operator in fp16 share, with their values: ordinary and extreme magnitudes, the
ends of the format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.operator_options import Options
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder.layers import (
    Weighted,
    Window,
    conv_layer,
    dense_layer,
    depthwise_layer,
)
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import PADDINGS, Grid, Values, grid, shape_of
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.net import Net
from rk3588_conformance.product_grid import LEADS, SIZES, computed_shapes, meets

ACTIVATIONS = ("NONE", "RELU", "RELU6")
WEIGHTS = ("float32", "float16")
SPREADS = ("plain", "wide", "ends")
_POWERS = {"plain": 0, "wide": 12}
"""Powers of two between the magnitudes of values."""

Floats = npt.NDArray[np.float32]


def numbers(rng: np.random.Generator, shape: Sequence[int], spread: str) -> Floats:
    scale = np.exp2(rng.integers(-_POWERS[spread], 1 + _POWERS[spread] // 3, shape))
    return np.asarray(rng.normal(size=shape) * scale, np.float32)


def ends(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    """The ends of fp16: beyond them, at ties, subnormal numbers, zeros."""
    odd = [65504, -65504, 65519, 65520, 1e9, -1e9, 2.0**-14, 2.0**-24, -(2.0**-25), 2.0**-25 * 1.01,
           0.0, -0.0, 1e-30, 2049, 2051, 1.0, -1.0, 6.0, 5.998]  # fmt: skip
    return np.asarray(rng.choice(np.array(odd, np.float32), tuple(shape)))


def constant(builder: ModelBuilder, name: str, values: Floats, kind: str) -> int:
    """``values``, or what float16 has of them behind a DEQUANTIZE."""
    if kind == "float32":
        return builder.constant(name, values)
    half = builder.constant(f"{name} half", values.astype(np.float16))
    return builder.result("DEQUANTIZE", (half,), name, dtype=DType.FLOAT32)


def inputs_of(
    name: str, shapes: Sequence[Sequence[int]], spread: str
) -> Callable[[], Sequence[Floats]]:
    rng = generator_of(name + " inputs")
    draw = ends if spread == "ends" else partial(numbers, spread=spread)
    return lambda: [draw(rng, shape) for shape in shapes]


Constants = Callable[[Net], Iterable[int]]


@dataclass(frozen=True, slots=True)
class HalfLayer:
    """``op`` of inputs of ``shapes``, and behind them of ``constants``, unless ``arrange`` gives
    them another order. ``spread``: of the inputs' values; None: the case's.
    """

    op: str
    shapes: Sequence[Sequence[int]]
    result: Sequence[int]
    options: Options | None = None
    constants: Constants = lambda _: ()
    spread: str | None = None
    arrange: Callable[..., Sequence[int]] = lambda *operands: operands
    version: int = 1

    @classmethod
    def of(cls, layer: Weighted, constants: Constants, spread: str | None = None) -> HalfLayer:
        """``layer`` with its weights and biases."""
        return cls(layer.op, [layer.given], layer.result, layer.options, constants, spread)


Described = Callable[[Values, np.random.Generator], HalfLayer]


def half_grid(prefix: str, **axes: Any) -> Callable[[Described], Grid]:
    """Makes a ``Grid`` of the function below it, which says of a case's values what its layer is,
    with a generator of the case.
    """

    def family(described: Described) -> Grid:
        def make(name: str, v: Values) -> Case:
            layer = described(v, generator_of(name))

            def build(rng: np.random.Generator) -> bytes:
                net = Net("half", rng)
                inputs = (net.input(f"x{n}", s, DType.FLOAT32) for n, s in enumerate(layer.shapes))
                operands = layer.arrange(*inputs, *layer.constants(net))
                how: dict[str, Any] = {"options": layer.options, "version": layer.version}
                y = net.result(layer.op, operands, "y", layer.result, dtype=DType.FLOAT32, **how)
                return net.build(y)

            given = inputs_of(name, layer.shapes, layer.spread or v.spread)
            return Case(name, "Half", build, inputs=given, outside=outside_bound)

        return grid(prefix, **axes)(make)

    return family


def weights_and_bias(
    layer: Weighted, kind: str, spread: str = "plain", *, has_bias: bool = True
) -> Constants:
    """Draw weights and bias of one of ``WEIGHTS``."""

    def constants(net: Net) -> Iterable[int]:
        yield _drawn_constant(net, "w", layer.kernels, kind, spread)
        if has_bias:
            yield _drawn_constant(net, "b", (layer.outputs,), kind, spread)

    return constants


def _drawn_constant(net: Net, name: str, shape: Sequence[int], kind: str, spread: str) -> int:
    """A constant of ``spread``, but not of the ends of fp16."""
    drawn = "plain" if spread == "ends" else spread
    return constant(net, name, numbers(net.rng, shape, drawn), kind)


_GEOMETRIES = {
    "1x1": (1, 1, 1, 1, 1, 1), "3x3": (3, 3, 1, 1, 1, 1), "5x2": (5, 2, 1, 1, 1, 1),
    "3x3s2": (3, 3, 2, 2, 1, 1), "2x3d2": (2, 3, 1, 1, 2, 2),
}  # fmt: skip


def _from_to(channels: str) -> tuple[int, int]:
    """Return the numbers of input and output channels in "3to5"."""
    inputs, outputs = channels.split("to")
    return int(inputs), int(outputs)


def _activation(rng: np.random.Generator) -> Activation:
    return Activation[str(rng.choice(ACTIVATIONS))]


@half_grid(
    "Half.Conv/",
    window=tuple(_GEOMETRIES),
    channels=("3to5", "8to16", "17to33", "24to40", "40to8", "65to24", "96to130"),
    padding=tuple(PADDINGS),
    weights=WEIGHTS,
    spread=SPREADS,
)
def _convolutions(v: Values, rng: np.random.Generator) -> HalfLayer:
    covered = Window(*_GEOMETRIES[v.window], PADDINGS[v.padding])
    ic, oc = _from_to(v.channels)
    shape = (int(rng.integers(1, 3)), int(rng.integers(7, 20)), int(rng.integers(6, 23)), ic)
    layer = conv_layer(shape, oc, covered, _activation(rng))
    has_bias = bool(rng.integers(4))
    return HalfLayer.of(layer, weights_and_bias(layer, v.weights, v.spread, has_bias=has_bias))


@half_grid(
    "Half.Depthwise/",
    kernel=(3, 5),
    stride=(1, 2),
    channels=(3, 8, 15, 16, 24, 28, 33, 48, 64, 72, 130),
    multiplier=(1, 2),
    weights=WEIGHTS,
)
def _depthwise(v: Values, rng: np.random.Generator) -> HalfLayer:
    window = Window(v.kernel, v.kernel, v.stride, v.stride)
    shape = (1, int(rng.integers(7, 20)), int(rng.integers(6, 23)), v.channels)
    layer = depthwise_layer(shape, window, _activation(rng), v.multiplier)
    spread = str(rng.choice(SPREADS))
    return HalfLayer.of(layer, weights_and_bias(layer, v.weights, spread), spread)


@half_grid(
    "Half.Product/",
    rows=(1, 3),
    inputs=(1, 24, 100, 640, 1280),
    outputs=(1, 10, 63, 1001),
    weights=WEIGHTS,
)
def _products(v: Values, _: np.random.Generator) -> HalfLayer:
    layer = dense_layer((v.rows, v.inputs), v.outputs)
    return HalfLayer.of(layer, weights_and_bias(layer, v.weights))


@half_grid(
    "Half.MatrixProduct/",
    rows=("1", "7", "2x5", "3x1x4"),
    inputs=(1, 24, 100, 640),
    outputs=(1, 10, 63),
    order=("inputs_first", "outputs_first"),
    weights=WEIGHTS,
    spread=SPREADS,
)
def _matrix_products(v: Values, _: np.random.Generator) -> HalfLayer:
    lead, is_turned = shape_of(v.rows), v.order == "outputs_first"
    matrix = (v.outputs, v.inputs) if is_turned else (v.inputs, v.outputs)
    return HalfLayer(
        "BATCH_MATMUL", [(*lead, v.inputs)], (*lead, v.outputs),
        BatchMatMulOptions(False, is_turned),
        lambda net: (_drawn_constant(net, "w", matrix, v.weights, v.spread),),
    )  # fmt: skip


@half_grid(
    "Half.ComputedProduct/",
    size=tuple(SIZES),
    lead=tuple(LEADS),
    adj=("none", "x", "y", "xy"),
    spread=SPREADS,
    is_in=meets,
)
def _computed_products(v: Values, _rng: np.random.Generator) -> HalfLayer:
    rows, _, outputs = SIZES[v.size]
    result = (*np.broadcast_shapes(*LEADS[v.lead]), rows, outputs)
    table = BatchMatMulOptions("x" in v.adj, "y" in v.adj)
    return HalfLayer("BATCH_MATMUL", computed_shapes(v), result, table, version=2)


@half_grid(
    "Half.ComputedWeights/",
    size=tuple(SIZES),
    rows=("1x1", "6", "2x3", "2x1x7"),
    keep_num_dims=(0, 1),
    bias=("absent", "drawn"),
    spread=SPREADS,
)
def _computed_weights(v: Values, rng: np.random.Generator) -> HalfLayer:
    _, inputs, outputs = SIZES[v.size]
    lead, keeps = shape_of(v.rows), bool(v.keep_num_dims)
    result = (*lead, outputs) if keeps else (math.prod(lead), outputs)

    def constants(net: Net) -> Iterable[int]:
        if v.bias == "drawn":
            yield net.constant("b", numbers(net.rng, (outputs,), "plain"))

    options = FullyConnectedOptions(_activation(rng), keep_num_dims=keeps)
    shapes = [(*lead, inputs), (outputs, inputs)]
    return HalfLayer("FULLY_CONNECTED", shapes, result, options, constants)


_TRANSPOSED = {"2x2s2": (2, 2, 2), "3x3s2": (3, 3, 2), "4x4s2": (4, 4, 2), "3x2s1": (3, 2, 1)}


@half_grid(
    "Half.Transposed/",
    window=tuple(_TRANSPOSED),
    channels=("3to5", "16to1", "17to33", "40to8"),
    padding=tuple(PADDINGS),
    spread=SPREADS,
)
def _transposed(v: Values, rng: np.random.Generator) -> HalfLayer:
    (kh, kw, stride), scheme = _TRANSPOSED[v.window], PADDINGS[v.padding]
    inputs, outputs = _from_to(v.channels)
    shape = (int(rng.integers(1, 3)), int(rng.integers(3, 9)), int(rng.integers(3, 11)), inputs)
    activation, has_bias = _activation(rng), bool(rng.integers(2))
    rows, columns = (
        n * stride + (max(k - stride, 0) if scheme is Padding.VALID else 0)
        for n, k in zip(shape[1:3], (kh, kw), strict=True)
    )
    result = (shape[0], rows, columns, outputs)

    def constants(net: Net) -> Iterable[int]:
        yield net.constant("size", np.array(result, np.int32))
        weights = numbers(net.rng, (outputs, kh, kw, inputs), "plain")
        yield constant(net, "w", weights, "float16")
        if has_bias:
            yield net.constant("b", numbers(net.rng, (outputs,), "plain"))

    return HalfLayer(
        "TRANSPOSE_CONV", [shape], result,
        TransposeConvOptions(scheme, stride, stride, activation), constants,
        arrange=lambda x, size, weights, *bias: (size, weights, x, *bias),
        version=3 if has_bias else 1,
    )  # fmt: skip


_WINDOW = Window(3, 2)


def _dynamic_range(
    what: str, layer_of: Callable[[tuple[int, int, int, int], int], Weighted]
) -> Grid:
    """``layer_of``: the layer on features of a shape, by its number of output channels. Its weights
    are int8 with one scale, or one per channel.
    """

    @half_grid(
        f"Half.DynamicRange{what}/",
        scales=("one", "per_channel"),
        channels=("1to10", "16to32", "24to33", "65to17", "100to130"),
    )
    def family(v: Values, rng: np.random.Generator) -> HalfLayer:
        inputs, outputs = _from_to(v.channels)
        shape = (1, int(rng.integers(3, 12)), int(rng.integers(3, 12)), inputs)
        layer = layer_of(shape, outputs)

        def constants(net: Net) -> Iterable[int]:
            count = layer.outputs if v.scales == "per_channel" else 1
            scaling = net.rng.uniform(1e-3, 0.1, count).astype(np.float32)
            values = net.rng.integers(-127, 128, layer.kernels).astype(np.int8)
            quantization = Quantization(tuple(scaling.tolist()), (0,) * count, layer.axis)
            yield net.constant("w", values, quantization)
            yield net.constant("b", numbers(net.rng, (layer.outputs,), "plain"))

        return HalfLayer.of(layer, constants)

    return family


_DYNAMIC_RANGE = (
    _dynamic_range("Conv", lambda shape, outputs: conv_layer(shape, outputs, _WINDOW)),
    _dynamic_range("Depthwise", lambda shape, _: depthwise_layer(shape, _WINDOW)),
    _dynamic_range("Product", lambda shape, outputs: dense_layer((shape[1], shape[3]), outputs)),
)
