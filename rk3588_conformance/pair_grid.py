"""ADD, MUL, SUB, SQUARED_DIFFERENCE, MAXIMUM and MINIMUM of two feature maps: all 65,536 pairs,
shapes, scales, broadcast of one or of both, and for ADD every origin that an operand can have.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import Activation, DType, Quantization
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import Net, layers
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.builder.reals import numbers
from rk3588_conformance.grid import (
    EIGHT_BITS,
    HALF_TYPES,
    Arrays,
    Values,
    layer_grid,
    model_grid,
    shape_of,
)
from rk3588_conformance.random_layers import TEFLON_NUMBERS, Numbers, draw_zero_point
from rk3588_conformance.tolerance import NONE, SQUARES, SUM, SUM_ALONE, TIES


def _other_input(net: Net, x: int, shape: Sequence[int] | None = None) -> int:
    """An input beside ``x``, of its shape unless told."""
    spec = net.spec(x)
    return net.input("other", shape or spec.shape, spec.dtype, net.drawn(spec.dtype))


def _constant(net: Net, x: int, shape: Sequence[int] | None = None) -> int:
    """A constant operand beside ``x``, of its shape unless told."""
    spec = net.spec(x)
    return net.random_constant(shape or spec.shape, spec.dtype)


_RATIOS = {"0_001": 0.001, "0_07": 0.07, "0_5": 0.5, "1": 1.0, "1_9": 1.9, "30": 30.0}


@model_grid(
    "AddScales.Op/",
    description="add scales",
    differing=TIES,
    first=tuple(_RATIOS),
    second=tuple(_RATIOS),
    zero_points=("ends", "drawn"),
    activation=("NONE", "RELU6"),
)
def _add_scales(net: Net, v: Values) -> int:
    """Ratios of the operands' scales to the sum's, and zero points at the ends."""
    low, high = LIMITS[v.dtype]
    zeros = {"ends": (low, high), "drawn": tuple(net.rng.integers(low, high + 1, 2))}
    a, b = (
        net.input(name, (1, 17, 13, 19), v.dtype, one_scale(0.037 * _RATIOS[ratio], zero))
        for name, ratio, zero in zip("ab", (v.first, v.second), zeros[v.zero_points], strict=True)
    )
    return net.add(a, b, activation=v.clamp, output_scale=0.037,
        output_zero_point=int(net.rng.integers(low, high + 1)),
    )  # fmt: skip


_OPERANDS: dict[str, Callable[[Net, Values], int]] = {
    "input": lambda net, _: net.x,
    "other": lambda net, _: _other_input(net, net.x),
    "constant": lambda net, _: _constant(net, net.x),
    "conv": lambda net, v: net.conv(net.x, 24, v.kernel_window, TEFLON_NUMBERS),
    "relu6": lambda net, _: net.conv(
        net.x, 24, layers.Window(), Numbers(activation=Activation.RELU6)
    ),
    "depthwise": lambda net, v: net.depthwise(net.x, v.kernel_window, TEFLON_NUMBERS),
}


@layer_grid(
    "AddOrigins.Op/",
    differing=SUM,
    is_in=lambda v: (v.first, v.second) != ("constant", "constant") and v.first != "other",
    shape="1x9x13x24",
    first=tuple(_OPERANDS),
    second=tuple(_OPERANDS),
    activation=("NONE", "RELU", "RELU6"),
)
def _add_origins(net: Net, v: Values) -> int:
    """Operands from inside, outside, a constant, or both the same tensor."""
    a, b = (_OPERANDS[kind](net, v) for kind in (v.first, v.second))
    return net.add(a, b, activation=v.clamp)


_PAIRS = "1x16x16x256"
_SHAPE = "1x11x7x19"

Quantizations = tuple[Quantization | None, Quantization | None, Quantization | None]


@dataclass(frozen=True, slots=True)
class _Operator:
    """``largest``: what a result's scale times 128 should about reach, by the operands' scales;
    None where operands and result have one quantisation. ``options``: None where the kernels know
    no activation. ``types``: those of 8 bits that the runtime has it for. ``half``: the operands of
    other shapes that run in fp16, constants unless an input is named.
    """

    name: str
    largest: Callable[[float, float], float] | None = None
    options: Callable[[Activation], Options] | None = None
    differing: float = NONE
    types: tuple[str, ...] = EIGHT_BITS
    half: tuple[str, ...] = ()

    def quantizations(self, net: Net, dtype: DType) -> Quantizations:
        """Operands and a result that holds most of theirs; reals have none."""
        if dtype is DType.FLOAT32:
            return None, None, None
        first, second = net.drawn(dtype), net.drawn(dtype)
        if self.largest is None:
            return first, first, first
        largest = self.largest(first.scale, second.scale)
        scale = largest * math.exp(net.rng.uniform(-1.5, 0.7))
        return first, second, one_scale(scale, draw_zero_point(net.rng, dtype))

    def add(
        self,
        net: Net,
        a: int,
        b: int,
        result: Quantization | None,
        clamp: Activation = Activation.NONE,
    ) -> int:
        """The operator of two tensors."""
        table = self.options(clamp) if self.options is not None else None
        shape = np.broadcast_shapes(net.spec(a).shape, net.spec(b).shape)
        return net.result(self.name, (a, b), "y", shape, result, options=table)


def _largest_square(first: float, second: float) -> float:
    """Return the largest square: that of a distance of 128 of both."""
    return (128 * (first + second)) ** 2 / 4


_HALF_SUMMANDS = ("scalar", "channels", "pixels input", "whole", "column")
_HALF_ENDS = ("scalar", "channels", "whole")
_HALF_FACTORS = (*_HALF_SUMMANDS, "channels4 input", "images input", "outer")
_SQUARES = _Operator(
    "SQUARED_DIFFERENCE",
    _largest_square,
    differing=SQUARES,
    types=("int8",),
    half=("pixels input",),
)
_SUM = _Operator("ADD", lambda a, b: a + b, AddOptions, SUM_ALONE, half=_HALF_SUMMANDS)
_ALL = (
    _Operator("MUL", lambda a, b: 128 * a * b, MulOptions, half=_HALF_FACTORS),
    _Operator("SUB", lambda a, b: a + b, SubOptions, SUM_ALONE, half=_HALF_SUMMANDS),
    _SQUARES,
    _Operator("MAXIMUM", half=_HALF_ENDS),
    _Operator("MINIMUM", half=_HALF_ENDS),
)
_MEETING = {operator.name: operator for operator in (*_ALL, _SUM)}
_OPERATORS = tuple(operator.name for operator in _ALL)


def _differing(v: Values) -> float:
    return _MEETING[v.op].differing


def _has_type(v: Values) -> bool:
    """Return whether the operator has the type, and in fp16 the activation and such operands."""
    operator = _MEETING[v.op]
    if not v.is_half:
        return v.type in operator.types
    if v.activation != "NONE" and operator.options is None:
        return False
    if "other" in vars(v):
        return v.other + " input" * (v.origin == "input") in operator.half
    return len(v.input_shape) == 4 and v.clamp is not Activation.RELU_N1_TO_1


def _all_pairs(v: Values) -> Arrays:
    return [a.reshape(shape_of(_PAIRS)) for a in np.meshgrid(v.levels, v.levels, indexing="ij")]


def _of_two_inputs(net: Net, v: Values) -> int:
    """Two inputs of one shape."""
    operator = _MEETING[v.op]
    first, second, result = operator.quantizations(net, v.dtype)
    a, b = (net.input(n, v.input_shape, v.dtype, q) for n, q in (("a", first), ("b", second)))
    if operator is _SUM and not v.is_half:  # whose result ends where the clamp does
        return net.add(a, b, activation=v.clamp)
    return operator.add(net, a, b, result, v.clamp)


def _is_distinct(v: Values) -> bool:
    operator = _MEETING[v.op]
    is_clamped = v.activation == "NONE" or operator.options is not None
    return _has_type(v) and is_clamped and (operator.largest is not None or v.draw == 0)


_pairs = model_grid(
    "Pairs.Op/",
    differing=_differing,
    input_values=_all_pairs,
    shape=_PAIRS,
    op=_OPERATORS,
    draw=tuple(range(12)),
    activation=("NONE", "RELU", "RELU6"),
    is_in=_is_distinct,
)(_of_two_inputs)


def _is_clamped_alike(v: Values) -> bool:
    """Return whether it is a sum, or not clamped, unless it runs in fp16."""
    return _has_type(v) and (v.is_half or _MEETING[v.op] is _SUM or v.activation == "NONE")


_pair_shapes = model_grid(
    "PairShapes.Op/",
    differing=_differing,
    op=tuple(_MEETING),
    shape=(
        "13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33", "1x13x17x16",
        "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17",
    ),
    activation=("NONE", "RELU", "RELU6", "RELU_N1_TO_1"),
    type=(*EIGHT_BITS, *HALF_TYPES),
    is_in=_is_clamped_alike,
)(_of_two_inputs)  # fmt: skip


def _stretched(net: Net, v: Values, one: Sequence[int], other: Sequence[int]) -> int:
    """Operands of these shapes; the second has the ``origin``, and its place is the ``order``."""
    operator = _MEETING[v.op]
    first, second, result = operator.quantizations(net, v.dtype)
    a = net.input("a", one, v.dtype, first)
    if v.origin == "constant" and v.is_half:
        b = net.constant("b", numbers(net.rng, other))
    elif v.origin == "constant":
        b = net.random_constant(other, v.dtype, second)
    else:
        b = net.input("b", other, v.dtype, second)
    return operator.add(net, *((a, b) if v.order == "first" else (b, a)), result, v.clamp)


_OTHERS: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "scalar": lambda _: (1,),
    "scalar4": lambda _: (1, 1, 1, 1),
    "channels": lambda shape: shape[-1:],
    "channels4": lambda shape: (1, 1, 1, shape[-1]),
    "images": lambda shape: (shape[0], 1, 1, shape[-1]),
    "row": lambda shape: (1, 1, *shape[2:]),
    "column": lambda shape: (shape[2], 1),
    "pixels": lambda shape: (*shape[:3], 1),
    "whole": lambda shape: (1, *shape[1:]),
    "outer": lambda shape: shape[-1:],
}
"""Shapes that meet a map's; "outer": the map has one channel."""


