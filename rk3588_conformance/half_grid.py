"""Convolutions, matrix products and transposed convolutions in fp16, within their bounds for every
element; weights as float32 and as float16 behind DEQUANTIZE.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from delegate.model.graph import Activation, Padding, Quantization
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case, Family, generator_of
from rk3588_conformance.grid import grid
from rk3588_conformance.half_case import Constants, operator_case, weights_and_bias
from rk3588_conformance.half_values import ACTIVATIONS, SPREADS, WEIGHTS, constant, numbers
from rk3588_conformance.own_grid import PADDINGS, shape_of
from rk3588_conformance.product_grid import LEADS, SIZES, computed_shapes, meets

_SPREADS = (*SPREADS, "ends")
_GEOMETRIES = {
    "1x1": (1, 1, 1, 1, 1, 1), "3x3": (3, 3, 1, 1, 1, 1), "5x2": (5, 2, 1, 1, 1, 1),
    "3x3s2": (3, 3, 2, 2, 1, 1), "2x3d2": (2, 3, 1, 1, 2, 2),
}  # fmt: skip


@grid(
    "Half.Conv/",
    window=tuple(_GEOMETRIES),
    channels=("3to5", "8to16", "17to33", "24to40", "40to8", "65to24", "96to130"),
    padding=tuple(PADDINGS),
    weights=WEIGHTS,
    spread=_SPREADS,
)
def _convolutions(
    name: str, *, window: str, channels: str, padding: str, weights: str, spread: str
) -> Case:
    covered = Window(*_GEOMETRIES[window], PADDINGS[padding])
    ic, oc = (int(part) for part in channels.split("to"))
    rng = generator_of(name)
    shape = (int(rng.integers(1, 3)), int(rng.integers(7, 20)), int(rng.integers(6, 23)), ic)
    activation = Activation[str(rng.choice(ACTIVATIONS))]
    kernels = (oc, covered.kh, covered.kw, ic)
    return operator_case(
        name, "CONV_2D", [shape],
        (shape[0], *covered.output_size(*shape[1:3]), oc),
        ConvOptions(*covered.option_values, activation), spread,
        constants=weights_and_bias(kernels, oc, weights, spread, has_bias=bool(rng.integers(4))),
    )  # fmt: skip


@grid(
    "Half.Depthwise/",
    kernel=(3, 5),
    stride=(1, 2),
    channels=(3, 8, 15, 16, 24, 28, 33, 48, 64, 72, 130),
    multiplier=(1, 2),
    weights=WEIGHTS,
)
def _depthwise(
    name: str, *, kernel: int, stride: int, channels: int, multiplier: int, weights: str
) -> Case:
    window = Window(kernel, kernel, stride, stride)
    rng = generator_of(name)
    shape = (1, int(rng.integers(7, 20)), int(rng.integers(6, 23)), channels)
    activation = Activation[str(rng.choice(ACTIVATIONS))]
    outputs = channels * multiplier
    spread = str(rng.choice(_SPREADS))
    return operator_case(
        name, "DEPTHWISE_CONV_2D", [shape],
        (1, *window.output_size(*shape[1:3]), outputs),
        DepthwiseOptions(*window.option_values, activation, multiplier), spread,
        constants=weights_and_bias((1, kernel, kernel, outputs), outputs, weights, spread),
    )  # fmt: skip


@grid(
    "Half.Product/",
    rows=(1, 3),
    inputs=(1, 24, 100, 640, 1280),
    outputs=(1, 10, 63, 1001),
    weights=WEIGHTS,
)
def _products(name: str, *, rows: int, inputs: int, outputs: int, weights: str) -> Case:
    return operator_case(
        name, "FULLY_CONNECTED", [(rows, inputs)], (rows, outputs),
        FullyConnectedOptions(), "plain",
        constants=weights_and_bias((outputs, inputs), outputs, weights),
    )  # fmt: skip


@grid(
    "Half.MatrixProduct/",
    rows=("1", "7", "2x5", "3x1x4"),
    inputs=(1, 24, 100, 640),
    outputs=(1, 10, 63),
    order=("inputs_first", "outputs_first"),
    weights=WEIGHTS,
    spread=_SPREADS,
)
def _matrix_products(
    name: str, *, rows: str, inputs: int, outputs: int, order: str, weights: str, spread: str
) -> Case:
    lead, is_turned = shape_of(rows), order == "outputs_first"
    matrix = (outputs, inputs) if is_turned else (inputs, outputs)
    return operator_case(
        name, "BATCH_MATMUL", [(*lead, inputs)], (*lead, outputs),
        BatchMatMulOptions(False, is_turned), spread,
        constants=weights_and_bias(matrix, outputs, weights, spread, has_bias=False),
    )  # fmt: skip


@grid(
    "Half.ComputedProduct/",
    size=tuple(SIZES),
    lead=tuple(LEADS),
    adj=("none", "x", "y", "xy"),
    spread=_SPREADS,
    is_in=meets,
)
def _computed_products(name: str, *, size: str, lead: str, adj: str, spread: str) -> Case:
    rows, _, outputs = SIZES[size]
    return operator_case(
        name, "BATCH_MATMUL", computed_shapes(size, lead, adj),
        (*np.broadcast_shapes(*LEADS[lead]), rows, outputs),
        BatchMatMulOptions("x" in adj, "y" in adj), spread, version=2,
    )  # fmt: skip


_TRANSPOSED = {"2x2s2": (2, 2, 2), "3x3s2": (3, 3, 2), "4x4s2": (4, 4, 2), "3x2s1": (3, 2, 1)}


@grid(
    "Half.Transposed/",
    window=tuple(_TRANSPOSED),
    channels=("3to5", "16to1", "17to33", "40to8"),
    padding=tuple(PADDINGS),
    spread=_SPREADS,
)
def _transposed(name: str, *, window: str, channels: str, padding: str, spread: str) -> Case:
    (kh, kw, stride), scheme = _TRANSPOSED[window], PADDINGS[padding]
    inputs, outputs = (int(part) for part in channels.split("to"))
    rng = generator_of(name)
    shape = (int(rng.integers(1, 3)), int(rng.integers(3, 9)), int(rng.integers(3, 11)), inputs)
    activation = Activation[str(rng.choice(ACTIVATIONS))]
    has_bias = bool(rng.integers(2))
    rows, columns = (
        n * stride + (max(k - stride, 0) if scheme is Padding.VALID else 0)
        for n, k in zip(shape[1:3], (kh, kw), strict=True)
    )
    result = (shape[0], rows, columns, outputs)

    def constants(builder: ModelBuilder, rng: np.random.Generator) -> Iterable[int]:
        yield builder.constant("size", np.array(result, np.int32))
        weights = numbers(rng, (outputs, kh, kw, inputs), "plain")
        yield constant(builder, "w", weights, "float16")
        if has_bias:
            yield builder.constant("b", numbers(rng, (outputs,), "plain"))

    return operator_case(
        name, "TRANSPOSE_CONV", [shape], result,
        TransposeConvOptions(scheme, stride, stride, activation), spread,
        constants=constants, version=3 if has_bias else 1,
        arrange=lambda x, size, weights, *bias: (size, weights, x, *bias),
    )  # fmt: skip


_SCALES = ("one", "per_channel")
_CHANNELS = ("1to10", "16to32", "24to33", "65to17", "100to130")


@grid("Half.DynamicRangeConv/", scales=_SCALES, channels=_CHANNELS)
def _dynamic_range_convolutions(name: str, *, scales: str, channels: str) -> Case:
    window, shape, (inputs, outputs) = Window(3, 2), *_drawn_features(name, channels)
    return operator_case(
        name, "CONV_2D", [shape], (*shape[:3], outputs),
        ConvOptions(*window.option_values), "plain",
        constants=_int8_weights((outputs, 3, 2, inputs), 0, scales),
    )  # fmt: skip


@grid("Half.DynamicRangeDepthwise/", scales=_SCALES, channels=_CHANNELS)
def _dynamic_range_depthwise(name: str, *, scales: str, channels: str) -> Case:
    window, shape, (inputs, _) = Window(3, 2), *_drawn_features(name, channels)
    return operator_case(
        name, "DEPTHWISE_CONV_2D", [shape], shape,
        DepthwiseOptions(*window.option_values), "plain",
        constants=_int8_weights((1, 3, 2, inputs), 3, scales),
    )  # fmt: skip


@grid("Half.DynamicRangeProduct/", scales=_SCALES, channels=_CHANNELS)
def _dynamic_range_products(name: str, *, scales: str, channels: str) -> Case:
    shape, (inputs, outputs) = _drawn_features(name, channels)
    return operator_case(
        name, "FULLY_CONNECTED", [(shape[1], inputs)], (shape[1], outputs),
        FullyConnectedOptions(), "plain",
        constants=_int8_weights((outputs, inputs), 0, scales),
    )  # fmt: skip


def _drawn_features(name: str, channels: str) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Return a shape of float32 features, and the numbers of input and output channels."""
    inputs, outputs = (int(part) for part in channels.split("to"))
    rng = generator_of(name)
    return (1, int(rng.integers(3, 12)), int(rng.integers(3, 12)), inputs), (inputs, outputs)


def _int8_weights(shape: tuple[int, ...], axis: int, scales: str) -> Constants:
    """Return what adds int8 weights with one scale, or one per entry of ``axis``, and a bias."""

    def add(builder: ModelBuilder, rng: np.random.Generator) -> Iterable[int]:
        outputs = shape[axis]
        count = outputs if scales == "per_channel" else 1
        scaling = tuple(map(float, rng.uniform(1e-3, 0.1, count).astype(np.float32)))
        values = rng.integers(-127, 128, shape).astype(np.int8)
        yield builder.constant("w", values, Quantization(scaling, (0,) * count, axis))
        yield builder.constant("b", numbers(rng, (outputs,), "plain"))

    return add


FAMILIES: tuple[Family, ...] = (
    _convolutions,
    _depthwise,
    _products,
    _matrix_products,
    _computed_products,
    _transposed,
    _dynamic_range_convolutions,
    _dynamic_range_depthwise,
    _dynamic_range_products,
)
