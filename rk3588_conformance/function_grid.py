"""Functions of one value: all 256 values of many quantisations, alone and behind one another.

The DPU looks results up, so all of them have to be equal.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.model.operator_options import Options
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.ranges import LIMITS, float32, one_scale
from rk3588_conformance.builder.reals import numbers, stored_reals
from rk3588_conformance.grid import EIGHT_BITS, HALF_TYPES, Arrays, Values, layer_grid
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE

_VALUES = "1x1x1x256"
_DRAWS = tuple(range(12))


def _drawn_result(net: Net, x: int) -> Quantization:
    low, high = LIMITS[net.spec(x).dtype]
    ratio = 10 ** net.rng.uniform(-1, 1) if net.rng.integers(8) else 1.0
    return one_scale(net.scaling(x).scale * ratio, int(net.rng.integers(low, high + 1)))


def _probability(net: Net, x: int) -> Quantization:
    return Quantization((1 / 256,), (LIMITS[net.spec(x).dtype][0],))


def _symmetric_unit(net: Net, x: int) -> Quantization:
    return Quantization((1 / 128,), ((sum(LIMITS[net.spec(x).dtype]) + 1) // 2,))


_SLOPE = (0.0, 0.01, 0.1, 0.3, 1.7)
_HALF_SLOPE = (0.3, 0.0, -2.7, 0.0001)


@dataclass(frozen=True, slots=True)
class _Function:
    """``result``: its quantisation. ``has_slope``: a second operand of one value. ``types``: those
    that the runtime has it for.
    """

    name: str
    result: Callable[[Net, int], Quantization] = _drawn_result
    options: Callable[[np.random.Generator], Options | None] = lambda _: None
    has_slope: bool = False
    types: tuple[str, ...] = EIGHT_BITS

    def add(self, net: Net, x: int) -> int:
        """The function of ``x``."""
        operands, dtype = [x], net.spec(x).dtype
        if dtype is DType.FLOAT32:
            return self._add_real(net, x)
        if self.has_slope:
            slope = net.rng.integers(1, 100, (1, 1, 1)).astype(dtype.element.dtype)
            operands.append(net.constant("slope", slope, net.drawn(dtype)))
        result = self.result(net, x)
        return net.function(self.name, operands, result, self.options(net.rng))

    def _add_real(self, net: Net, x: int) -> int:
        """The function of reals: with slopes per channel, or a slope that no eight bits have."""
        operands, table = [x], self.options(net.rng)
        if self.has_slope:
            slopes = numbers(net.rng, (1, 1, net.spec(x).shape[-1]))
            operands.append(stored_reals(net, "slopes", slopes, "float16"))
        if isinstance(table, LeakyReluOptions):
            table = LeakyReluOptions(float(net.rng.choice(_HALF_SLOPE)))
        return net.function(self.name, operands, None, table)


_ALL = (
    _Function("LOGISTIC", _probability),
    _Function("TANH", _symmetric_unit),
    *map(_Function, ("RELU", "RELU6", "RELU_N1_TO_1")),
    _Function("LEAKY_RELU", options=lambda rng: LeakyReluOptions(float32(rng.choice(_SLOPE)))),
    _Function("HARD_SWISH"),
    _Function("GELU", options=lambda rng: GeluOptions(bool(rng.integers(2)))),
    _Function("QUANTIZE"),
    _Function("PRELU", has_slope=True),
    *(_Function(name, types=("int8",)) for name in ("ABS", "EXP", "LOG", "RELU_0_TO_1")),
    *(_Function(name, types=()) for name in ("NEG", "SQUARE")),
)
_FUNCTIONS = {function.name: function for function in _ALL}
_OPS = tuple(name for name, function in _FUNCTIONS.items() if function.types)
_SHAPED_OPS = ("LOGISTIC", "RELU")
_HALF_OPS = (
    "ABS", "NEG", "SQUARE", "RELU", "RELU6", "PRELU", "HARD_SWISH", "LOGISTIC", "TANH", "GELU",
    "LEAKY_RELU",
)  # fmt: skip


def _all_values(v: Values) -> Arrays:
    return [v.levels.reshape(v.input_shape)]


def _is_known(v: Values) -> bool:
    return all(v.type in _FUNCTIONS[name].types for name in _names(v))


def _names(v: Values) -> list[str]:
    return [vars(v)[axis] for axis in ("op", "first", "second") if axis in vars(v)]


def _layer(net: Net, v: Values) -> int:
    """``op``, or ``first`` and ``second`` behind it."""
    x = net.x
    for name in _names(v):
        x = _FUNCTIONS[name].add(net, x)
    return x


_values = layer_grid(
    "FunctionValues.Op/",
    input_values=_all_values,
    is_in=_is_known,
    shape=_VALUES,
    op=_OPS,
    draw=_DRAWS,
)(_layer)

_shapes = layer_grid(
    "FunctionShapes.Op/",
    is_in=lambda v: len(v.input_shape) == 4 if v.is_half else v.op in _SHAPED_OPS,
    op=_HALF_OPS,
    shape=(
        "13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33", "1x13x17x16",
        "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17",
    ),
    type=(*EIGHT_BITS, *HALF_TYPES),
)(_layer)  # fmt: skip

_chains = layer_grid(
    "FunctionChains.Op/",
    input_values=_all_values,
    is_in=_is_known,
    shape=_VALUES,
    first=_OPS,
    second=_OPS,
)(_layer)


_ROOT = 0.5
_REALS = (("NEG", 1.0), ("SQRT", _ROOT), ("SQUARE", 2.0), ("COS", 0.0), ("SIN", 0.0))
"""Functions of float32, and the power of the input's scale that the output's goes with; 0: results
are from -1 to 1.
"""


def _for_roots(rng: np.random.Generator, v: Values) -> Quantization:
    """Return a quantisation that holds no negative values if a root reads it: kernels leave what
    these give undefined.
    """
    drawn = draw_quantization(rng, v.dtype)
    is_read = v.first == "none" if "first" in vars(v) else dict(_REALS)[v.op] == _ROOT
    return Quantization(drawn.scales, (LIMITS[v.dtype][0],)) if is_read else drawn


@layer_grid(
    "RealFunctions.Op/",
    input_values=_all_values,
    input_quantization=_for_roots,
    shape=_VALUES,
    op=tuple(dict(_REALS)),
    draw=_DRAWS,
)
def _real_values(net: Net, v: Values) -> int:
    """A function of float32 between DEQUANTIZE and QUANTIZE."""
    real, made = (net.tensor(n, v.input_shape, DType.FLOAT32) for n in ("real", "function"))
    net.operator("DEQUANTIZE", (net.x,), (real,))
    net.operator(v.op, (real,), (made,))
    power = dict(_REALS)[v.op]
    range_ = net.scaling(net.x).scale ** power if power else 2.0**-7
    scale = range_ * 10 ** net.rng.uniform(-1, 1)
    low, high = LIMITS[v.dtype]
    result = one_scale(float(scale), int(net.rng.integers(low, high + 1)))
    return net.result("QUANTIZE", (made,), "result", quantization=result, dtype=v.dtype)


_SLOPES = {"channels": (19,), "channels3": (1, 1, 19), "pixels": (16, 16, 1), "all": (16, 16, 19)}


def _values_by_pixel(v: Values) -> Arrays:
    values = v.levels.reshape(1, 16, 16, 1)
    return [np.ascontiguousarray(np.broadcast_to(values, v.input_shape))]


@layer_grid(
    "FunctionSlopes.Op/",
    input_values=_values_by_pixel,
    shape="1x16x16x19",
    slopes=tuple(_SLOPES),
    draw=_DRAWS,
)
def _slopes(net: Net, v: Values) -> int:
    """PRELU with slopes of their own: every value with every slope."""
    scale = 10 ** net.rng.uniform(-3.5, -1)
    quantization = one_scale(scale, net.drawn(v.dtype).zero_point)
    own = net.random_constant(_SLOPES[v.slopes], v.dtype, quantization)
    return net.function("PRELU", (net.x, own), _drawn_result(net, net.x))


@layer_grid(
    "FunctionRoots.Op/",
    input_values=_all_values,
    input_quantization=_for_roots,
    shape=_VALUES,
    type="int8",
    first=("none", "RELU", "ABS", "LOGISTIC"),
    draw=_DRAWS,
)
def _roots(net: Net, v: Values) -> int:
    """RSQRT, whose kernel refuses what is below the zero point: there is nothing in an input whose
    zero point is the least value, nor behind functions that give nothing below theirs.
    """
    x = net.x if v.first == "none" else _FUNCTIONS[v.first].add(net, net.x)
    # Roots of the middle reach about the middle.
    scale = math.exp(net.rng.uniform(-2, 2)) / net.scaling(x).scale ** 0.5 / 1000
    return net.function("RSQRT", (x,), one_scale(scale, int(net.rng.integers(-128, 128))))


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
def _quotients(net: Net, v: Values) -> int:
    """DIV by a constant above or below its zero point. Quotients have as many bits as the divisor:
    else the kernel leaves open what 0 gives.
    """
    return net.quotient(net.x, is_above=v.sign == "above", activation=v.clamp)
