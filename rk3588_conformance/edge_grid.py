"""Edges that the host converts: float32 and other 8-bit types around quantised layers.

Values are moved, looked up or rounded once by rule, so all of them have to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import layers
from rk3588_conformance.builder.functions import edged_model, same_values
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.ranges import LIMITS, one_scale
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grid
from rk3588_conformance.own_grid import EIGHT_BITS, dtype_of, shape_of, values_of
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE

_EDGES = ("float32", *EIGHT_BITS)
_SHAPES = ("1x1x1x1", "1x7x5x3", "1x9x4x16", "2x3x11x33", "1x13x17x70", "3x5", "1x640")
_SCALES = {"1e_minus_30": 1e-30, "0_003": 0.003, "0_5": 0.5, "1": 1.0, "7_3": 7.3}
"""The scales by the words that stand for them in names."""
_VALUES = 4096


_FLOAT32: tuple[DType, None] = (DType.FLOAT32, None)


def _edge(kind: str, rng: np.random.Generator) -> tuple[DType, Quantization | None]:
    if kind == "float32":
        return _FLOAT32
    return dtype_of(kind), draw_quantization(rng, dtype_of(kind))


def _convolution(builder: ModelBuilder, x: int, rng: np.random.Generator) -> int:
    """Add a convolution with a stride, so that the host folds pixels into channels."""
    return layers.conv(builder, rng, x, 9, Window(3, 3, 2, 2))


@grid(
    "Edges.Shapes/",
    before=_EDGES,
    shape=_SHAPES,
    type=EIGHT_BITS,
    body=("values", "conv"),
    is_in=lambda shape, body, **_: (
        body == "values" or (shape.count("x") == 3 and shape != "1x1x1x1")
    ),
)
def _shapes(name: str, *, before: str, shape: str, type: str, body: str) -> Case:
    def build(rng: np.random.Generator) -> bytes:
        inner = dtype_of(type), draw_quantization(rng, dtype_of(type))
        made = partial(_convolution, rng=rng) if body == "conv" else same_values
        edge = _edge(before, rng)
        return edged_model(shape_of(shape), inner, before=edge, after=_FLOAT32, body=made)

    return Case(name, "Edges", build, differing=NONE)


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


@grid("Edges.Float/", scale=tuple(_SCALES), zero=("low", "mid", "odd", "high"), type=EIGHT_BITS)
def _values(name: str, *, scale: str, zero: str, type: str) -> Case:
    shape, dtype = (1, 8, 32, 16), dtype_of(type)
    low, high = LIMITS[dtype]
    zero_point = {"low": low, "mid": (low + high + 1) // 2, "odd": low + 37, "high": high}[zero]
    found = one_scale(_SCALES[scale], zero_point)

    def build(_: np.random.Generator) -> bytes:
        return edged_model(shape, (dtype, found), before=_FLOAT32, after=_FLOAT32)

    def inputs() -> Sequence[npt.NDArray[np.generic]]:
        return [float_values(found.scale, found.zero_point, dtype).reshape(shape)]

    return Case(name, "Edges", build, differing=NONE, inputs=inputs)


@grid("Edges.Bytes/", before=EIGHT_BITS, type=EIGHT_BITS, draw=tuple(range(12)))
def _bytes(name: str, *, before: str, type: str, draw: int) -> Case:
    shape = (1, 1, 1, 256)

    def build(rng: np.random.Generator) -> bytes:
        inner = dtype_of(type), draw_quantization(rng, dtype_of(type))
        return edged_model(shape, inner, before=_edge(before, rng))

    def inputs() -> Sequence[npt.NDArray[np.generic]]:
        return [values_of(dtype_of(before)).reshape(shape)]

    return Case(name, "Edges", build, differing=NONE, inputs=inputs)


FAMILIES: tuple[Family, ...] = (_shapes, _values, _bytes)
