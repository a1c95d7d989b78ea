"""Functions of one value: all 256 values of many quantisations, alone and behind one another.

The DPU looks results up, so all of them have to be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import options
from delegate.conformance.builder.functions import function
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid
from delegate.conformance.own_grid import (
    EIGHT_BITS,
    constant,
    dtype_of,
    model,
    one_layer,
    shape_of,
    values_of,
)
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.model.graph import DType, Quantization
from delegate.ops.gelu import GeluOptions

_VALUES = (1, 1, 1, 256)


def _drawn_result(rng: np.random.Generator, dtype: DType, source: Quantization) -> Quantization:
    low, high = LIMITS[dtype]
    ratio = 10 ** rng.uniform(-1, 1) if rng.integers(8) else 1.0
    scale = float(np.float32(source.scale * ratio))
    return Quantization((scale,), (int(rng.integers(low, high + 1)),))


def _probability(_: np.random.Generator, dtype: DType, __: Quantization) -> Quantization:
    return Quantization((1 / 256,), (LIMITS[dtype][0],))


def _symmetric_unit(_: np.random.Generator, dtype: DType, __: Quantization) -> Quantization:
    return Quantization((1 / 128,), ((sum(LIMITS[dtype]) + 1) // 2,))


def _any_slope(rng: np.random.Generator) -> BuiltinOptions:
    return options.leaky_relu(float(np.float32(rng.choice((0.0, 0.01, 0.1, 0.3, 1.7)))))


def _either_formula(rng: np.random.Generator) -> BuiltinOptions:
    return options.of(GeluOptions(bool(rng.integers(2))))


def _no_options(_: np.random.Generator) -> None:
    return None


@dataclass(frozen=True, slots=True)
class _Function:
    """``result``: its quantisation. ``has_slope``: a second operand of one value. ``types``: those
    that the runtime has it for.
    """

    name: str
    result: Callable[[np.random.Generator, DType, Quantization], Quantization] = _drawn_result
    options: Callable[[np.random.Generator], BuiltinOptions | None] = _no_options
    has_slope: bool = False
    types: tuple[str, ...] = EIGHT_BITS

    def add(self, builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        """The function of ``x``."""
        spec = builder.spec(x)
        assert spec.quantization is not None
        operands = [x]
        if self.has_slope:
            slope = rng.integers(1, 100, (1, 1, 1)).astype(spec.dtype.element.dtype)
            operands.append(builder.constant("slope", slope, draw_quantization(rng, spec.dtype)))
        result = self.result(rng, spec.dtype, spec.quantization)
        return function(builder, self.name, operands, result, self.options(rng))


_ALL = (
    _Function("LOGISTIC", _probability),
    _Function("TANH", _symmetric_unit),
    *map(_Function, ("RELU", "RELU6", "RELU_N1_TO_1")),
    _Function("LEAKY_RELU", options=_any_slope),
    _Function("HARD_SWISH"),
    _Function("GELU", options=_either_formula),
    _Function("QUANTIZE"),
    _Function("PRELU", has_slope=True),
    *(_Function(name, types=("int8",)) for name in ("ABS", "EXP", "RELU_0_TO_1")),
)
_FUNCTIONS = {function.name: function for function in _ALL}


def _case(
    name: str, label: str, ops: Sequence[str], type: str, shape: Sequence[int] = _VALUES
) -> Case:
    def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
        for op in ops:
            x = _FUNCTIONS[op].add(builder, rng, x)
        return x

    inputs = partial(_all_values, dtype_of(type)) if shape == _VALUES else None
    return one_layer(name, label, shape, type, layer, differing=NONE, inputs=inputs)


def _all_values(dtype: DType) -> Sequence[npt.NDArray[np.generic]]:
    return [values_of(dtype).reshape(_VALUES)]


def _values() -> Grid:
    def make(name: str, *, op: str, draw: int, type: str) -> Case:
        return _case(name, "FunctionValues", (op,), type)

    def is_in(*, op: str, draw: int, type: str) -> bool:
        return type in _FUNCTIONS[op].types

    axes: Axes = {"op": tuple(_FUNCTIONS), "draw": tuple(range(12)), "type": EIGHT_BITS}
    return Grid("FunctionValues.Op/", axes, make, is_in)


def _shapes() -> Grid:
    def make(name: str, *, op: str, shape: str, type: str) -> Case:
        return _case(name, "FunctionShapes", (op,), type, shape_of(shape))

    return Grid(
        "FunctionShapes.Op/",
        {
            "op": ("LOGISTIC", "RELU"),
            "shape": ("13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33",
                      "1x13x17x16", "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17"),
            "type": EIGHT_BITS,
        },
        make,
    )  # fmt: skip


def _chains() -> Grid:
    def make(name: str, *, first: str, second: str, type: str) -> Case:
        return _case(name, "FunctionChains", (first, second), type)

    def is_in(*, first: str, second: str, type: str) -> bool:
        return all(type in _FUNCTIONS[op].types for op in (first, second))

    ops = tuple(_FUNCTIONS)
    return Grid(
        "FunctionChains.Op/", {"first": ops, "second": ops, "type": EIGHT_BITS}, make, is_in
    )


def _slopes() -> Grid:
    """PRELU with slopes of their own: every value with every slope."""
    shapes = {
        "channels": (19,), "channels3": (1, 1, 19), "pixels": (16, 16, 1), "all": (16, 16, 19),
    }  # fmt: skip

    def make(name: str, *, slopes: str, draw: int, type: str) -> Case:
        dtype = dtype_of(type)

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            before = builder.spec(x).quantization
            assert before is not None
            scale = float(np.float32(10 ** rng.uniform(-3.5, -1)))
            zero_points = draw_quantization(rng, dtype).zero_points
            own = constant(builder, rng, shapes[slopes], dtype, Quantization((scale,), zero_points))
            return function(builder, "PRELU", (x, own), _drawn_result(rng, dtype, before))

        def inputs() -> Sequence[npt.NDArray[np.generic]]:
            values = values_of(dtype).reshape(1, 16, 16, 1)
            return [np.ascontiguousarray(np.broadcast_to(values, (1, 16, 16, 19)))]

        return one_layer(
            name, "FunctionSlopes", (1, 16, 16, 19), type, layer, differing=NONE, inputs=inputs
        )

    axes: Axes = {"slopes": tuple(shapes), "draw": tuple(range(12)), "type": EIGHT_BITS}
    return Grid("FunctionSlopes.Op/", axes, make)


def _roots() -> Grid:
    """RSQRT, whose kernel refuses what is below the zero point: there is nothing in an input whose
    zero point is the least value, nor behind functions that give nothing below theirs.
    """

    def make(name: str, *, first: str, draw: int) -> Case:
        def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
            drawn = draw_quantization(rng, DType.INT8)
            source = Quantization(drawn.scales, (-128,)) if first == "none" else drawn
            x = builder.input("input", _VALUES, DType.INT8, source)
            if first != "none":
                x = _FUNCTIONS[first].add(builder, rng, x)
            before = builder.spec(x).quantization
            assert before is not None
            # Roots of the middle reach about the middle.
            scale = float(np.float32(math.exp(rng.uniform(-2, 2)) / before.scale**0.5 / 1000))
            zero_point = int(rng.integers(-128, 128))
            return function(builder, "RSQRT", (x,), Quantization((scale,), (zero_point,)))

        build, inputs = model("FunctionRoots", body), partial(_all_values, DType.INT8)
        return Case(name, "FunctionRoots", build, differing=NONE, inputs=inputs)

    axes: Axes = {"first": ("none", "RELU", "ABS", "LOGISTIC"), "draw": tuple(range(12))}
    return Grid("FunctionRoots.Op/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_values(), _shapes(), _chains(), _slopes(), _roots())
