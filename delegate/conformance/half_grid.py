"""Convolutions, matrix products and transposed convolutions in fp16, within their bounds for every
element; weights as float32 and as float16 behind DEQUANTIZE.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from delegate.conformance import half_oracle
from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.products import computed_product
from delegate.conformance.case import Case, Family, generator_of
from delegate.conformance.grid import Axes, Grid
from delegate.conformance.half_judge import judged_by
from delegate.conformance.half_values import (
    ACTIVATIONS,
    SPREADS,
    WEIGHTS,
    constant,
    inputs_of,
    numbers,
)
from delegate.conformance.own_grid import PADDINGS
from delegate.conformance.product_grid import LEADS, SIZES, computed_shapes, meets
from delegate.model.graph import Activation, DType
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.transpose_conv import TransposeConvOptions


def _convolution(
    rng: np.random.Generator,
    *,
    op: str,
    shape: Sequence[int],
    weights: Sequence[int],
    made: BuiltinOptions,
    result: Sequence[int],
    kind: str,
    spread: str,
    has_bias: bool = True,
) -> bytes:
    builder = ModelBuilder("half")
    x = builder.input("x", shape, DType.FLOAT32)
    inputs = [x, constant(builder, "w", numbers(rng, weights, spread), kind)]
    if has_bias:
        inputs.append(constant(builder, "b", numbers(rng, result[-1:], spread), kind))
    y = builder.tensor("y", result, DType.FLOAT32)
    builder.operator(op, inputs, (y,), made)
    builder.output(y)
    return builder.build()


def _size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "same" else (size - reach) // stride + 1


def _convolutions() -> Grid:
    geometries = {
        "1x1": (1, 1, 1, 1), "3x3": (3, 3, 1, 1), "5x2": (5, 2, 1, 1), "3x3s2": (3, 3, 2, 1),
        "2x3d2": (2, 3, 1, 2),
    }  # fmt: skip
    channels = ("3to5", "8to16", "17to33", "24to40", "40to8", "65to24", "96to130")

    def make(
        name: str, *, window: str, channels: str, padding: str, weights: str, spread: str
    ) -> Case:
        kh, kw, stride, dilation = geometries[window]
        ic, oc = (int(part) for part in channels.split("to"))
        rng = generator_of(name)
        shape = (int(rng.integers(1, 3)), int(rng.integers(7, 20)), int(rng.integers(6, 23)), ic)
        activation = Activation[str(rng.choice(ACTIVATIONS))]
        made = options.conv_2d(PADDINGS[padding], stride, stride, dilation, dilation, activation)
        rows, columns = (
            _size(size, k, stride, dilation, padding)
            for size, k in zip(shape[1:3], (kh, kw), strict=True)
        )
        build = partial(
            _convolution, op="CONV_2D", shape=shape, weights=(oc, kh, kw, ic), made=made,
            result=(shape[0], rows, columns, oc), kind=weights,
            spread="plain" if spread == "ends" else spread, has_bias=bool(rng.integers(4)),
        )  # fmt: skip
        given = inputs_of(name, [shape], spread)
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.convolution))

    return Grid(
        "Half.Conv/",
        {"window": tuple(geometries), "channels": channels, "padding": tuple(PADDINGS),
         "weights": WEIGHTS, "spread": (*SPREADS, "ends")},
        make,
    )  # fmt: skip


def _depthwise() -> Grid:
    def make(
        name: str, *, kernel: int, stride: int, channels: int, multiplier: int, weights: str
    ) -> Case:
        rng = generator_of(name)
        shape = (1, int(rng.integers(7, 20)), int(rng.integers(6, 23)), channels)
        activation = Activation[str(rng.choice(ACTIVATIONS))]
        made = options.depthwise_conv_2d(
            PADDINGS["same"], stride, stride, 1, 1, activation, multiplier
        )
        rows, columns = (-(-size // stride) for size in shape[1:3])
        outputs = channels * multiplier
        spread = str(rng.choice((*SPREADS, "ends")))
        build = partial(
            _convolution, op="DEPTHWISE_CONV_2D", shape=shape, made=made, kind=weights,
            weights=(1, kernel, kernel, outputs), result=(1, rows, columns, outputs),
            spread="plain" if spread == "ends" else spread,
        )  # fmt: skip
        given = inputs_of(name, [shape], spread)
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.depthwise))

    axes: Axes = {"kernel": (3, 5), "stride": (1, 2),
            "channels": (3, 8, 15, 16, 24, 28, 33, 48, 64, 72, 130), "multiplier": (1, 2),
            "weights": WEIGHTS}  # fmt: skip
    return Grid("Half.Depthwise/", axes, make)


def _products() -> Grid:
    def make(name: str, *, rows: int, inputs: int, outputs: int, weights: str) -> Case:
        made = options.fully_connected(Activation.NONE)
        build = partial(
            _convolution, op="FULLY_CONNECTED", shape=(rows, inputs), made=made, kind=weights,
            weights=(outputs, inputs), result=(rows, outputs), spread="plain",
        )  # fmt: skip
        given = inputs_of(name, [(rows, inputs)], "plain")
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.dense))

    axes: Axes = {"rows": (1, 3), "inputs": (1, 24, 100, 640, 1280), "outputs": (1, 10, 63, 1001),
            "weights": WEIGHTS}  # fmt: skip
    return Grid("Half.Product/", axes, make)


def _matrix_products() -> Grid:
    def make(
        name: str, *, rows: str, inputs: int, outputs: int, order: str, weights: str, spread: str
    ) -> Case:
        first = order == "outputs_first"
        lead = tuple(int(part) for part in rows.split("x"))
        build = partial(
            _convolution, op="BATCH_MATMUL", shape=(*lead, inputs), kind=weights, has_bias=False,
            made=options.of(BatchMatMulOptions(False, first, False)),
            weights=(outputs, inputs) if first else (inputs, outputs),
            result=(*lead, outputs), spread="plain" if spread == "ends" else spread,
        )  # fmt: skip
        given = inputs_of(name, [(*lead, inputs)], spread)
        judge = judged_by(half_oracle.matrix_product)
        return Case(name, "Half", build, inputs=given, outside=judge)

    axes: Axes = {"rows": ("1", "7", "2x5", "3x1x4"), "inputs": (1, 24, 100, 640),
            "outputs": (1, 10, 63), "order": ("inputs_first", "outputs_first"),
            "weights": WEIGHTS, "spread": (*SPREADS, "ends")}  # fmt: skip
    return Grid("Half.MatrixProduct/", axes, make)


def _computed_products() -> Grid:
    def make(name: str, *, size: str, lead: str, adj: str, spread: str) -> Case:
        shapes = computed_shapes(size, lead, adj)

        def build(_: np.random.Generator) -> bytes:
            builder = ModelBuilder("half computed product")
            x, y = (builder.input(n, s, DType.FLOAT32) for n, s in zip("xy", shapes, strict=True))
            turned = "x" in adj, "y" in adj
            z = computed_product(builder, x, y, None, adj_x=turned[0], adj_y=turned[1])
            builder.output(z)
            return builder.build()

        judge = judged_by(half_oracle.matrix_product)
        return Case(name, "Half", build, inputs=inputs_of(name, shapes, spread), outside=judge)

    axes: Axes = {"size": tuple(SIZES), "lead": tuple(LEADS), "adj": ("none", "x", "y", "xy"),
            "spread": (*SPREADS, "ends")}  # fmt: skip
    return Grid("Half.ComputedProduct/", axes, make, meets)


def _transposed() -> Grid:
    sizes = {"2x2s2": (2, 2, 2), "3x3s2": (3, 3, 2), "4x4s2": (4, 4, 2), "3x2s1": (3, 2, 1)}

    def build(
        shape: Sequence[int], outputs: int, window: str, padding: str, activation: Activation,
        has_bias: bool, rng: np.random.Generator,
    ) -> bytes:  # fmt: skip
        kh, kw, stride = sizes[window]
        reach = (max(kh - stride, 0), max(kw - stride, 0)) if padding == "valid" else (0, 0)
        rows, columns = (n * stride + more for n, more in zip(shape[1:3], reach, strict=True))
        result = (shape[0], rows, columns, outputs)
        builder = ModelBuilder("half transposed")
        x = builder.input("x", shape, DType.FLOAT32)
        size = builder.constant("size", np.array(result, np.int32))
        weights = numbers(rng, (outputs, kh, kw, shape[3]), "plain")
        inputs = [size, constant(builder, "w", weights, "float16"), x]
        if has_bias:
            inputs.append(builder.constant("b", numbers(rng, (outputs,), "plain")))
        y = builder.tensor("y", result, DType.FLOAT32)
        table = options.of(TransposeConvOptions(PADDINGS[padding], stride, stride, activation))
        builder.operator("TRANSPOSE_CONV", inputs, (y,), table, version=3 if has_bias else 1)
        builder.output(y)
        return builder.build()

    def make(name: str, *, window: str, channels: str, padding: str, spread: str) -> Case:
        inputs, outputs = (int(part) for part in channels.split("to"))
        rng = generator_of(name)
        shape = (int(rng.integers(1, 3)), int(rng.integers(3, 9)), int(rng.integers(3, 11)), inputs)
        activation = Activation[str(rng.choice(ACTIVATIONS))]
        made = partial(build, shape, outputs, window, padding, activation, bool(rng.integers(2)))
        given = inputs_of(name, [shape], spread)
        return Case(name, "Half", made, inputs=given, outside=judged_by(half_oracle.transposed))

    axes = {
        "window": tuple(sizes),
        "channels": ("3to5", "16to1", "17to33", "40to8"),
        "padding": tuple(PADDINGS),
        "spread": (*SPREADS, "ends"),
    }
    return Grid("Half.Transposed/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _convolutions(),
        _depthwise(),
        _products(),
        _matrix_products(),
        _computed_products(),
        _transposed(),
    )
