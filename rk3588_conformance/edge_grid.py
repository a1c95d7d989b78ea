"""Edges of partitions, which the host converts: float32 and other 8-bit types around quantised
layers, and moves there: detectors' heads, outputs that are parts of one another, inputs with
channels first; alone and with functions behind them.

Values are moved, looked up or rounded once by rule, so all of them have to be equal.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.functions import Kind, same_values
from rk3588_conformance.builder.layers import DEFAULT_ARITHMETIC, Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.grid import EIGHT_BITS, Arrays, Values, model_grid, shape_of

_EDGES = ("float32", *EIGHT_BITS)
_SHAPES = ("1x1x1x1", "1x7x5x3", "1x9x4x16", "2x3x11x33", "1x13x17x70", "3x5", "1x640")
_SCALES = {"1e_minus_30": 1e-30, "0_003": 0.003, "0_5": 0.5, "1": 1.0, "7_3": 7.3}
"""The scales by the words that stand for them in names."""
_VALUES = 4096
_FLOAT32: Kind = (DType.FLOAT32, None)


def _before(net: Net, v: Values) -> Kind:
    if v.before == "float32":
        return _FLOAT32
    kind = Values(type=v.before).dtype
    return kind, net.drawn(kind)


@model_grid(
    "Edges.Shapes/",
    description="edges",
    before=_EDGES,
    shape=_SHAPES,
    type=EIGHT_BITS,
    body=("values", "conv"),
    is_in=lambda v: v.body == "values" or (v.shape.count("x") == 3 and v.shape != "1x1x1x1"),
)
def _shapes(net: Net, v: Values) -> int:
    def convolution(_: ModelBuilder, x: int) -> int:
        """Add a convolution with a stride, so that the host folds pixels into channels."""
        return net.conv(x, 9, Window(3, 3, 2, 2), DEFAULT_ARITHMETIC)

    inner = v.dtype, net.drawn(v.dtype)
    made = convolution if v.body == "conv" else same_values
    before = _before(net, v)
    return net.edged(v.input_shape, inner, before=before, after=_FLOAT32, body=made)


def float_values(scale: float, zero_point: int, dtype: DType) -> npt.NDArray[np.float32]:
    """Every half step of the type's range and beyond, its neighbours in float32, and what no
    rounding expects.
    """
    low, high = LIMITS[dtype]
    halves = np.arange(2 * (low - zero_point) - 40, 2 * (high - zero_point) + 41) / 2
    with np.errstate(over="ignore", under="ignore"):
        steps = (halves * scale).astype(np.float32)
        beside = [np.nextafter(steps, np.float32(end)) for end in (-np.inf, np.inf)]
        odd = np.array(
            [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-39, 3.4e38, -3.4e38,
             *(sign * scale * edge for sign in (1, -1) for edge in
               (2**31, 2**31 - 128, 2**31 + 256, 2**24 + 1, 2**23 + 0.5, 2**32))]
        ).astype(np.float32)  # fmt: skip
    found = np.concatenate([steps, *beside, odd])
    return np.resize(found, _VALUES)


def _scaled(v: Values) -> Quantization:
    low, high = LIMITS[v.dtype]
    zeros = {"low": low, "mid": (low + high + 1) // 2, "odd": low + 37, "high": high}
    return one_scale(_SCALES[v.scale], zeros[v.zero])


def _odd_floats(v: Values) -> Arrays:
    found = _scaled(v)
    return [float_values(found.scale, found.zero_point, v.dtype).reshape(v.input_shape)]


@model_grid(
    "Edges.Float/",
    description="edges",
    input_values=_odd_floats,
    shape="1x8x32x16",
    scale=tuple(_SCALES),
    zero=("low", "mid", "odd", "high"),
)
def _floats(net: Net, v: Values) -> int:
    return net.edged(v.input_shape, (v.dtype, _scaled(v)), before=_FLOAT32, after=_FLOAT32)


@model_grid(
    "Edges.Bytes/",
    description="edges",
    input_values=lambda v: [Values(type=v.before).levels.reshape(v.input_shape)],
    shape="1x1x1x256",
    before=EIGHT_BITS,
    type=EIGHT_BITS,
    draw=tuple(range(12)),
)
def _bytes(net: Net, v: Values) -> int:
    inner = v.dtype, net.drawn(v.dtype)
    return net.edged(v.input_shape, inner, before=_before(net, v))


_MAPS = ("1x1x1x2", "1x5x3x18", "1x7x9x16", "1x1x11x40", "1x13x2x32", "1x6x4x34", "1x3x17x80")
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)

Move = Callable[[Net, int], tuple[int, ...]]


def _channels_first(builder: Net, x: int) -> int:
    """Add the moves of YOLO's heads: (1, C, H * W)."""
    _, h, w, c = builder.spec(x).shape
    return builder.reshape(builder.transpose(x, _FIRST), (1, c, h * w))


def _anchors(builder: Net, x: int) -> tuple[int, ...]:
    """Add the moves of SSD's heads: rows of half the channels."""
    _, h, w, c = builder.spec(x).shape
    return (builder.reshape(x, (1, h * w * 2, c // 2)),)


def _joined(builder: Net, x: int) -> tuple[int, ...]:
    """Two maps one behind the other, channels first."""
    parts = [_channels_first(builder, y) for y in (x, builder.same_values(x))]
    return (builder.concatenation(parts, 2),)


def _boxed(builder: Net, x: int) -> tuple[int, ...]:
    """All but the first channel, channels first."""
    flat = _channels_first(builder, x)
    _, c, pixels = builder.spec(flat).shape
    return (builder.slice_of(flat, (0, 1, 0), (1, c - 1, pixels)),)


_MOVES: dict[str, Move] = {
    "channels_first": lambda builder, x: (_channels_first(builder, x),),
    "anchors": _anchors,
    "joined": _joined,
    # Halves of the channels, first, as outputs of their own.
    "cut": lambda builder, x: builder.split(_channels_first(builder, x), 2, 1),
    "boxed": _boxed,
}


def _task(net: Net, x: int, kind: str) -> int:
    if kind == "values":
        return net.same_values(x)
    return net.conv(x, net.spec(x).shape[3], Window(3, 3), DEFAULT_ARITHMETIC)


def _logistic(net: Net, x: int) -> int:
    low = LIMITS[net.spec(x).dtype][0]
    return net.function("LOGISTIC", (x,), Quantization((1 / 256,), (low,)))


@model_grid(
    "EdgeMoves.Ends/",
    label="Edges moved",
    description="moved edges",
    move=tuple(_MOVES),
    shape=_MAPS,
    type=EIGHT_BITS,
    task=("values", "conv"),
    behind=("nothing", "logistic"),
)
def _ends(net: Net, v: Values) -> list[int]:
    x = net.input("input", v.input_shape, v.dtype, net.drawn(v.dtype))
    results = _MOVES[v.move](net, _task(net, x, v.task))
    return [_logistic(net, y) if v.behind == "logistic" else y for y in results]


@model_grid(
    "EdgeMoves.Begins/",
    label="Edges moved",
    description="moved edges",
    move=("channels_first", "rows"),
    shape=_MAPS,
    type=EIGHT_BITS,
    task=("values", "conv"),
)
def _begins(net: Net, v: Values) -> int:
    is_first, (n, h, w, c) = v.move == "channels_first", shape_of(v.shape)
    given = (n, c, h, w) if is_first else (n, h * w, c)
    x = net.input("input", given, v.dtype, net.drawn(v.dtype))
    x = net.transpose(x, _LAST) if is_first else net.reshape(x, (n, h, w, c))
    return _task(net, x, v.task)
