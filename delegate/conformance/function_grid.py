"""Functions of one value: all 256 values of many quantisations, alone and behind one another.

The DPU looks results up, so all of them have to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import options
from delegate.conformance.builder.functions import function
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import dtype_of, shape_of
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.model.graph import DType, Quantization
from delegate.ops.gelu import GeluOptions

_BOTH = ("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", "GELU",
         "QUANTIZE", "PRELU")  # fmt: skip
_INT8 = ("ABS", "EXP", "RELU_0_TO_1")
"""Those that the runtime has for int8 only."""

_TYPES = ("uint8", "int8")
_VALUES = (1, 1, 1, 256)
_LOGISTIC_SCALE = 1 / 256


def _options(op: str, rng: np.random.Generator) -> BuiltinOptions | None:
    if op == "LEAKY_RELU":
        return options.leaky_relu(float(np.float32(rng.choice((0.0, 0.01, 0.1, 0.3, 1.7)))))
    if op == "GELU":
        return options.of(GeluOptions(bool(rng.integers(2))))
    return None


def _result(op: str, rng: np.random.Generator, dtype: DType, source: Quantization) -> Quantization:
    low, high = LIMITS[dtype]
    if op == "LOGISTIC":
        return Quantization((_LOGISTIC_SCALE,), (low,))
    if op == "TANH":
        return Quantization((1 / 128,), ((low + high + 1) // 2,))
    ratio = 10 ** rng.uniform(-1, 1) if rng.integers(8) else 1.0
    scale = float(np.float32(source.scale * ratio))
    return Quantization((scale,), (int(rng.integers(low, high + 1)),))


def _apply(builder: ModelBuilder, rng: np.random.Generator, op: str, x: int) -> int:
    spec = builder.spec(x)
    assert spec.quantization is not None
    operands = [x]
    if op == "PRELU":
        slope = np.array([[[rng.integers(1, 100)]]])
        kind = np.int8 if spec.dtype is DType.INT8 else np.uint8
        operands.append(
            builder.constant("slope", slope.astype(kind), draw_quantization(rng, spec.dtype))
        )
    result = _result(op, rng, spec.dtype, spec.quantization)
    return function(builder, op, operands, result, _options(op, rng))


def _build(
    ops: Sequence[str], dtype: DType, shape: Sequence[int], rng: np.random.Generator
) -> bytes:
    builder = ModelBuilder("functions")
    x = builder.input("input", shape, dtype, draw_quantization(rng, dtype))
    for op in ops:
        x = _apply(builder, rng, op, x)
    builder.output(x)
    return builder.build()


def _all_values(dtype: DType) -> Sequence[npt.NDArray[np.generic]]:
    low, high = LIMITS[dtype]
    kind = np.int8 if dtype is DType.INT8 else np.uint8
    return [np.arange(low, high + 1).astype(kind).reshape(_VALUES)]


def _is_taken(op: str, type: str) -> bool:
    return op in _BOTH or type == "int8"


def _values() -> Grid:
    def make(name: str, *, op: str, draw: int, type: str) -> Case:
        dtype = dtype_of(type)
        build = partial(_build, (op,), dtype, _VALUES)
        return Case(
            name, "FunctionValues", build, differing=NONE, inputs=partial(_all_values, dtype)
        )

    def is_in(*, op: str, draw: int, type: str) -> bool:
        return _is_taken(op, type)

    return Grid(
        "FunctionValues.Op/",
        {"op": _BOTH + _INT8, "draw": tuple(range(12)), "type": _TYPES},
        make,
        is_in,
    )


def _shapes() -> Grid:
    def make(name: str, *, op: str, shape: str, type: str) -> Case:
        build = partial(_build, (op,), dtype_of(type), shape_of(shape))
        return Case(name, "FunctionShapes", build, differing=NONE)

    return Grid(
        "FunctionShapes.Op/",
        {
            "op": ("LOGISTIC", "RELU"),
            "shape": ("13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33",
                      "1x13x17x16", "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17"),
            "type": _TYPES,
        },
        make,
    )  # fmt: skip


def _chains() -> Grid:
    def make(name: str, *, first: str, second: str, type: str) -> Case:
        dtype = dtype_of(type)
        build = partial(_build, (first, second), dtype, _VALUES)
        return Case(
            name, "FunctionChains", build, differing=NONE, inputs=partial(_all_values, dtype)
        )

    def is_in(*, first: str, second: str, type: str) -> bool:
        return _is_taken(first, type) and _is_taken(second, type)

    ops = _BOTH + _INT8
    axes = {"first": ops, "second": ops, "type": _TYPES}
    return Grid("FunctionChains.Op/", axes, make, is_in)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_values(), _shapes(), _chains())
