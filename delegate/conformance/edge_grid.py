"""Edges that the host converts: float32 and other 8-bit types around quantised layers.

Values are moved, looked up or rounded once by rule, so all of them have to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.conformance.builder import layers
from delegate.conformance.builder.host_values import Body, edged_model, same_values
from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import EIGHT_BITS, dtype_of, shape_of, values_of
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE
from delegate.model.graph import DType, Quantization

_EDGES = ("float32", *EIGHT_BITS)
_SHAPES = ("1x1x1x1", "1x7x5x3", "1x9x4x16", "2x3x11x33", "1x13x17x70", "3x5", "1x640")
_SCALES = {"1e_minus_30": 1e-30, "0_003": 0.003, "0_5": 0.5, "1": 1.0, "7_3": 7.3}
"""By the words that stand for them in names."""
_VALUES = 4096


def _edge(kind: str, rng: np.random.Generator) -> tuple[DType, Quantization | None]:
    if kind == "float32":
        return DType.FLOAT32, None
    return dtype_of(kind), draw_quantization(rng, dtype_of(kind))


def _convolution(rng: np.random.Generator) -> Body:
    """With a stride, so that the host folds pixels into channels."""

    def body(builder: ModelBuilder, x: int) -> int:
        return layers.conv(builder, rng, x, 9, Window(3, 3, 2, 2))

    return body


def _shapes() -> Grid:
    def build(before: str, shape: str, type: str, conv: bool, rng: np.random.Generator) -> bytes:
        inner = dtype_of(type), draw_quantization(rng, dtype_of(type))
        body = _convolution(rng) if conv else same_values
        after = (DType.FLOAT32, None)
        edge = _edge(before, rng)
        return edged_model(shape_of(shape), inner, before=edge, after=after, body=body)

    def make(name: str, *, before: str, shape: str, type: str, body: str) -> Case:
        made = partial(build, before, shape, type, body == "conv")
        return Case(name, "Edges", made, differing=NONE)

    def is_in(*, before: str, shape: str, type: str, body: str) -> bool:
        return body == "values" or (shape.count("x") == 3 and shape != "1x1x1x1")

    axes = {"before": _EDGES, "shape": _SHAPES, "type": EIGHT_BITS, "body": ("values", "conv")}
    return Grid("Edges.Shapes/", axes, make, is_in)


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


def _values() -> Grid:
    shape = (1, 8, 32, 16)

    def quantization(scale: str, zero: str, type: str) -> tuple[DType, Quantization]:
        low, high = LIMITS[dtype_of(type)]
        zero_point = {"low": low, "mid": (low + high + 1) // 2, "odd": low + 37, "high": high}
        return dtype_of(type), Quantization(
            (float(np.float32(_SCALES[scale])),), (zero_point[zero],)
        )

    def build(scale: str, zero: str, type: str, rng: np.random.Generator) -> bytes:
        inner = quantization(scale, zero, type)
        float32 = (DType.FLOAT32, None)
        return edged_model(shape, inner, before=float32, after=float32)

    def inputs(scale: str, zero: str, type: str) -> Sequence[npt.NDArray[np.generic]]:
        dtype, found = quantization(scale, zero, type)
        return [float_values(found.scale, found.zero_point, dtype).reshape(shape)]

    def make(name: str, *, scale: str, zero: str, type: str) -> Case:
        made, given = partial(build, scale, zero, type), partial(inputs, scale, zero, type)
        return Case(name, "Edges", made, differing=NONE, inputs=given)

    axes = {"scale": tuple(_SCALES), "zero": ("low", "mid", "odd", "high"), "type": EIGHT_BITS}
    return Grid("Edges.Float/", axes, make)


def _bytes() -> Grid:
    shape = (1, 1, 1, 256)

    def build(before: str, type: str, rng: np.random.Generator) -> bytes:
        inner = dtype_of(type), draw_quantization(rng, dtype_of(type))
        return edged_model(shape, inner, before=_edge(before, rng))

    def inputs(before: str) -> Sequence[npt.NDArray[np.generic]]:
        return [values_of(dtype_of(before)).reshape(shape)]

    def make(name: str, *, before: str, type: str, draw: int) -> Case:
        made, given = partial(build, before, type), partial(inputs, before)
        return Case(name, "Edges", made, differing=NONE, inputs=given)

    return Grid(
        "Edges.Bytes/", {"before": EIGHT_BITS, "type": EIGHT_BITS, "draw": tuple(range(12))}, make
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_shapes(), _values(), _bytes())
