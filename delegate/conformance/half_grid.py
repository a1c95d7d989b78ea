"""Float models in fp16: convolutions, matrix products and maps, within their bounds for every
element; ordinary and extreme magnitudes, weights as float32 and as float16 behind DEQUANTIZE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.case import Case, Family, generator_of
from delegate.conformance.grid import Axes, Grid
from delegate.conformance.half_oracle import outside
from delegate.conformance.own_grid import PADDINGS, shape_of
from delegate.model.graph import Activation, DType

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
        return Case(name, "Half", build, inputs=given, outside=outside)

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
        return Case(name, "Half", build, inputs=given, outside=outside)

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
        return Case(name, "Half", build, inputs=given, outside=outside)

    axes: Axes = {"rows": (1, 3), "inputs": (1, 24, 100, 640, 1280), "outputs": (1, 10, 63, 1001),
            "weights": _WEIGHTS}  # fmt: skip
    return Grid("Half.Product/", axes, make)


_MAPS = {
    "ADD": options.add, "SUB": options.sub, "MUL": options.mul, "MAXIMUM": None, "MINIMUM": None,
    "RELU": None, "RELU6": None, "PRELU": None,
}  # fmt: skip
_OF_ONE = ("RELU", "RELU6", "PRELU")


def _maps() -> Grid:
    def build(op: str, shape: Sequence[int], activation: str, rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half map")
        inputs = [builder.input("x", shape, DType.FLOAT32)]
        if op == "PRELU":
            slopes = _numbers(rng, (1, 1, shape[-1]), "plain")
            inputs.append(_constant(builder, "slopes", slopes, "float16"))
        elif op not in _OF_ONE:
            inputs.append(builder.input("y", shape, DType.FLOAT32))
        result = builder.tensor("z", shape, DType.FLOAT32)
        made = _MAPS[op]
        table = None if made is None else made(Activation[activation])
        builder.operator(op, inputs, (result,), table)
        builder.output(result)
        return builder.build()

    def make(name: str, *, op: str, shape: str, activation: str, spread: str) -> Case:
        size = shape_of(shape)
        given = _inputs(name, [size] * (1 if op in _OF_ONE else 2), spread)
        made = partial(build, op, size, activation)
        return Case(name, "Half", made, inputs=given, outside=outside)

    def is_in(*, op: str, shape: str, activation: str, spread: str) -> bool:
        return activation == "NONE" or _MAPS[op] is not None

    axes = {
        "op": tuple(_MAPS),
        "shape": ("1x1x1x1", "1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
        "activation": _ACTIVATIONS,
        "spread": (*_SPREADS, "ends"),
    }
    return Grid("Half.Map/", axes, make, is_in)


def _pools() -> Grid:
    """Maxima, means and added channels."""

    def build(op: str, shape: Sequence[int], rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half pool")
        inputs = [builder.input("x", shape, DType.FLOAT32)]
        images, height, width, channels = shape
        result: Sequence[int]
        if op == "PAD":
            amounts = np.array([[0, 0], [0, 0], [0, 0], rng.integers(0, 20, 2)], np.int32)
            inputs.append(builder.constant("amounts", amounts))
            result = (images, height, width, channels + int(amounts.sum()))
            table = options.empty()
        elif op == "MEAN":
            inputs.append(builder.constant("axes", np.array([1, 2], np.int32)))
            result, table = (images, 1, 1, channels), options.reducer(True)
        elif op == "MAX_POOL_2D":
            table = options.pool_2d(PADDINGS["valid"], 2, 2, 2, 2)
            result = (images, height // 2, width // 2, channels)
        else:
            size, stride = (2, 3), (1, 2)
            table = options.pool_2d(PADDINGS["valid"], *stride, *size, Activation.RELU)
            result = (images, height - 1, (width - 3) // 2 + 1, channels)
        y = builder.tensor("y", result, DType.FLOAT32)
        builder.operator(op, inputs, (y,), table)
        builder.output(y)
        return builder.build()

    def make(name: str, *, op: str, shape: str, spread: str) -> Case:
        size = shape_of(shape)
        given = _inputs(name, [size], spread)
        return Case(name, "Half", partial(build, op, size), inputs=given, outside=outside)

    axes = {
        "op": ("PAD", "MEAN", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
        "shape": ("1x2x4x1", "1x7x6x3", "1x13x18x16", "2x4x12x33", "1x9x4x130", "1x31x8x24"),
        "spread": (*_SPREADS, "ends"),
    }
    return Grid("Half.Pool/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_convolutions(), _depthwise(), _products(), _maps(), _pools())
