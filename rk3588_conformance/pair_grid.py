"""MUL, SUB, SQUARED_DIFFERENCE, MAXIMUM and MINIMUM of two feature maps: all 65,536 pairs,
shapes, broadcast, also of both (and of ADD).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.mul import MulOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import one_scale
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grid
from rk3588_conformance.own_grid import EIGHT_BITS, constant, dtype_of, model, shape_of, values_of
from rk3588_conformance.random_layers import draw_quantization, draw_zero_point
from rk3588_conformance.tolerance import NONE, SQUARES, SUM_ALONE

_ACTIVATIONS = ("NONE", "RELU", "RELU6")
_PAIRS = (1, 16, 16, 256)
_SHAPE = (1, 11, 7, 19)

Quantizations = tuple[Quantization, Quantization, Quantization]


@dataclass(frozen=True, slots=True)
class _Operator:
    """``largest``: what a result's scale times 128 should about reach, by the operands' scales;
    None where operands and result have one quantisation. ``options``: None where the kernels know
    no activation. ``types``: those that the runtime has it for.
    """

    name: str
    largest: Callable[[float, float], float] | None = None
    options: Callable[[Activation], Options] | None = None
    differing: float = NONE
    types: tuple[str, ...] = EIGHT_BITS

    def quantizations(self, rng: np.random.Generator, dtype: DType) -> Quantizations:
        """Operands and a result that holds most of theirs."""
        first, second = draw_quantization(rng, dtype), draw_quantization(rng, dtype)
        if self.largest is None:
            return first, first, first
        largest = self.largest(first.scale, second.scale)
        scale = largest * math.exp(rng.uniform(-1.5, 0.7))
        return first, second, one_scale(scale, draw_zero_point(rng, dtype))

    def add(
        self,
        builder: ModelBuilder,
        operands: tuple[int, int],
        shape: Sequence[int],
        result: Quantization,
        activation: str = "NONE",
    ) -> int:
        """The operator of two tensors."""
        table = self.options(Activation[activation]) if self.options is not None else None
        return builder.result(self.name, operands, "y", shape, result, options=table)


def _largest_square(first: float, second: float) -> float:
    """Return the largest square: that of a distance of 128 of both."""
    return (128 * (first + second)) ** 2 / 4


_SQUARES = _Operator("SQUARED_DIFFERENCE", _largest_square, differing=SQUARES, types=("int8",))
_SUM = _Operator("ADD", lambda a, b: a + b, AddOptions, SUM_ALONE)
_ALL = (
    _Operator("MUL", lambda a, b: 128 * a * b, MulOptions),
    _Operator("SUB", lambda a, b: a + b, SubOptions, SUM_ALONE),
    _SQUARES,
    _Operator("MAXIMUM"),
    _Operator("MINIMUM"),
)
_OPERATORS = {operator.name: operator for operator in _ALL}
_MEETING = _OPERATORS | {_SUM.name: _SUM}


def _all_pairs(dtype: DType) -> Sequence[npt.NDArray[np.generic]]:
    return [a.reshape(_PAIRS) for a in np.meshgrid(*(values_of(dtype),) * 2, indexing="ij")]


def _case(
    name: str, label: str, op: str, type: str, shape: Sequence[int], activation: str = "NONE"
) -> Case:
    """Two inputs of one shape."""
    operator, dtype = _OPERATORS[op], dtype_of(type)

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        first, second, result = operator.quantizations(rng, dtype)
        a, b = (builder.input(n, shape, dtype, q) for n, q in (("a", first), ("b", second)))
        return operator.add(builder, (a, b), shape, result, activation)

    inputs = partial(_all_pairs, dtype) if shape == _PAIRS else None
    return Case(name, label, model(label, body), differing=operator.differing, inputs=inputs)


def _pairs_in(*, op: str, draw: int, activation: str, type: str) -> bool:
    operator = _OPERATORS[op]
    if type not in operator.types or (activation != "NONE" and operator.options is None):
        return False
    return operator.largest is not None or draw == 0


@grid(
    "Pairs.Op/",
    op=tuple(_OPERATORS),
    draw=tuple(range(12)),
    activation=_ACTIVATIONS,
    type=EIGHT_BITS,
    is_in=_pairs_in,
)
def _pairs(name: str, *, op: str, draw: int, activation: str, type: str) -> Case:
    return _case(name, "Pairs", op, type, _PAIRS, activation)


@grid(
    "PairShapes.Op/",
    op=tuple(_OPERATORS),
    shape=(
        "13", "5x17", "3x4x5", "1x1x1x1", "1x7x5x15", "1x31x1x130", "2x3x11x33", "1x13x17x16",
        "1x9x4x31", "1x1x1x1000", "1x37x41x64", "3x1x23x17",
    ),
    type=EIGHT_BITS,
    is_in=lambda op, type, **_: type in _OPERATORS[op].types,
)  # fmt: skip
def _shapes(name: str, *, op: str, shape: str, type: str) -> Case:
    return _case(name, "PairShapes", op, type, shape_of(shape))


_OTHERS = {
    "scalar": (1,), "channels": (19,), "channels4": (1, 1, 1, 19), "row": (1, 1, 7, 19),
    "pixels": (1, 11, 7, 1), "whole": _SHAPE,
}  # fmt: skip


@grid(
    "PairBroadcast.Op/",
    op=tuple(_OPERATORS),
    other=tuple(_OTHERS),
    origin=("constant", "input"),
    order=("first", "second"),
    type=EIGHT_BITS,
    is_in=lambda op, type, **_: type in _OPERATORS[op].types,
)
def _broadcast(name: str, *, op: str, other: str, origin: str, order: str, type: str) -> Case:
    """A second operand that is stretched, as in squeeze-and-excite."""
    shapes = _SHAPE, _OTHERS[other]
    return _stretched(name, "PairBroadcast", op, dtype_of(type), shapes, origin, order)


def _stretched(
    name: str,
    family: str,
    op: str,
    dtype: DType,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    origin: str,
    order: str,
) -> Case:
    """Operands of ``shapes``; the second has this ``origin``, and its place is ``order``."""
    operator, (one, other) = _MEETING[op], shapes

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        first, second, result = operator.quantizations(rng, dtype)
        a = builder.input("a", one, dtype, first)
        if origin == "constant":
            b = constant(builder, rng, other, dtype, second)
        else:
            b = builder.input("b", other, dtype, second)
        operands = (a, b) if order == "first" else (b, a)
        return operator.add(builder, operands, np.broadcast_shapes(one, other), result)

    return Case(name, family, model(op.lower(), body), differing=operator.differing)


_MET = {
    "row_column": ("1x1x7x19", "1x11x1x19"), "column_whole": ("1x11x1x33", "1x11x7x33"),
    "row_whole": ("1x29x37x17", "1x1x37x17"), "images_pixels": ("2x1x1x19", "1x11x7x1"),
    "channels_pixels": ("1x1x1x40", "1x5x13x1"), "images_column": ("3x1x5x16", "1x4x1x1"),
    "images_row": ("2x6x7x9", "1x1x7x9"), "lines": ("1x13x64", "5x1x64"),
    "lower_rank": ("13x5", "7x1x1"), "channels_map": ("1x1x1x64", "1x61x64x1"),
}  # fmt: skip
"""The shapes of both operands."""


@grid(
    "PairMeets.Op/",
    op=tuple(_MEETING),
    shapes=tuple(_MET),
    origin=("constant", "input"),
    order=("first", "second"),
    type=EIGHT_BITS,
    is_in=lambda op, type, **_: type in _MEETING[op].types,
)
def _meets(name: str, *, op: str, shapes: str, origin: str, order: str, type: str) -> Case:
    """Operands that both are stretched, along any dimensions."""
    one, other = map(shape_of, _MET[shapes])
    return _stretched(name, "PairMeets", op, dtype_of(type), (one, other), origin, order)


@grid("PairSquares.Op/", draw=tuple(range(24)), reach=("all", "half"))
def _equal_scales(name: str, *, draw: int, reach: str) -> Case:
    """SQUARED_DIFFERENCE of operands with one scale: whole distances, so that all are equal."""

    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        first, other = draw_quantization(rng, DType.INT8), draw_quantization(rng, DType.INT8)
        zero_points = first.zero_points if reach == "all" else other.zero_points
        second = Quantization(first.scales, zero_points)
        distance = {"all": 255, "half": 128}[reach] * first.scale
        result = one_scale(distance**2 / 255, -128)
        a, b = (
            builder.input(name, _PAIRS, DType.INT8, quantization)
            for name, quantization in (("a", first), ("b", second))
        )
        return _SQUARES.add(builder, (a, b), _PAIRS, result)

    inputs = partial(_all_pairs, DType.INT8)
    return Case(name, "PairSquares", model("squares", body), differing=NONE, inputs=inputs)


FAMILIES: tuple[Family, ...] = (_pairs, _shapes, _broadcast, _meets, _equal_scales)
