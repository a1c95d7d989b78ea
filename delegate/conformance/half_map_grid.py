"""Operators of maps in fp16: element by element, over windows and to other sizes, within their
bounds for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delegate.conformance import half_oracle
from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.case import Case, Family, generator_of
from delegate.conformance.grid import Grid
from delegate.conformance.half_judge import Judge, judged_by
from delegate.conformance.half_values import ACTIVATIONS, SPREADS, constant, inputs_of, numbers
from delegate.conformance.own_grid import PADDINGS, shape_of
from delegate.model.graph import Activation, DType
from delegate.ops.resize_bilinear import ResizeBilinearOptions


@dataclass(frozen=True, slots=True)
class _Map:
    """An operator of one map, or of two; ``options``: its table, for an activation. ``takes_any``:
    either operand may be broadcast, computed too.
    """

    name: str
    judge: Judge
    maps: int = 2
    has_slopes: bool = False
    options: Callable[[Activation], BuiltinOptions] | None = None
    takes_any: bool = False


_MAPS = {
    item.name: item
    for item in (
        _Map("ADD", half_oracle.total, options=options.add),
        _Map("SUB", half_oracle.difference, options=options.sub),
        _Map("MUL", half_oracle.product, options=options.mul, takes_any=True),
        _Map("MAXIMUM", half_oracle.maximum),
        _Map("MINIMUM", half_oracle.minimum),
        _Map("RELU", half_oracle.relu, 1),
        _Map("RELU6", half_oracle.relu6, 1),
        _Map("PRELU", half_oracle.prelu, 1, has_slopes=True),
        _Map("HARD_SWISH", half_oracle.hard_swish, 1),
        _Map("LOGISTIC", half_oracle.logistic, 1),
        _Map("TANH", half_oracle.tanh, 1),
    )
}


def _maps() -> Grid:
    def build(item: _Map, shape: Sequence[int], activation: str, rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half map")
        names = ("x", "y")[: item.maps]
        inputs = [builder.input(name, shape, DType.FLOAT32) for name in names]
        if item.has_slopes:
            slopes = numbers(rng, (1, 1, shape[-1]), "plain")
            inputs.append(constant(builder, "slopes", slopes, "float16"))
        result = builder.tensor("z", shape, DType.FLOAT32)
        table = None if item.options is None else item.options(Activation[activation])
        builder.operator(item.name, inputs, (result,), table)
        builder.output(result)
        return builder.build()

    def make(name: str, *, op: str, shape: str, activation: str, spread: str) -> Case:
        item, size = _MAPS[op], shape_of(shape)
        given = inputs_of(name, [size] * item.maps, spread)
        made = partial(build, item, size, activation)
        return Case(name, "Half", made, inputs=given, outside=judged_by(item.judge))

    def is_in(*, op: str, shape: str, activation: str, spread: str) -> bool:
        return activation == "NONE" or _MAPS[op].options is not None

    axes = {
        "op": tuple(_MAPS),
        "shape": ("1x1x1x1", "1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
        "activation": ACTIVATIONS,
        "spread": (*SPREADS, "ends"),
    }
    return Grid("Half.Map/", axes, make, is_in)


_OPERANDS: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "number": lambda _: (),
    "channels": lambda shape: shape[-1:],
    "pixel": lambda shape: (1, 1, 1, shape[-1]),
    "pixels": lambda shape: (shape[0], 1, 1, shape[-1]),
}
"""Shapes that meet a map's. Pixels are computed, others constant."""


