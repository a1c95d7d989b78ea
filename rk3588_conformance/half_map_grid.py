"""Operators of maps in fp16: element by element, over windows and to other sizes, within their
bounds for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, Padding
from delegate.model.operator_options import Options
from delegate.ops.add import AddOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.case import Case, Family, generator_of
from rk3588_conformance.grid import Value, grid
from rk3588_conformance.half_case import Constants, operator_case
from rk3588_conformance.half_values import ACTIVATIONS, SPREADS, constant, numbers
from rk3588_conformance.own_grid import PADDINGS, shape_of

_SPREADS = (*SPREADS, "ends")


def _none(_: Activation) -> None:
    return None


@dataclass(frozen=True, slots=True)
class _Map:
    """An operator of one map, or of two; ``options``: its table, for an activation. ``takes_any``:
    either operand may be broadcast, computed too.
    """

    name: str
    maps: int = 2
    has_slopes: bool = False
    options: Callable[[Activation], Options | None] = _none
    takes_any: bool = False


_MAPS = {
    item.name: item
    for item in (
        _Map("ADD", options=AddOptions),
        _Map("SUB", options=SubOptions),
        _Map("MUL", options=MulOptions, takes_any=True),
        _Map("MAXIMUM"),
        _Map("MINIMUM"),
        _Map("RELU", 1),
        _Map("RELU6", 1),
        _Map("PRELU", 1, has_slopes=True),
        _Map("HARD_SWISH", 1),
        _Map("LOGISTIC", 1),
        _Map("TANH", 1),
    )
}


def _slopes(shape: Sequence[int]) -> Constants:
    return lambda builder, rng: (
        constant(builder, "slopes", numbers(rng, (1, 1, shape[-1]), "plain"), "float16"),
    )


@grid(
    "Half.Map/",
    op=tuple(_MAPS),
    shape=("1x1x1x1", "1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
    activation=ACTIVATIONS,
    spread=_SPREADS,
    is_in=lambda op, activation, **_: activation == "NONE" or _MAPS[op].options is not _none,
)
def _maps(name: str, *, op: str, shape: str, activation: str, spread: str) -> Case:
    item, size = _MAPS[op], shape_of(shape)
    constants = _slopes(size) if item.has_slopes else lambda *_: ()
    table = item.options(Activation[activation])
    shapes = [size] * item.maps
    return operator_case(name, op, shapes, size, table, spread, constants=constants)


_OPERANDS: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "number": lambda _: (),
    "channels": lambda shape: shape[-1:],
    "pixel": lambda shape: (1, 1, 1, shape[-1]),
    "pixels": lambda shape: (shape[0], 1, 1, shape[-1]),
}
"""Shapes that meet a map's. Pixels are computed, others constant."""


@grid(
    "Half.Operand/",
    op=("ADD", "SUB", "MUL"),
    shape=("1x7x5x3", "1x13x17x16", "2x3x11x33", "1x9x4x130"),
    other=tuple(_OPERANDS),
    place=("first", "second"),
    activation=("NONE", "RELU6"),
    spread=_SPREADS,
    is_in=lambda op, other, place, **_: (
        _MAPS[op].takes_any or (place == "second" and not other.startswith("pixel"))
    ),
)
def _operands(
    name: str, *, op: str, shape: str, other: str, place: str, activation: str, spread: str
) -> Case:
    """Operators of a map and of what is broadcast to it."""
    size, is_computed = shape_of(shape), other.startswith("pixel")
    smaller = _OPERANDS[other](size)
    return operator_case(
        name, op, [size, smaller] if is_computed else [size], size,
        _MAPS[op].options(Activation[activation]), spread,
        constants=lambda builder, rng: (
            () if is_computed else (builder.constant("y", numbers(rng, smaller, "plain")),)
        ),
        arrange=lambda x, y: (y, x) if place == "first" else (x, y),
    )  # fmt: skip


_ALPHAS = {"0p3": 0.3, "0": 0.0, "minus2p7": -2.7, "0p0001": 0.0001}


@grid("Half.Leaky/", shape=("1x7x5x3", "2x3x11x33"), alpha=tuple(_ALPHAS), spread=_SPREADS)
def _leaky(name: str, *, shape: str, alpha: str, spread: str) -> Case:
    size, table = shape_of(shape), LeakyReluOptions(_ALPHAS[alpha])
    return operator_case(name, "LEAKY_RELU", [size], size, table, spread)


class _Reduced(NamedTuple):
    """An operator of one map: a constant of its own, its result and its options."""

    constant: npt.NDArray[np.int32] | None
    shape: Sequence[int]
    options: Options | None


def _padded(shape: Sequence[int], rng: np.random.Generator) -> _Reduced:
    amounts = np.array([[0, 0], [0, 0], [0, 0], rng.integers(0, 20, 2)], np.int32)
    wider = (*shape[:3], shape[3] + int(amounts.sum()))
    return _Reduced(amounts, wider, None)