def _is_met(v: Values) -> bool:
    is_eight_bits = (
        v.shape == _SHAPE and v.other not in ("images", "outer") and v.activation == "NONE"
    )
    return _has_type(v) and (v.is_half or is_eight_bits)


@model_grid(
    "PairBroadcast.Op/",
    description="{op}",
    differing=_differing,
    op=tuple(_MEETING),
    shape=(_SHAPE, "1x13x17x16", "2x3x11x33", "1x9x4x130"),
    other=tuple(_OTHERS),
    origin=("constant", "input"),
    order=("first", "second"),
    activation=("NONE", "RELU6"),
    type=(*EIGHT_BITS, *HALF_TYPES),
    is_in=_is_met,
)
def _broadcast(net: Net, v: Values) -> int:
    """A second operand that is stretched, as in squeeze-and-excite."""
    shape, other = v.input_shape, _OTHERS[v.other](v.input_shape)
    return _stretched(net, v, (*shape[:-1], 1) if v.other == "outer" else shape, other)


_MET = {
    "row_column": ("1x1x7x19", "1x11x1x19"), "column_whole": ("1x11x1x33", "1x11x7x33"),
    "row_whole": ("1x29x37x17", "1x1x37x17"), "images_pixels": ("2x1x1x19", "1x11x7x1"),
    "channels_pixels": ("1x1x1x40", "1x5x13x1"), "images_column": ("3x1x5x16", "1x4x1x1"),
    "images_row": ("2x6x7x9", "1x1x7x9"), "lines": ("1x13x64", "5x1x64"),
    "lower_rank": ("13x5", "7x1x1"), "channels_map": ("1x1x1x64", "1x61x64x1"),
}  # fmt: skip
"""The shapes of both operands."""


