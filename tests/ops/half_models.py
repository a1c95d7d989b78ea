"""Models of a float convolution, what the compiler makes of them, and what the simulator gives."""

from pathlib import Path

import numpy as np

from delegate.compile.compiler import CompileResult, compile_model
from delegate.model.graph import Activation, DType
from delegate.ops.conv_2d import ConvOptions
from delegate.options import Options
from rk3588_conformance.builder import Net

SIMULATED = {"device": "simulator", "float": "fp16"}


def conv_model(
    weights: np.ndarray,
    activation: Activation = Activation.NONE,
    shape=(1, 5, 6, 24),
    reduced_precision: bytes = b"",
) -> bytes:
    builder = Net("half")
    if reduced_precision:
        builder.metadata("reduced_precision_support", reduced_precision)
    x = builder.input("x", shape, DType.FLOAT32)
    half = weights.dtype == np.float16
    w = builder.constant("w", weights)
    if half:
        made = builder.tensor("made", weights.shape, DType.FLOAT32)
        builder.operator("DEQUANTIZE", (w,), (made,))
        w = made
    y = builder.tensor("y", (*shape[:3], weights.shape[0]), DType.FLOAT32)
    b = builder.constant("b", np.zeros(weights.shape[0], np.float32))
    builder.operator("CONV_2D", (x, w, b), (y,), ConvOptions(activation=activation))
    return builder.build(y)


def compiled(model: bytes | Path, **options: str) -> CompileResult:
    return compile_model(model, Options.from_mapping(options, {}))


def rejected(model: bytes, **options: str) -> set[str]:
    return {r.rule for r in compiled(model, **options).rejections if r.op != "DEQUANTIZE"}
