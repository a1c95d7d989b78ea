"""Models of a float convolution, what the compiler makes of them, and what the simulator gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from delegate.compile.compiler import CompileResult, compile_model
from delegate.host.library import library_path
from delegate.host.runtimes import find_runtime
from delegate.model.graph import Activation, DType
from delegate.ops.conv_2d import ConvOptions
from delegate.options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder

SIMULATED = {"device": "simulator", "float": "fp16"}


def conv_model(
    weights: np.ndarray,
    activation: Activation = Activation.NONE,
    shape=(1, 5, 6, 24),
    reduced_precision: bytes = b"",
) -> bytes:
    builder = ModelBuilder("half")
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


def half_interpreter(model: bytes) -> Any:
    """With the delegate, in fp16 on the simulator."""
    runtime = find_runtime()
    plugin = runtime.load_delegate(library_path(), SIMULATED)
    return runtime.interpreter(model, [plugin], threads=1)


def output_for(interpreter: Any, x: np.ndarray) -> np.ndarray:
    """The only output for the only input ``x``."""
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
