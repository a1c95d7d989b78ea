"""Functions of one value: all 256 values of many quantisations, alone and behind one another.

The DPU looks results up, so all of them have to be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from delegate.model.operator_options import Options
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from rk3588_conformance.builder.functions import function, quotient
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import (
    EIGHT_BITS,
    constant,
    dtype_of,
    layer_grid,
    shape_of,
    values_of,
)
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE

_VALUES = "1x1x1x256"
_DRAWS = tuple(range(12))


def _drawn_result(rng: np.random.Generator, dtype: DType, source: Quantization) -> Quantization:
    low, high = LIMITS[dtype]
    ratio = 10 ** rng.uniform(-1, 1) if rng.integers(8) else 1.0
    return one_scale(source.scale * ratio, int(rng.integers(low, high + 1)))


def _probability(_: np.random.Generator, dtype: DType, __: Quantization) -> Quantization:
    return Quantization((1 / 256,), (LIMITS[dtype][0],))


def _symmetric_unit(_: np.random.Generator, dtype: DType, __: Quantization) -> Quantization:
    return Quantization((1 / 128,), ((sum(LIMITS[dtype]) + 1) // 2,))


def _any_slope(rng: np.random.Generator) -> Options:
    return LeakyReluOptions(float(np.float32(rng.choice((0.0, 0.01, 0.1, 0.3, 1.7)))))


def _either_formula(rng: np.random.Generator) -> Options:
    return GeluOptions(bool(rng.integers(2)))


def _no_options(_: np.random.Generator) -> None:
    return None


@dataclass(frozen=True, slots=True)
class _Function:
    """``result``: its quantisation. ``has_slope``: a second operand of one value. ``types``: those
    that the runtime has it for.
    """

    name: str
    result: Callable[[np.random.Generator, DType, Quantization], Quantization] = _drawn_result
    options: Callable[[np.random.Generator], Options | None] = _no_options
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


_OPS = tuple(_FUNCTIONS)


def _all_values(*, type: str, **_: Value) -> Sequence[npt.NDArray[np.generic]]:
    return [values_of(dtype_of(type)).reshape(shape_of(_VALUES))]


def _is_known(*, type: str, op: str = "", first: str = "", second: str = "", **_: Value) -> bool:
    return all(type in _FUNCTIONS[name].types for name in (op, first, second) if name)


def _layer(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, op: str = "", first: str = "",
    second: str = "", **_: Value,
) -> int:  # fmt: skip
    """``op``, or ``first`` and ``second`` behind it."""
    for name in filter(None, (op, first, second)):
        x = _FUNCTIONS[name].add(builder, rng, x)
    return x


_values = layer_grid(
    "FunctionValues.Op/",
    differing=NONE,
    input_values=_all_values,
    is_in=_is_known,
    shape=_VALUES,
    op=_OPS,
    draw=_DRAWS,
    type=EIGHT_BITS,
)(_layer)

_shapes = layer_grid(
    "FunctionShapes.Op/",
    differing=NONE,
    op=("LOGISTIC", "RELU"),
    shape=(
        "13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33", "1x13x17x16",
        "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17",
    ),
    type=EIGHT_BITS,
)(_layer)  # fmt: skip

_chains = layer_grid(
    "FunctionChains.Op/",
    differing=NONE,
    input_values=_all_values,
    is_in=_is_known,
    shape=_VALUES,
    first=_OPS,
    second=_OPS,
    type=EIGHT_BITS,
)(_layer)


_SLOPES = {
    "channels": (19,), "channels3": (1, 1, 19), "pixels": (16, 16, 1), "all": (16, 16, 19),
}  # fmt: skip


def _values_by_pixel(*, type: str, **_: Value) -> Sequence[npt.NDArray[np.generic]]:
    values = values_of(dtype_of(type)).reshape(1, 16, 16, 1)
    return [np.ascontiguousarray(np.broadcast_to(values, (1, 16, 16, 19)))]


@layer_grid(
    "FunctionSlopes.Op/",
    differing=NONE,
    input_values=_values_by_pixel,
    shape="1x16x16x19",
    slopes=tuple(_SLOPES),
    draw=_DRAWS,
    type=EIGHT_BITS,
)
def _slopes(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, slopes: str, **_: Value
) -> int:
    """PRELU with slopes of their own: every value with every slope."""
    spec = builder.spec(x)
    assert spec.quantization is not None
    scale = 10 ** rng.uniform(-3.5, -1)
    quantization = one_scale(scale, draw_quantization(rng, spec.dtype).zero_point)
    own = constant(builder, rng, _SLOPES[slopes], spec.dtype, quantization)
    result = _drawn_result(rng, spec.dtype, spec.quantization)
    return function(builder, "PRELU", (x, own), result)


def _root_quantization(
    rng: np.random.Generator, dtype: DType, *, first: str, **_: Value
) -> Quantization:
    drawn = draw_quantization(rng, dtype)
    return Quantization(drawn.scales, (-128,)) if first == "none" else drawn


@layer_grid(
    "FunctionRoots.Op/",
    differing=NONE,
    input_values=_all_values,
    input_quantization=_root_quantization,
    shape=_VALUES,
    type="int8",
    first=("none", "RELU", "ABS", "LOGISTIC"),
    draw=_DRAWS,
)
def _roots(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, first: str, **_: Value
) -> int:
    """RSQRT, whose kernel refuses what is below the zero point: there is nothing in an input whose
    zero point is the least value, nor behind functions that give nothing below theirs.
    """
    if first != "none":
        x = _FUNCTIONS[first].add(builder, rng, x)
    before = builder.spec(x).quantization
    assert before is not None
    # Roots of the middle reach about the middle.
    scale = math.exp(rng.uniform(-2, 2)) / before.scale**0.5 / 1000
    return function(builder, "RSQRT", (x,), one_scale(scale, int(rng.integers(-128, 128))))


@layer_grid(
    "FunctionQuotients.Op/",
    differing=NONE,
    input_values=_all_values,
    shape=_VALUES,
    type="uint8",
    sign=("above", "below"),
    activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    draw=_DRAWS,
)
def _quotients(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, sign: str, activation: str,
    **_: Value,
) -> int:  # fmt: skip
    """DIV by a constant above or below its zero point. Quotients have as many bits as the divisor:
    else the kernel leaves open what 0 gives.
    """
    return quotient(builder, rng, x, is_above=sign == "above", activation=Activation[activation])


FAMILIES: tuple[Family, ...] = (_values, _shapes, _chains, _slopes, _roots, _quotients)
