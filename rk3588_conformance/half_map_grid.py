"""Operators of maps in fp16: element by element, over windows and to other sizes, within their
bounds for every element.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from delegate.model.graph import Activation, Padding
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.grid import PADDINGS, Values
from rk3588_conformance.half_grid import (
    ACTIVATIONS,
    SPREADS,
    Constants,
    HalfLayer,
    constant,
    half_grid,
    numbers,
)

Shape = Sequence[int]


def _none(_: Activation) -> None:
    return None


def _slopes(shape: Shape) -> Constants:
    return lambda net: (
        constant(net, "slopes", numbers(net.rng, (1, 1, shape[-1]), "plain"), "float16"),
    )


@dataclass(frozen=True, slots=True)
class _Map:
    """An operator of one map, or of two; ``options``: its table, for an activation;
    ``others``: operands of other shapes that it takes.
    """

    name: str
    maps: int = 2
    has_slopes: bool = False
    options: Callable[[Activation], Options | None] = _none
    others: tuple[str, ...] = ()


_SUMMANDS = ("number", "channels", "rows", "whole", "columns")
_ENDS = ("number", "channels", "whole")
_MAPS = {
    item.name: item
    for item in (
        _Map("ADD", options=AddOptions, others=_SUMMANDS),
        _Map("SUB", options=SubOptions, others=_SUMMANDS),
        _Map("MUL", options=MulOptions, others=(*_SUMMANDS, "pixel", "pixels")),
        _Map("SQUARED_DIFFERENCE", others=("rows",)),
        _Map("MAXIMUM", others=_ENDS),
        _Map("MINIMUM", others=_ENDS),
        _Map("ABS", 1),
        _Map("NEG", 1),
        _Map("SQUARE", 1),
        _Map("RELU", 1),
        _Map("RELU6", 1),
        _Map("PRELU", 1, has_slopes=True),
        _Map("HARD_SWISH", 1),
        _Map("LOGISTIC", 1),
        _Map("TANH", 1),
    )
}


@half_grid(
    "Half.Map/",
    op=tuple(_MAPS),
    shape=("1x1x1x1", "1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
    activation=ACTIVATIONS,
    spread=SPREADS,
    is_in=lambda v: v.activation == "NONE" or _MAPS[v.op].options is not _none,
)
def _maps(v: Values, _: np.random.Generator) -> HalfLayer:
    item, size = _MAPS[v.op], v.input_shape
    constants = _slopes(size) if item.has_slopes else lambda _: ()
    return HalfLayer(v.op, [size] * item.maps, size, item.options(v.clamp), constants)


_OPERANDS: dict[str, Callable[[Shape], Shape]] = {
    "number": lambda _: (),
    "channels": lambda shape: shape[-1:],
    "pixel": lambda shape: (1, 1, 1, shape[-1]),
    "pixels": lambda shape: (shape[0], 1, 1, shape[-1]),
    "rows": lambda shape: (*shape[:-1], 1),
    "whole": lambda shape: (1, *shape[1:]),
    "columns": lambda shape: (shape[-2], 1),
}
"""Shapes that meet a map's. Pixels, and one channel of each, are computed, others constant."""
_COMPUTED = ("pixel", "pixels", "rows")


def _meets(v: Values) -> bool:
    """Return whether the operator takes such an operand, and the activation."""
    item = _MAPS[v.op]
    return v.other in item.others and (v.activation == "NONE" or item.options is not _none)


