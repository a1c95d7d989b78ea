"""Resizing: factors, conventions, channels around the surfaces."""

from __future__ import annotations

import numpy as np

from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import resize
from rk3588_conformance.case import Family
from rk3588_conformance.grid import Value
from rk3588_conformance.own_grid import EIGHT_BITS, layer_grid, pair
from rk3588_conformance.tolerance import NONE, RESIZED, TWO_ROUNDINGS

_CONVENTIONS = {"corner": (False, False), "aligned": (True, False), "centre": (False, True)}


@layer_grid(
    "ResizeNearest.Op/",
    differing=NONE,
    # With aligned corners pixels are repeated alike by a factor of 2, or if there is one.
    is_in=lambda factor, convention, size, **_: (
        convention != "aligned" or factor == "2x2" or size == "1x1"
    ),
    factor=("1x1", "2x2", "3x3", "1x2", "2x1", "4x7", "8x5"),
    convention=tuple(_CONVENTIONS),
    size=("1x1", "7x5", "1x13", "20x20"),
    channels=(1, 15, 16, 17, 33, 48, 64, 130),
    images=(1, 2),
    type=EIGHT_BITS,
)
def _nearest(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, factor: str, convention: str,
    size: str, **__: Value,
) -> int:  # fmt: skip
    (h, w), (rows, columns) = pair(size), pair(factor)
    table = ResizeNearestOptions(*_CONVENTIONS[convention])
    return resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, h * rows, w * columns, table)


@layer_grid(
    "ResizeNearestAny.Op/",
    differing=NONE,
    size=("4x5", "9x7", "1x13", "16x16"),
    to=("7x7", "3x2", "9x20", "12x12", "1x1"),
    convention=(*_CONVENTIONS, "both"),
    channels=(1, 16, 17, 33, 64),
    type=EIGHT_BITS,
)
def _nearest_any(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, to: str, convention: str, **__: Value
) -> int:
    """Add sizes that are no multiples."""
    table = ResizeNearestOptions(*_CONVENTIONS.get(convention, (True, True)))
    return resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, *pair(to), table)


def _multiplied(size: str, factor: str, convention: str) -> list[int]:
    """Return rows and columns of ``size`` enlarged; with corners aligned the pixels between."""
    aligned = _CONVENTIONS[convention][0]
    return [n * f - aligned * (f - 1) for n, f in zip(pair(size), pair(factor), strict=True)]


def _enlarged(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, factor: str, convention: str,
    size: str, **__: Value,
) -> int:  # fmt: skip
    """Add a bilinear resizing by ``factor``."""
    rows, columns = _multiplied(size, factor, convention)
    table = ResizeBilinearOptions(*_CONVENTIONS[convention])
    return resize(builder, "RESIZE_BILINEAR", x, rows, columns, table)


_bilinear = layer_grid(
    "ResizeBilinear.Op/",
    differing=NONE,
    factor=("1x1", "2x2", "1x2", "2x1", "4x4", "2x4", "4x1", "8x2", "1x8"),
    convention=tuple(_CONVENTIONS),
    size=("1x1", "7x5", "1x13", "20x20"),
    channels=(1, 16, 17, 33, 48, 64),
    images=(1, 2),
    type=EIGHT_BITS,
)(_enlarged)


_bilinear_whole = layer_grid(
    "ResizeBilinearWhole.Op/",
    differing=RESIZED,
    # Positions in fixed point, of int8, are a step off after a few rows.
    is_in=lambda size, type, **_: type == "uint8" or size in ("1x1", "1x2"),
    factor=("3x3", "5x3", "3x1", "1x6", "2x3", "12x1"),
    convention=tuple(_CONVENTIONS),
    size=("1x1", "1x2", "7x5", "20x20"),
    channels=(1, 16, 17, 64),
    images=(1, 2),
    type=EIGHT_BITS,
)(_enlarged)


_bilinear_passes = layer_grid(
    "ResizeBilinearPasses.Op/",
    differing=TWO_ROUNDINGS,
    factor=("8x8", "8x16", "32x4", "16x8"),
    convention=tuple(_CONVENTIONS),
    size=("1x1", "1x3", "4x3"),
    channels=(1, 16, 21, 64, 130),
    images=(1, 2),
    type=EIGHT_BITS,
)(_enlarged)


@layer_grid(
    "ResizeBilinearPart.Op/",
    differing=NONE,
    input_shape=lambda size, factor, convention, channels, images, **_: (
        images, *_multiplied(size, factor, convention), channels,
    ),
    factor=("2x2", "3x3", "4x4", "7x7"),
    convention=tuple(_CONVENTIONS),
    size=("1x1", "3x2", "8x5"),
    channels=(1, 16, 17, 64, 130),
    images=(1, 2),
    type=EIGHT_BITS,
)  # fmt: skip
def _bilinear_part(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, convention: str, size: str,
    **__: Value,
) -> int:  # fmt: skip
    table = ResizeBilinearOptions(*_CONVENTIONS[convention])
    return resize(builder, "RESIZE_BILINEAR", x, *pair(size), table)


FAMILIES: tuple[Family, ...] = (
    _nearest,
    _nearest_any,
    _bilinear,
    _bilinear_whole,
    _bilinear_passes,
    _bilinear_part,
)
