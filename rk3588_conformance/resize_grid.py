"""Resizing: factors, conventions, channels around the surfaces."""

from typing import Any

import numpy as np

from delegate.ops.resize_bilinear import ResizeBilinearOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.grid import MOVED_TYPES, Grid, Values, layer_grid, pair
from rk3588_conformance.tolerance import NONE, RESIZED, TWO_ROUNDINGS

_CONVENTIONS = {
    "corner": (False, False), "aligned": (True, False), "centre": (False, True),
    "both": (True, True),
}  # fmt: skip
_THREE = ("corner", "aligned", "centre")


def _nearest(net: Net, v: Values) -> int:
    """Resize by a factor, or to a size."""
    rows, columns = pair(v.to) if v.to else np.multiply(pair(v.size), pair(v.factor)).tolist()
    table = ResizeNearestOptions(*_CONVENTIONS[v.convention])
    return net.resize("RESIZE_NEAREST_NEIGHBOR", net.x, rows, columns, table)


_by_factors = layer_grid(
    "ResizeNearest.Op/",
    # With aligned corners pixels are repeated alike by a factor of 2, or if there is one.
    is_in=lambda v: v.convention != "aligned" or v.factor == "2x2" or v.size == "1x1",
    to="",
    factor=("1x1", "2x2", "3x3", "1x2", "2x1", "4x7", "8x5"),
    convention=_THREE,
    size=("1x1", "7x5", "1x13", "20x20"),
    channels=(1, 15, 16, 17, 33, 48, 64, 130),
    images=(1, 2),
)(_nearest)

_to_sizes = layer_grid(
    "ResizeNearestAny.Op/",
    size=("4x5", "9x7", "1x13", "16x16"),
    to=("7x7", "3x2", "9x20", "12x12", "1x1", "41x37"),
    convention=tuple(_CONVENTIONS),
    channels=(1, 16, 17, 33, 64),
    type=MOVED_TYPES,
)(_nearest)


def _multiplied(v: Values) -> list[int]:
    """Return the size enlarged; with corners aligned the pixels between."""
    aligned = _CONVENTIONS[v.convention][0]
    return [n * f - aligned * (f - 1) for n, f in zip(pair(v.size), pair(v.factor), strict=True)]


def _bilinear(label: str, *, enlarges: bool = True, differing: float = NONE, **axes: Any) -> Grid:
    """Between a size and the one that is enlarged by a factor, or to a size."""

    def layer(net: Net, v: Values) -> int:
        table = ResizeBilinearOptions(*_CONVENTIONS[v.convention])
        rows, columns = pair(v.to or v.size) if v.to or not enlarges else _multiplied(v)
        return net.resize("RESIZE_BILINEAR", net.x, rows, columns, table)

    return layer_grid(
        f"{label}.Op/",
        differing=differing,
        to=axes.pop("to", ""),
        input_shape=lambda v: (
            v.input_shape if enlarges else (v.images, *_multiplied(v), v.channels)
        ),
        **axes,
    )(layer)


_BILINEAR = (
    _bilinear(
        "ResizeBilinear",
        factor=("1x1", "2x2", "1x2", "2x1", "4x4", "2x4", "4x1", "8x2", "1x8"),
        convention=_THREE,
        size=("1x1", "7x5", "1x13", "20x20"),
        channels=(1, 16, 17, 33, 48, 64),
        images=(1, 2),
    ),
    _bilinear(
        "ResizeBilinearWhole",
        differing=RESIZED,
        # Positions in fixed point, of int8, are a step off after a few rows.
        is_in=lambda v: v.type == "uint8" or v.size in ("1x1", "1x2"),
        factor=("3x3", "5x3", "3x1", "1x6", "2x3", "12x1"),
        convention=_THREE,
        size=("1x1", "1x2", "7x5", "20x20"),
        channels=(1, 16, 17, 64),
        images=(1, 2),
    ),
    _bilinear(
        "ResizeBilinearPasses",
        differing=TWO_ROUNDINGS,
        factor=("8x8", "8x16", "32x4", "16x8"),
        convention=_THREE,
        size=("1x1", "1x3", "4x3"),
        channels=(1, 16, 21, 64, 130),
        images=(1, 2),
    ),
    _bilinear(
        "ResizeBilinearAny",
        differing=TWO_ROUNDINGS,
        size=("4x5", "9x7", "1x13", "24x24"),
        to=("7x8", "5x3", "19x20", "1x12", "37x29"),
        factor="",
        convention=_THREE,
        channels=(1, 16, 17, 33, 64),
        images=(1, 2),
    ),
    _bilinear(
        "ResizeBilinearPart",
        enlarges=False,
        factor=("2x2", "3x3", "4x4", "7x7"),
        convention=_THREE,
        size=("1x1", "3x2", "8x5"),
        channels=(1, 16, 17, 64, 130),
        images=(1, 2),
    ),
)