@half_grid(
    "Half.Operand/",
    op=("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM"),
    shape=("1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
    other=tuple(_OPERANDS),
    place=("first", "second"),
    activation=("NONE", "RELU6"),
    spread=SPREADS,
    is_in=_meets,
)
def _operands(v: Values, _: np.random.Generator) -> HalfLayer:
    """Operators of a map and of what is broadcast to it."""
    size, is_computed = v.input_shape, v.other in _COMPUTED
    smaller = _OPERANDS[v.other](size)
    return HalfLayer(
        v.op, [size, smaller] if is_computed else [size], size, _MAPS[v.op].options(v.clamp),
        lambda net: (
            () if is_computed else (net.constant("y", numbers(net.rng, smaller, "plain")),)
        ),
        arrange=lambda x, y: (y, x) if v.place == "first" else (x, y),
    )  # fmt: skip


@half_grid(
    "Half.Gelu/",
    shape=("1x7x5x3", "2x3x11x33", "1x9x4x130"),
    form=("exact", "tanh"),
    spread=SPREADS,
)
def _gelu(v: Values, _: np.random.Generator) -> HalfLayer:
    return HalfLayer("GELU", [v.input_shape], v.input_shape, GeluOptions(v.form == "tanh"))


@half_grid(
    "Half.Outer/",
    shape=("1x7x5x3", "2x3x11x33", "1x9x4x130"),
    activation=("NONE", "RELU6"),
    place=("first", "second"),
    spread=SPREADS,
)
def _outer(v: Values, _: np.random.Generator) -> HalfLayer:
    """A product of one channel with a constant of several."""
    size = v.input_shape
    return HalfLayer(
        "MUL", [(*size[:-1], 1)], size, MulOptions(v.clamp),
        lambda net: (net.constant("y", numbers(net.rng, size[-1:], "plain")),),
        arrange=lambda x, y: (y, x) if v.place == "first" else (x, y),
    )  # fmt: skip


_ALPHAS = {"0p3": 0.3, "0": 0.0, "minus2p7": -2.7, "0p0001": 0.0001}


@half_grid("Half.Leaky/", shape=("1x7x5x3", "2x3x11x33"), alpha=tuple(_ALPHAS), spread=SPREADS)
def _leaky(v: Values, _: np.random.Generator) -> HalfLayer:
    table = LeakyReluOptions(_ALPHAS[v.alpha])
    return HalfLayer("LEAKY_RELU", [v.input_shape], v.input_shape, table)


def _with_numbers(
    op: str, shape: Shape, own: object, result: Shape, table: Options | None = None
) -> HalfLayer:
    """An operator of one map and of a constant, int32."""
    numbers = np.array(own, np.int32)
    constants: Constants = lambda net: (net.constant("constant", numbers),)  # noqa: E731
    return HalfLayer(op, [shape], result, table, constants)


def _padded(shape: Shape, rng: np.random.Generator) -> HalfLayer:
    more = rng.integers(0, 20, 2)
    amounts = [[0, 0], [0, 0], [0, 0], more]
    return _with_numbers("PAD", shape, amounts, (*shape[:3], shape[3] + int(more.sum())))


def _reduced(op: str, shape: Shape, _: np.random.Generator) -> HalfLayer:
    return _with_numbers(op, shape, [1, 2], (shape[0], 1, 1, shape[3]), ReducerOptions(True))


def _row_mean(shape: Shape, _: np.random.Generator) -> HalfLayer:
    return _with_numbers("MEAN", shape, [-1], (*shape[:-1], 1), ReducerOptions(True))


def _pooled(
    op: str, shape: Shape, window: Window, activation: Activation = Activation.NONE
) -> HalfLayer:
    images, height, width, channels = shape
    table = PoolOptions(window.padding, window.sw, window.sh, window.kw, window.kh, activation)
    result = (images, *window.output_size(height, width), channels)
    return HalfLayer(op, [shape], result, table)


def _maxima(shape: Shape, _: np.random.Generator) -> HalfLayer:
    return _pooled("MAX_POOL_2D", shape, Window(2, 2, 2, 2, padding=Padding.VALID))


_LARGE = 31
_LARGE_TOO = ("MEAN", "AVERAGE_POOL_2D")
"""Operators whose windows are larger than a kernel may be."""


def _averages(shape: Shape, _: np.random.Generator) -> HalfLayer:
    size, stride = (2, 3), (1, 2)
    if max(shape[1:3]) > _LARGE:  # as squeeze-and-excite has it
        size = stride = (shape[1], shape[2])
    window = Window(*size, *stride, padding=Padding.VALID)
    return _pooled("AVERAGE_POOL_2D", shape, window, Activation.RELU)


def _doubled(aligned: bool, centres: bool, shape: Shape, _: np.random.Generator) -> HalfLayer:
    """RESIZE_BILINEAR with corners aligned, or centres at halves, or neither."""
    images, *sizes, channels = shape
    sides = [2 * size - aligned for size in sizes]
    table = ResizeBilinearOptions(aligned, centres)
    return _with_numbers("RESIZE_BILINEAR", shape, sides, (images, *sides, channels), table)


_POOLS: tuple[tuple[str, Callable[[Shape, np.random.Generator], HalfLayer]], ...] = (
    ("PAD", _padded),
    ("MEAN", partial(_reduced, "MEAN")),
    ("row_mean", _row_mean),
    ("REDUCE_MAX", partial(_reduced, "REDUCE_MAX")),
    ("MAX_POOL_2D", _maxima),
    ("AVERAGE_POOL_2D", _averages),
    ("bilinear_aligned", partial(_doubled, True, False)),
    ("bilinear_centres", partial(_doubled, False, True)),
    ("bilinear_plain", partial(_doubled, False, False)),
)


@half_grid(
    "Half.Pool/",
    op=tuple(name for name, _ in _POOLS),
    shape=(
        "1x2x4x1", "1x7x6x3", "1x13x18x16", "2x4x12x33", "1x9x4x130", "1x31x8x24", "1x64x32x16",
        "2x33x62x33", "1x128x128x8",
    ),
    spread=SPREADS,
    is_in=lambda v: v.op in _LARGE_TOO or max(v.input_shape[1:3]) <= _LARGE,
)  # fmt: skip
def _pools(v: Values, rng: np.random.Generator) -> HalfLayer:
    """Maxima, means and added channels."""
    return dict(_POOLS)[v.op](v.input_shape, rng)


_WINDOWS = {
    "2x2s1": (2, 2, 1, 1), "3x3s1": (3, 3, 1, 1), "3x3s2": (3, 3, 2, 2), "2x3s2": (2, 3, 2, 1),
    "5x5s1": (5, 5, 1, 1), "4x1s3": (4, 1, 3, 2), "7x7s4": (7, 7, 4, 4), "9x3s2": (9, 3, 2, 2),
}  # fmt: skip
"""Rows, columns, and the strides of both."""
_WINDOW_POOLS = {
    "largest": ("MAX_POOL_2D", (Activation.NONE,)),
    "average": ("AVERAGE_POOL_2D", (Activation.NONE, Activation.RELU)),
}


def _is_covered(v: Values) -> bool:
    height, width = v.input_shape[1:3]
    rows, columns = _WINDOWS[v.window][:2]
    return v.padding == "same" or (rows <= height and columns <= width)


@half_grid(
    "Half.Window/",
    op=tuple(_WINDOW_POOLS),
    window=tuple(_WINDOWS),
    padding=tuple(PADDINGS),
    shape=("1x7x6x3", "1x13x18x16", "2x5x12x33", "1x9x4x130", "1x31x9x8", "1x4x5x24"),
    spread=SPREADS,
    is_in=_is_covered,
)
def _windows(v: Values, rng: np.random.Generator) -> HalfLayer:
    """Pools whose windows overlap, or reach beyond the image."""
    operator, clamps = _WINDOW_POOLS[v.op]
    clamp = clamps[int(rng.integers(len(clamps)))]
    window = Window(*_WINDOWS[v.window], padding=PADDINGS[v.padding])
    return _pooled(operator, v.input_shape, window, clamp)
