"""MUL, SUB, MAXIMUM and MINIMUM of two feature maps: all 65,536 pairs, shapes, broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import constant, dtype_of, shape_of
from delegate.conformance.random_layers import draw_quantization, draw_zero_point
from delegate.conformance.tolerance import NONE, SUM_ALONE
from delegate.model.graph import Activation, DType, Quantization

_OPS = ("MUL", "SUB", "MAXIMUM", "MINIMUM")
_SCALED_OPS = ("MUL", "SUB")
_TYPES = ("uint8", "int8")
_ACTIVATIONS = ("NONE", "RELU", "RELU6")
_PAIRS = (1, 16, 16, 256)


def _options(op: str, activation: str = "NONE") -> BuiltinOptions | None:
    """The kernels of MAXIMUM and MINIMUM know none."""
    makers = {"MUL": options.mul, "SUB": options.sub}
    return makers[op](Activation[activation]) if op in makers else None


def _quantizations(
    op: str, rng: np.random.Generator, dtype: DType
) -> tuple[Quantization, Quantization, Quantization]:
    """Operands and a result that holds most of theirs."""
    first, second = draw_quantization(rng, dtype), draw_quantization(rng, dtype)
    if op not in _SCALED_OPS:
        return first, first, first
    largest = 128 * first.scale * second.scale if op == "MUL" else first.scale + second.scale
    scale = float(np.float32(largest * math.exp(rng.uniform(-1.5, 0.7))))
    return first, second, Quantization((scale,), (draw_zero_point(rng, dtype),))


def _differing(op: str) -> float:
    return SUM_ALONE if op == "SUB" else NONE


def _all_pairs(dtype: DType) -> Sequence[npt.NDArray[np.generic]]:
    low, high = LIMITS[dtype]
    grid = np.meshgrid(*(np.arange(low, high + 1),) * 2, indexing="ij")
    kind = np.int8 if dtype is DType.INT8 else np.uint8
    return [operand.astype(kind).reshape(_PAIRS) for operand in grid]


def _build(
    op: str, dtype: DType, shape: Sequence[int], activation: str, rng: np.random.Generator
) -> bytes:
    builder = ModelBuilder(op.lower())
    first, second, result = _quantizations(op, rng, dtype)
    a, b = (builder.input(n, shape, dtype, q) for n, q in (("a", first), ("b", second)))
    y = builder.tensor("y", shape, dtype, result)
    builder.operator(op, (a, b), (y,), _options(op, activation))
    builder.output(y)
    return builder.build()


def _pairs() -> Grid:
    def make(name: str, *, op: str, draw: int, activation: str, type: str) -> Case:
        dtype = dtype_of(type)
        build = partial(_build, op, dtype, _PAIRS, activation)
        inputs = partial(_all_pairs, dtype)
        return Case(name, "Pairs", build, differing=_differing(op), inputs=inputs)

    def is_in(*, op: str, draw: int, activation: str, type: str) -> bool:
        return op in _SCALED_OPS or (activation == "NONE" and draw == 0)

    return Grid(
        "Pairs.Op/",
        {"op": _OPS, "draw": tuple(range(12)), "activation": _ACTIVATIONS, "type": _TYPES},
        make,
        is_in,
    )


def _shapes() -> Grid:
    def make(name: str, *, op: str, shape: str, type: str) -> Case:
        build = partial(_build, op, dtype_of(type), shape_of(shape), "NONE")
        return Case(name, "PairShapes", build, differing=_differing(op))

    return Grid(
        "PairShapes.Op/",
        {
            "op": _OPS,
            "shape": ("13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33",
                      "1x13x17x16", "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17"),
            "type": _TYPES,
        },
        make,
    )  # fmt: skip


def _broadcast() -> Grid:
    """A second operand that is stretched, as in squeeze-and-excite."""

    shapes = {
        "scalar": (1,), "channels": (19,), "channels4": (1, 1, 1, 19), "row": (1, 1, 7, 19),
        "pixels": (1, 11, 7, 1), "whole": (1, 11, 7, 19),
    }  # fmt: skip

    def make(name: str, *, op: str, other: str, origin: str, order: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder = ModelBuilder(op.lower())
            dtype = dtype_of(type)
            first, second, result = _quantizations(op, rng, dtype)
            shape = (1, 11, 7, 19)
            a = builder.input("a", shape, dtype, first)
            if origin == "constant":
                b = constant(builder, rng, shapes[other], dtype, second)
            else:
                b = builder.input("b", shapes[other], dtype, second)
            y = builder.tensor("y", shape, dtype, result)
            operands = (a, b) if order == "first" else (b, a)
            builder.operator(op, operands, (y,), _options(op))
            builder.output(y)
            return builder.build()

        return Case(name, "PairBroadcast", build, differing=_differing(op))

    def is_in(*, op: str, other: str, origin: str, order: str, type: str) -> bool:
        return origin == "constant" or other in ("channels4", "whole")

    return Grid(
        "PairBroadcast.Op/",
        {
            "op": _OPS,
            "other": tuple(shapes),
            "origin": ("constant", "input"),
            "order": ("first", "second"),
            "type": _TYPES,
        },
        make,
        is_in,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_pairs(), _shapes(), _broadcast())
