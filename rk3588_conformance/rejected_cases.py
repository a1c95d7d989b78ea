"""Models that must be refused, each by the rule that says why.

Most of them TensorFlow Lite does not run either, so only the compiler is asked.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.layers import DEFAULT_ARITHMETIC, Arithmetic
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.single_op import add_model, conv_model, fully_connected_model
from rk3588_conformance.case import Build, Case
from rk3588_conformance.grid import Values, grid

_Q = Quantization((0.05,), (3,))


def _float_conv(rng: np.random.Generator) -> bytes:
    builder = ModelBuilder("float")
    x = builder.input("x", (1, 5, 7, 3), DType.FLOAT32)
    weights = builder.constant("w", rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
    bias = builder.constant("b", np.zeros(4, np.float32))
    return builder.build(_result(builder, "CONV_2D", (x, weights, bias), (1, 5, 7, 4), 1))


def _result(
    builder: ModelBuilder, op: str, operands: Sequence[int], shape: Sequence[int], version: int
) -> int:
    table = ConvOptions() if len(shape) == 4 else FullyConnectedOptions()
    return builder.result(op, operands, "y", shape, options=table, version=version)


def _int16_conv(rng: np.random.Generator) -> bytes:
    builder = ModelBuilder("int16")
    x = builder.input("x", (1, 5, 7, 3), DType.INT16, Quantization((0.001,), (0,)))
    values = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    weights = builder.constant("w", values, Quantization((0.01,), (0,)))
    bias = builder.constant("b", np.zeros(4, np.int64), Quantization((1e-5,), (0,)))
    return builder.build(_result(builder, "CONV_2D", (x, weights, bias), (1, 5, 7, 4), 4))


def _activations_as_weights(_: np.random.Generator) -> bytes:
    """FULLY_CONNECTED of two inputs, of which a row is several pixels."""
    builder = ModelBuilder("matmul")
    x = builder.input("x", (3, 2, 8), DType.INT8, _Q)
    weights = builder.input("w", (9, 16), DType.INT8, Quantization((0.05,), (0,)))
    return builder.build(_result(builder, "FULLY_CONNECTED", (x, weights, -1), (3, 9), 4))


def _dense(rng: np.random.Generator, *, weights: str) -> bytes:
    """A FULLY_CONNECTED whose weights the file declares to be int4, or sparse."""
    builder = ModelBuilder(weights)
    x = builder.input("x", (1, 16), DType.INT8, _Q)
    shape = (8, 16)
    quantization = Quantization((0.05,), (0,))
    if weights == "int4":
        packed = rng.integers(-128, 128, (8, 8)).astype(np.int8)
        w = builder.constant("w", packed, quantization, dtype=DType.INT4, shape=shape)
    else:
        dense = rng.integers(-127, 128, 64).astype(np.int8)
        w = builder.constant("w", dense, quantization, shape=shape, is_sparse=True)
    return builder.build(_result(builder, "FULLY_CONNECTED", (x, w, -1), (1, 8), 7))


def _dynamic_conv(rng: np.random.Generator) -> bytes:
    builder = ModelBuilder("dynamic")
    shape, signature = (1, 5, 7, 3), (1, -1, -1, 3)
    x = builder.input("x", shape, DType.INT8, _Q, shape_signature=signature)
    y = layers.conv(builder, rng, x, 4, layers.Window(3, 3))
    return builder.build(y)


def _constant_sum(rng: np.random.Generator) -> bytes:
    builder = ModelBuilder("constants")
    a, b = (
        builder.constant(name, rng.integers(-128, 128, (1, 3, 2, 5)).astype(np.int8), _Q)
        for name in "ab"
    )
    return builder.build(layers.add(builder, a, b))


def _conv(
    rng: np.random.Generator, *, arithmetic: Arithmetic = DEFAULT_ARITHMETIC, **geometry: Any
) -> bytes:
    shape: dict[str, Any] = {"h": 9, "w": 7, "ic": 3, "oc": 4, "kh": 3, "kw": 3, **geometry}
    return conv_model(rng, **shape, arithmetic=arithmetic)


def _per_channel_uint8(rng: np.random.Generator) -> bytes:
    arithmetic = Arithmetic(per_channel=True)
    return conv_model(rng, 9, 7, 3, 4, 3, 3, dtype=DType.UINT8, arithmetic=arithmetic)


_CASES: dict[str, tuple[Build, str]] = {
    "float_conv": (_float_conv, "eight_bit_features"),
    "int16_conv": (_int16_conv, "eight_bit_features"),
    "activations_as_weights": (_activations_as_weights, "rows_are_pixels"),
    "int4_weights": (partial(_dense, weights="int4"), "weights_type"),
    "sparse_weights": (partial(_dense, weights="sparse"), "constants_unchanged"),
    "dynamic_shape": (_dynamic_conv, "static_shapes"),
    "sum_of_constants": (_constant_sum, "features_computed"),
    "uint8_per_channel": (_per_channel_uint8, "per_channel_weights"),
    "int8_weight_zero_point": (
        partial(_conv, arithmetic=Arithmetic(weight_zero_point=5)), "int8_weights_symmetric",
    ),
    "tanh": (partial(_conv, arithmetic=Arithmetic(activation=Activation.TANH)),
             "activation_supported"),
    "stride_8": (partial(_conv, sh=8), "strides_or_patches"),
    "kernel_32": (partial(_conv, h=40, kh=32), "kernel_in_range"),
    "dilation_33": (partial(_conv, h=80, dh=33), "dilation_in_range"),
    "padding_16": (partial(_conv, h=40, dh=16), "padding_in_range"),
    "window_beyond_cbuf": (
        partial(_conv, h=258, w=259, ic=16, kh=9, kw=9, dh=32, dw=32, padding=Padding.VALID),
        "tile_fits_cbuf",
    ),
    "buffers_of_gigabytes": (
        lambda rng: fully_connected_model(rng, (1 << 25, 4), 65), "buffers_in_range",
    ),
    "dense_rank_7": (
        lambda rng: fully_connected_model(rng, (1, 1, 1, 1, 1, 2, 8), 3), "feature_rank",
    ),
    "add_rank_7": (lambda rng: add_model(rng, (1, 1, 1, 1, 2, 3, 4)), "rank_in_range"),
}  # fmt: skip


@grid("Rejected.Op/", _name=tuple(_CASES))
def _rejected(name: str, v: Values) -> Case:
    build, rule = _CASES[v._name]
    return Case(name, "Rejected", build, rejected_by=(rule,), runs_on_cpu=False)