@model_grid(
    "PairMeets.Op/",
    description="{op}",
    differing=_differing,
    op=tuple(_MEETING),
    shapes=tuple(_MET),
    origin=("constant", "input"),
    order=("first", "second"),
    is_in=_has_type,
)
def _meets(net: Net, v: Values) -> int:
    """Operands that both are stretched, along any dimensions."""
    return _stretched(net, v, *map(shape_of, _MET[v.shapes]))


@model_grid(
    "PairSquares.Op/",
    description="squares",
    type="int8",
    input_values=_all_pairs,
    draw=tuple(range(24)),
    reach=("all", "half"),
)
def _equal_scales(net: Net, v: Values) -> int:
    """SQUARED_DIFFERENCE of operands with one scale: whole distances, so that all are equal."""
    first, other = net.drawn(DType.INT8), net.drawn(DType.INT8)
    zero_points = first.zero_points if v.reach == "all" else other.zero_points
    second = Quantization(first.scales, zero_points)
    distance = {"all": 255, "half": 128}[v.reach] * first.scale
    a, b = (
        net.input(name, shape_of(_PAIRS), DType.INT8, quantization)
        for name, quantization in (("a", first), ("b", second))
    )
    return _SQUARES.add(net, a, b, one_scale(distance**2 / 255, -128))
