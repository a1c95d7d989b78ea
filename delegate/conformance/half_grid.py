"""Float models in fp16: convolutions, matrix products and maps, within their bounds for every
element; ordinary and extreme magnitudes, weights as float32 and as float16 behind DEQUANTIZE.
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
from delegate.conformance.grid import Axes, Grid
from delegate.conformance.half_oracle import Judge, judged_by
from delegate.conformance.own_grid import PADDINGS, shape_of
from delegate.model.graph import Activation, DType
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.transpose_conv import TransposeConvOptions

_ACTIVATIONS = ("NONE", "RELU", "RELU6")
_WEIGHTS = ("float32", "float16")
_SPREADS = {"plain": 0, "wide": 12}
"""Powers of two between the magnitudes of values."""

Floats = npt.NDArray[np.float32]


def _numbers(rng: np.random.Generator, shape: Sequence[int], spread: str) -> Floats:
    scale = np.exp2(rng.integers(-_SPREADS[spread], 1 + _SPREADS[spread] // 3, shape))
    return np.asarray(rng.normal(size=shape) * scale, np.float32)


def _ends(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    """The ends of fp16: beyond them, at ties, subnormal numbers, zeros."""
    odd = [65504, -65504, 65519, 65520, 1e9, -1e9, 2.0**-14, 2.0**-24, -(2.0**-25), 2.0**-25 * 1.01,
           0.0, -0.0, 1e-30, 2049, 2051, 1.0, -1.0, 6.0, 5.998]  # fmt: skip
    return np.asarray(rng.choice(np.array(odd, np.float32), tuple(shape)))


def _constant(
    builder: ModelBuilder, name: str, values: Floats, kind: str, *, always: bool = False
) -> int:
    """``values``, or what float16 has of them behind a DEQUANTIZE."""
    if kind == "float32" and not always:
        return builder.constant(name, values)
    half = builder.constant(f"{name} half", values.astype(np.float16))
    result = builder.tensor(name, values.shape, DType.FLOAT32)
    builder.operator("DEQUANTIZE", (half,), (result,))
    return result


def _convolution(
    rng: np.random.Generator,
    *,
    op: str,
    shape: Sequence[int],
    weights: Sequence[int],
    made: BuiltinOptions,
    result: Sequence[int],
    kind: str,
    spread: str,
    has_bias: bool = True,
) -> bytes:
    builder = ModelBuilder("half")
    x = builder.input("x", shape, DType.FLOAT32)
    inputs = [x, _constant(builder, "w", _numbers(rng, weights, spread), kind)]
    if has_bias:
        inputs.append(_constant(builder, "b", _numbers(rng, result[-1:], spread), kind))
    y = builder.tensor("y", result, DType.FLOAT32)
    builder.operator(op, inputs, (y,), made)
    builder.output(y)
    return builder.build()


def _inputs(
    name: str, shapes: Sequence[Sequence[int]], spread: str
) -> Callable[[], Sequence[Floats]]:
    rng = generator_of(name + " inputs")
    draw = _ends if spread == "ends" else partial(_numbers, spread=spread)
    return lambda: [draw(rng, shape) for shape in shapes]


def _size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "same" else (size - reach) // stride + 1


def _convolutions() -> Grid:
    geometries = {
        "1x1": (1, 1, 1, 1), "3x3": (3, 3, 1, 1), "5x2": (5, 2, 1, 1), "3x3s2": (3, 3, 2, 1),
        "2x3d2": (2, 3, 1, 2),
    }  # fmt: skip
    channels = ("3to5", "8to16", "17to33", "24to40", "40to8", "65to24", "96to130")

    def make(
        name: str, *, window: str, channels: str, padding: str, weights: str, spread: str
    ) -> Case:
        kh, kw, stride, dilation = geometries[window]
        ic, oc = (int(part) for part in channels.split("to"))
        rng = generator_of(name)
        shape = (int(rng.integers(1, 3)), int(rng.integers(7, 20)), int(rng.integers(6, 23)), ic)
        activation = Activation[str(rng.choice(_ACTIVATIONS))]
        made = options.conv_2d(PADDINGS[padding], stride, stride, dilation, dilation, activation)
        rows, columns = (
            _size(size, k, stride, dilation, padding)
            for size, k in zip(shape[1:3], (kh, kw), strict=True)
        )
        build = partial(
            _convolution, op="CONV_2D", shape=shape, weights=(oc, kh, kw, ic), made=made,
            result=(shape[0], rows, columns, oc), kind=weights,
            spread="plain" if spread == "ends" else spread, has_bias=bool(rng.integers(4)),
        )  # fmt: skip
        given = _inputs(name, [shape], spread)
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.convolution))

    return Grid(
        "Half.Conv/",
        {"window": tuple(geometries), "channels": channels, "padding": tuple(PADDINGS),
         "weights": _WEIGHTS, "spread": (*_SPREADS, "ends")},
        make,
    )  # fmt: skip


def _depthwise() -> Grid:
    def make(
        name: str, *, kernel: int, stride: int, channels: int, multiplier: int, weights: str
    ) -> Case:
        rng = generator_of(name)
        shape = (1, int(rng.integers(7, 20)), int(rng.integers(6, 23)), channels)
        activation = Activation[str(rng.choice(_ACTIVATIONS))]
        made = options.depthwise_conv_2d(
            PADDINGS["same"], stride, stride, 1, 1, activation, multiplier
        )
        rows, columns = (-(-size // stride) for size in shape[1:3])
        outputs = channels * multiplier
        spread = str(rng.choice((*_SPREADS, "ends")))
        build = partial(
            _convolution, op="DEPTHWISE_CONV_2D", shape=shape, made=made, kind=weights,
            weights=(1, kernel, kernel, outputs), result=(1, rows, columns, outputs),
            spread="plain" if spread == "ends" else spread,
        )  # fmt: skip
        given = _inputs(name, [shape], spread)
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.depthwise))

    axes: Axes = {"kernel": (3, 5), "stride": (1, 2),
            "channels": (3, 8, 15, 16, 24, 28, 33, 48, 64, 72, 130), "multiplier": (1, 2),
            "weights": _WEIGHTS}  # fmt: skip
    return Grid("Half.Depthwise/", axes, make)


def _products() -> Grid:
    def make(name: str, *, rows: int, inputs: int, outputs: int, weights: str) -> Case:
        made = options.fully_connected(Activation.NONE)
        build = partial(
            _convolution, op="FULLY_CONNECTED", shape=(rows, inputs), made=made, kind=weights,
            weights=(outputs, inputs), result=(rows, outputs), spread="plain",
        )  # fmt: skip
        given = _inputs(name, [(rows, inputs)], "plain")
        return Case(name, "Half", build, inputs=given, outside=judged_by(half_oracle.dense))

    axes: Axes = {"rows": (1, 3), "inputs": (1, 24, 100, 640, 1280), "outputs": (1, 10, 63, 1001),
            "weights": _WEIGHTS}  # fmt: skip
    return Grid("Half.Product/", axes, make)


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
    )
}


def _maps() -> Grid:
    def build(item: _Map, shape: Sequence[int], activation: str, rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half map")
        names = ("x", "y")[: item.maps]
        inputs = [builder.input(name, shape, DType.FLOAT32) for name in names]
        if item.has_slopes:
            slopes = _numbers(rng, (1, 1, shape[-1]), "plain")
            inputs.append(_constant(builder, "slopes", slopes, "float16"))
        result = builder.tensor("z", shape, DType.FLOAT32)
        table = None if item.options is None else item.options(Activation[activation])
        builder.operator(item.name, inputs, (result,), table)
        builder.output(result)
        return builder.build()

    def make(name: str, *, op: str, shape: str, activation: str, spread: str) -> Case:
        item, size = _MAPS[op], shape_of(shape)
        given = _inputs(name, [size] * item.maps, spread)
        made = partial(build, item, size, activation)
        return Case(name, "Half", made, inputs=given, outside=judged_by(item.judge))

    def is_in(*, op: str, shape: str, activation: str, spread: str) -> bool:
        return activation == "NONE" or _MAPS[op].options is not None

    axes = {
        "op": tuple(_MAPS),
        "shape": ("1x1x1x1", "1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
        "activation": _ACTIVATIONS,
        "spread": (*_SPREADS, "ends"),
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
            inputs.append(builder.constant("y", _numbers(rng, size, "plain")))
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
        given = _inputs(name, computed, spread)
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
        "spread": (*_SPREADS, "ends"),
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
        given = _inputs(name, [size], spread)
        return Case(name, "Half", made, inputs=given, outside=judged_by(half_oracle.leaky))

    axes = {
        "shape": ("1x7x5x3", "2x3x11x33"),
        "alpha": tuple(slopes),
        "spread": (*_SPREADS, "ends"),
    }
    return Grid("Half.Leaky/", axes, make)


def _transposed() -> Grid:
    sizes = {"2x2s2": (2, 2, 2), "3x3s2": (3, 3, 2), "4x4s2": (4, 4, 2), "3x2s1": (3, 2, 1)}

    def build(
        shape: Sequence[int], outputs: int, window: str, padding: str, activation: Activation,
        has_bias: bool, rng: np.random.Generator,
    ) -> bytes:  # fmt: skip
        kh, kw, stride = sizes[window]
        reach = (max(kh - stride, 0), max(kw - stride, 0)) if padding == "valid" else (0, 0)
        rows, columns = (n * stride + more for n, more in zip(shape[1:3], reach, strict=True))
        result = (shape[0], rows, columns, outputs)
        builder = ModelBuilder("half transposed")
        x = builder.input("x", shape, DType.FLOAT32)
        size = builder.constant("size", np.array(result, np.int32))
        weights = _numbers(rng, (outputs, kh, kw, shape[3]), "plain")
        inputs = [size, _constant(builder, "w", weights, "float16"), x]
        if has_bias:
            inputs.append(builder.constant("b", _numbers(rng, (outputs,), "plain")))
        y = builder.tensor("y", result, DType.FLOAT32)
        table = options.of(TransposeConvOptions(PADDINGS[padding], stride, stride, activation))
        builder.operator("TRANSPOSE_CONV", inputs, (y,), table, version=3 if has_bias else 1)
        builder.output(y)
        return builder.build()

    def make(name: str, *, window: str, channels: str, padding: str, spread: str) -> Case:
        inputs, outputs = (int(part) for part in channels.split("to"))
        rng = generator_of(name)
        shape = (int(rng.integers(1, 3)), int(rng.integers(3, 9)), int(rng.integers(3, 11)), inputs)
        activation = Activation[str(rng.choice(_ACTIVATIONS))]
        made = partial(build, shape, outputs, window, padding, activation, bool(rng.integers(2)))
        given = _inputs(name, [shape], spread)
        return Case(name, "Half", made, inputs=given, outside=judged_by(half_oracle.transposed))

    axes = {
        "window": tuple(sizes),
        "channels": ("3to5", "16to1", "17to33", "40to8"),
        "padding": tuple(PADDINGS),
        "spread": (*_SPREADS, "ends"),
    }
    return Grid("Half.Transposed/", axes, make)


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
        given = _inputs(name, [size], spread)
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
        "spread": (*_SPREADS, "ends"),
    }

    def is_in(*, op: str, shape: str, spread: str) -> bool:
        return op in _LARGE_TOO or max(shape_of(shape)[1:3]) <= _LARGE

    return Grid("Half.Pool/", axes, make, is_in)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _convolutions(),
        _depthwise(),
        _products(),
        _maps(),
        _operands(),
        _leaky(),
        _transposed(),
        _pools(),
    )
