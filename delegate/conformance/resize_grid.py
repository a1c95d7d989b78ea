"""Resizing: factors, conventions, channels around the surfaces."""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.resizing import resize
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Axes, Grid, Value
from delegate.conformance.own_grid import EIGHT_BITS, one_layer, pair
from delegate.conformance.tolerance import NONE
from delegate.ops.resize_bilinear import ResizeBilinearOptions

_CONVENTIONS = {"corner": (False, False), "aligned": (True, False), "centre": (False, True)}


def _nearest() -> Grid:
    def make(
        name: str, *, factor: str, convention: str, size: str, channels: int, images: int, type: str
    ) -> Case:
        (h, w), (rows, columns) = pair(size), pair(factor)

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            table = options.resize_nearest(*_CONVENTIONS[convention])
            return resize(builder, "RESIZE_NEAREST_NEIGHBOR", x, h * rows, w * columns, table)

        shape = (images, h, w, channels)
        return one_layer(name, "ResizeNearest", shape, type, layer, differing=NONE)

    def is_in(*, factor: str, convention: str, size: str, **_: Value) -> bool:
        # With aligned corners pixels are repeated alike by a factor of 2, or if there is one.
        return convention != "aligned" or factor == "2x2" or size == "1x1"

    axes: Axes = {
        "factor": ("1x1", "2x2", "3x3", "1x2", "2x1", "4x7", "8x5"),
        "convention": tuple(_CONVENTIONS),
        "size": ("1x1", "7x5", "1x13", "20x20"),
        "channels": (1, 15, 16, 17, 33, 48, 64, 130),
        "images": (1, 2),
        "type": EIGHT_BITS,
    }
    return Grid("ResizeNearest.Op/", axes, make, is_in)


def _bilinear() -> Grid:
    def make(
        name: str, *, factor: str, convention: str, size: str, channels: int, images: int, type: str
    ) -> Case:
        aligned, _ = _CONVENTIONS[convention]
        sizes = [n * f - aligned * (f - 1) for n, f in zip(pair(size), pair(factor), strict=True)]

        def layer(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
            table = options.of(ResizeBilinearOptions(*_CONVENTIONS[convention]))
            rows, columns = sizes
            return resize(builder, "RESIZE_BILINEAR", x, rows, columns, table)

        shape = (images, *pair(size), channels)
        return one_layer(name, "ResizeBilinear", shape, type, layer, differing=NONE)

    axes: Axes = {
        "factor": ("1x1", "2x2", "1x2", "2x1"),
        "convention": tuple(_CONVENTIONS),
        "size": ("1x1", "7x5", "1x13", "20x20"),
        "channels": (1, 16, 17, 33, 48, 64),
        "images": (1, 2),
        "type": EIGHT_BITS,
    }
    return Grid("ResizeBilinear.Op/", axes, make)


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (_nearest(), _bilinear())