def _mean(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    axes = np.array([1, 2], np.int32)
    return _Reduced(axes, (shape[0], 1, 1, shape[3]), ReducerOptions(True))


def _pooled(
    shape: Sequence[int], window: Window, activation: Activation = Activation.NONE
) -> _Reduced:
    images, height, width, channels = shape
    table = PoolOptions(window.padding, window.sw, window.sh, window.kw, window.kh, activation)
    return _Reduced(None, (images, *window.output_size(height, width), channels), table)


def _maxima(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    return _pooled(shape, Window(2, 2, 2, 2, padding=Padding.VALID))


_LARGE = 31
_LARGE_TOO = ("MEAN", "AVERAGE_POOL_2D")
"""Operators whose windows are larger than a kernel may be."""


def _averages(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
    size, stride = (2, 3), (1, 2)
    if max(shape[1:3]) > _LARGE:  # as squeeze-and-excite has it
        size = stride = (shape[1], shape[2])
    return _pooled(shape, Window(*size, *stride, padding=Padding.VALID), Activation.RELU)


def _doubled(*sides: bool) -> Callable[..., _Reduced]:
    """RESIZE_BILINEAR with corners aligned, or centres at halves, or neither."""

    def reduce(shape: Sequence[int], _: np.random.Generator) -> _Reduced:
        images, *sizes, channels = shape
        rows, columns = (2 * size - sides[0] for size in sizes)
        table = ResizeBilinearOptions(*sides)
        return _Reduced(
            np.array([rows, columns], np.int32), (images, rows, columns, channels), table
        )

    return reduce


class _Pool(NamedTuple):
    """An operator of one map that makes another shape of it. ``name``:
    in cases, if not the operator's.
    """

    op: str
    reduce: Callable[[Sequence[int], np.random.Generator], _Reduced]
    name: str = ""


_POOLS = {
    item.name or item.op: item
    for item in (
        _Pool("PAD", _padded),
        _Pool("MEAN", _mean),
        _Pool("REDUCE_MAX", _mean),
        _Pool("MAX_POOL_2D", _maxima),
        _Pool("AVERAGE_POOL_2D", _averages),
        *(
            _Pool("RESIZE_BILINEAR", _doubled(*sides), f"bilinear_{name}")
            for name, sides in (
                ("aligned", (True, False)), ("centres", (False, True)), ("plain", (False, False)),
            )
        ),
    )
}  # fmt: skip


@grid(
    "Half.Pool/",
    op=tuple(_POOLS),
    shape=(
        "1x2x4x1", "1x7x6x3", "1x13x18x16", "2x4x12x33", "1x9x4x130", "1x31x8x24", "1x64x32x16",
        "2x33x62x33", "1x128x128x8",
    ),
    spread=_SPREADS,
    is_in=lambda op, shape, **_: op in _LARGE_TOO or max(shape_of(shape)[1:3]) <= _LARGE,
)  # fmt: skip
def _pools(name: str, *, op: str, shape: str, spread: str) -> Case:
    """Maxima, means and added channels."""
    pool, size = _POOLS[op], shape_of(shape)
    own, result, table = pool.reduce(size, generator_of(name))
    return operator_case(
        name, pool.op, [size], result, table, spread,
        constants=lambda builder, _: () if own is None else (builder.constant("constant", own),),
    )  # fmt: skip


_WINDOWS = {
    "2x2s1": (2, 2, 1, 1), "3x3s1": (3, 3, 1, 1), "3x3s2": (3, 3, 2, 2), "2x3s2": (2, 3, 2, 1),
    "5x5s1": (5, 5, 1, 1), "4x1s3": (4, 1, 3, 2), "7x7s4": (7, 7, 4, 4), "9x3s2": (9, 3, 2, 2),
}  # fmt: skip
"""Rows, columns, and the strides of both."""
_WINDOW_POOLS = {
    "largest": ("MAX_POOL_2D", (Activation.NONE,)),
    "average": ("AVERAGE_POOL_2D", (Activation.NONE, Activation.RELU)),
}


def _is_covered(*, window: str, padding: str, shape: str, **_: Value) -> bool:
    height, width = shape_of(shape)[1:3]
    rows, columns = _WINDOWS[window][:2]
    return padding == "same" or (rows <= height and columns <= width)


@grid(
    "Half.Window/",
    op=tuple(_WINDOW_POOLS),
    window=tuple(_WINDOWS),
    padding=tuple(PADDINGS),
    shape=("1x7x6x3", "1x13x18x16", "2x5x12x33", "1x9x4x130", "1x31x9x8", "1x4x5x24"),
    spread=_SPREADS,
    is_in=_is_covered,
)
def _windows(name: str, *, op: str, window: str, padding: str, shape: str, spread: str) -> Case:
    """Pools whose windows overlap, or reach beyond the image."""
    operator, clamps = _WINDOW_POOLS[op]
    clamp = clamps[int(generator_of(name).integers(len(clamps)))]
    size = shape_of(shape)
    _, result, table = _pooled(size, Window(*_WINDOWS[window], padding=PADDINGS[padding]), clamp)
    return operator_case(name, operator, [size], result, table, spread)


FAMILIES: tuple[Family, ...] = (_maps, _operands, _leaky, _pools, _windows)