def _operands() -> Grid:
    """Operators of a map and of what is broadcast to it."""

    def build(
        op: str, shape: Sequence[int], other: str, place: str, activation: str,
        rng: np.random.Generator,
    ) -> bytes:  # fmt: skip
        builder = ModelBuilder("half operand")
        inputs = [builder.input("x", shape, DType.FLOAT32)]
        size = _OPERANDS[other](shape)
        if other.startswith("pixel"):
            inputs.append(builder.input("y", size, DType.FLOAT32))
        else:
            inputs.append(builder.constant("y", numbers(rng, size, "plain")))
        result = builder.tensor("z", shape, DType.FLOAT32)
        table = _MAPS[op].options
        assert table is not None
        ordered = inputs[::-1] if place == "first" else inputs
        builder.operator(op, ordered, (result,), table(Activation[activation]))
        builder.output(result)
        return builder.build()

    def make(
        name: str, *, op: str, shape: str, other: str, place: str, activation: str, spread: str
    ) -> Case:
        size = shape_of(shape)
        computed = [size]
        if other.startswith("pixel"):
            computed.append(tuple(_OPERANDS[other](size)))
        given = inputs_of(name, computed, spread)
        made = partial(build, op, size, other, place, activation)
        return Case(name, "Half", made, inputs=given, outside=judged_by(_MAPS[op].judge))

    def is_in(*, op: str, shape: str, other: str, place: str, activation: str, spread: str) -> bool:
        return _MAPS[op].takes_any or (place == "second" and not other.startswith("pixel"))

    axes = {
        "op": ("ADD", "SUB", "MUL"),
        "shape": ("1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
        "other": tuple(_OPERANDS),
        "place": ("first", "second"),
        "activation": ("NONE", "RELU6"),
        "spread": (*SPREADS, "ends"),
    }
    return Grid("Half.Operand/", axes, make, is_in)


def _leaky() -> Grid:
    slopes = {"0p3": 0.3, "0": 0.0, "minus2p7": -2.7, "0p0001": 0.0001}

    def build(shape: Sequence[int], alpha: float, _: np.random.Generator) -> bytes:
        builder = ModelBuilder("half leaky")
        x = builder.input("x", shape, DType.FLOAT32)
        y = builder.tensor("y", shape, DType.FLOAT32)
        builder.operator("LEAKY_RELU", (x,), (y,), options.leaky_relu(alpha))
        builder.output(y)
        return builder.build()

    def make(name: str, *, shape: str, alpha: str, spread: str) -> Case:
        size = shape_of(shape)
        made = partial(build, size, slopes[alpha])
        given = inputs_of(name, [size], spread)
        return Case(name, "Half", made, inputs=given, outside=judged_by(half_oracle.leaky))

    axes = {
        "shape": ("1x7x5x3", "2x3x11x33"),
        "alpha": tuple(slopes),
        "spread": (*SPREADS, "ends"),
    }
    return Grid("Half.Leaky/", axes, make)


class _Reduced(NamedTuple):
    """What an operator makes of one map: a constant of its own, its result and its options."""

    constant: npt.NDArray[np.int32] | None
    shape: Sequence[int]
    options: BuiltinOptions


def _padded(shape: Sequence[int], rng: np.random.Generator) -> _Reduced:
    amounts = np.array([[0, 0], [0, 0], [0, 0], rng.integers(0, 20, 2)], np.int32)
    wider = (*shape[:3], shape[3] + int(amounts.sum()))
    return _Reduced(amounts, wider, options.empty())


def _mean(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    axes = np.array([1, 2], np.int32)
    return _Reduced(axes, (shape[0], 1, 1, shape[3]), options.reducer(True))


def _maxima(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    images, height, width, channels = shape
    table = options.pool_2d(PADDINGS["valid"], 2, 2, 2, 2)
    return _Reduced(None, (images, height // 2, width // 2, channels), table)


_LARGE = 31
_LARGE_TOO = ("MEAN", "AVERAGE_POOL_2D")
"""Operators whose windows are larger than a kernel may be."""


def _averages(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    images, height, width, channels = shape
    size, stride = (2, 3), (1, 2)
    if max(height, width) > _LARGE:  # as squeeze-and-excite has it
        size = stride = (height, width)
    table = options.pool_2d(PADDINGS["valid"], *stride, *size, Activation.RELU)
    rows, columns = (
        (s - k) // by + 1 for s, k, by in zip((height, width), size, stride, strict=True)
    )
    return _Reduced(None, (images, rows, columns, channels), table)


def _doubled(sides: tuple[bool, bool]) -> Callable[..., _Reduced]:
    """RESIZE_BILINEAR with corners aligned, or centres at halves, or neither."""

    def reduce(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
        images, *sizes, channels = shape
        rows, columns = (2 * size - sides[0] for size in sizes)
        size = np.array([rows, columns], np.int32)
        table = options.of(ResizeBilinearOptions(*sides))
        return _Reduced(size, (images, rows, columns, channels), table)

    return reduce


class _Pool(NamedTuple):
    """An operator of one map that makes another shape of it, and who judges the results."""

    op: str
    reduce: Callable[[Sequence[int], np.random.Generator], _Reduced]
    judge: Judge


_POOLS = {
    name or item.op: item
    for name, item in (
        ("", _Pool("PAD", _padded, half_oracle.padded)),
        ("", _Pool("MEAN", _mean, half_oracle.mean)),
        ("", _Pool("REDUCE_MAX", _mean, half_oracle.highest)),
        ("", _Pool("MAX_POOL_2D", _maxima, half_oracle.largest)),
        ("", _Pool("AVERAGE_POOL_2D", _averages, half_oracle.averages)),
        *(
            (f"bilinear_{name}", _Pool("RESIZE_BILINEAR", _doubled(sides), half_oracle.bilinear))
            for name, sides in (
                ("aligned", (True, False)),
                ("centres", (False, True)),
                ("plain", (False, False)),
            )
        ),
    )
}


def _pools() -> Grid:
    """Maxima, means and added channels."""

    def build(op: str, shape: Sequence[int], rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half pool")
        inputs = [builder.input("x", shape, DType.FLOAT32)]
        constant, result, table = _POOLS[op].reduce(shape, rng)
        if constant is not None:
            inputs.append(builder.constant("constant", constant))
        y = builder.tensor("y", result, DType.FLOAT32)
        builder.operator(_POOLS[op].op, inputs, (y,), table)
        builder.output(y)
        return builder.build()

    def make(name: str, *, op: str, shape: str, spread: str) -> Case:
        size = shape_of(shape)
        given = inputs_of(name, [size], spread)
        return Case(
            name,
            "Half",
            partial(build, op, size),
            inputs=given,
            outside=judged_by(_POOLS[op].judge),
        )

    axes = {
        "op": tuple(_POOLS),
        "shape": (
            "1x2x4x1",
            "1x7x6x3",
            "1x13x18x16",
            "2x4x12x33",
            "1x9x4x130",
            "1x31x8x24",
            "1x64x32x16",
            "2x33x62x33",
            "1x128x128x8",
        ),
        "spread": (*SPREADS, "ends"),
    }

    def is_in(*, op: str, shape: str, spread: str) -> bool:
        return op in _LARGE_TOO or max(shape_of(shape)[1:3]) <= _LARGE

    return Grid("Half.Pool/", axes, make, is_in)


_WINDOWS = {
    "2x2s1": (2, 2, 1, 1), "3x3s1": (3, 3, 1, 1), "3x3s2": (3, 3, 2, 2), "2x3s2": (2, 3, 2, 1),
    "5x5s1": (5, 5, 1, 1), "4x1s3": (4, 1, 3, 2), "7x7s4": (7, 7, 4, 4), "9x3s2": (9, 3, 2, 2),
}  # fmt: skip
"""Rows, columns, and the strides of both."""


def _windows() -> Grid:
    """Pools whose windows overlap, or reach beyond the image."""
    pools = {
        "largest": ("MAX_POOL_2D", half_oracle.largest, (Activation.NONE,)),
        "average": ("AVERAGE_POOL_2D", half_oracle.averages, (Activation.NONE, Activation.RELU)),
    }

    def build(
        op: str, window: str, padding: str, shape: Sequence[int], clamp: Activation, _: object
    ) -> bytes:
        builder = ModelBuilder("half windows")
        x = builder.input("x", shape, DType.FLOAT32)
        rows, columns, down, right = _WINDOWS[window]
        result = [
            -(-size // by) if padding == "same" else (size - kernel) // by + 1
            for size, kernel, by in zip(shape[1:3], (rows, columns), (down, right), strict=True)
        ]
        y = builder.tensor("y", (shape[0], *result, shape[3]), DType.FLOAT32)
        table = options.pool_2d(PADDINGS[padding], down, right, rows, columns, clamp)
        builder.operator(op, (x,), (y,), table)
        builder.output(y)
        return builder.build()

    def make(name: str, *, op: str, window: str, padding: str, shape: str, spread: str) -> Case:
        size = shape_of(shape)
        operator, judge, clamps = pools[op]
        clamp = clamps[int(generator_of(name).integers(len(clamps)))]
        made = partial(build, operator, window, padding, size, clamp)
        given = inputs_of(name, [size], spread)
        return Case(name, "Half", made, inputs=given, outside=judged_by(judge))

    def is_in(*, op: str, window: str, padding: str, shape: str, spread: str) -> bool:
        _, height, width, _ = shape_of(shape)
        rows, columns, *_ = _WINDOWS[window]
        return padding == "same" or (rows <= height and columns <= width)

    axes = {
        "op": tuple(pools),
        "window": tuple(_WINDOWS),
        "padding": tuple(PADDINGS),
        "shape": ("1x7x6x3", "1x13x18x16", "2x5x12x33", "1x9x4x130", "1x31x9x8", "1x4x5x24"),
        "spread": (*SPREADS, "ends"),
    }
    return Grid("Half.Window/", axes, make, is_in)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return _maps(), _operands(), _leaky(), _pools(), _windows()
