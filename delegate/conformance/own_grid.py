"""What the families of our own grid share: types, pairs like "5x3", and one-layer cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from delegate.conformance.builder.layers import Window
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case
from delegate.conformance.random_layers import Numbers, draw_quantization
from delegate.conformance.tolerance import NONE, PER_CHANNEL
from delegate.model.graph import DType, Padding, Quantization

TYPES = ("uint8", "int8", "per_channel")
PADDINGS = ("same", "valid")

Layer = Callable[[ModelBuilder, np.random.Generator, int], int]


def dtype_of(kind: str) -> DType:
    """The feature type of one of ``TYPES``."""
    return DType.UINT8 if kind == "uint8" else DType.INT8


def is_per_channel(kind: str) -> bool:
    """Whether ``kind`` of ``TYPES`` has a scale per channel."""
    return kind == "per_channel"


def numbers_of(kind: str) -> Numbers:
    """Teflon's numbers for one of ``TYPES``."""
    return Numbers(per_channel=is_per_channel(kind))


def shape_of(text: str) -> tuple[int, ...]:
    """ "1x5x3" as (1, 5, 3)."""
    return tuple(int(part) for part in text.split("x"))


def constant(
    builder: ModelBuilder,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: DType,
    quantization: Quantization | None = None,
) -> int:
    """Random values."""
    low, high = LIMITS[dtype]
    kind = np.int8 if dtype is DType.INT8 else np.uint8
    values = rng.integers(low, high + 1, shape).astype(kind)
    return builder.constant("constant", values, quantization or draw_quantization(rng, dtype))


def pair(text: str) -> tuple[int, int]:
    """ "5x3" as (5, 3)."""
    first, _, second = text.partition("x")
    return int(first), int(second)


def window_of(
    kernel: str, stride: str = "1x1", dilation: str = "1x1", padding: str = "same"
) -> Window:
    """A window of pairs "height x width"."""
    (kh, kw), (sh, sw), (dh, dw) = pair(kernel), pair(stride), pair(dilation)
    scheme = Padding.SAME if padding == "same" else Padding.VALID
    return Window(kh=kh, kw=kw, sh=sh, sw=sw, dh=dh, dw=dw, padding=scheme)


def fits(window: Window, h: int, w: int) -> bool:
    """Whether a convolution of h x w has an output."""
    if window.padding is Padding.SAME:
        return True
    return (window.kh - 1) * window.dh < h and (window.kw - 1) * window.dw < w


def differing_of(kind: str) -> float:
    """The share of elements of a convolution or FULLY_CONNECTED that may differ."""
    return PER_CHANNEL if is_per_channel(kind) else NONE


def one_layer(name: str, label: str, shape: Sequence[int], kind: str, layer: Layer) -> Case:
    """An input of ``shape``, one layer, its output. ``kind``: of ``TYPES``."""
    dtype, differing = dtype_of(kind), differing_of(kind)

    def build(rng: np.random.Generator) -> bytes:
        builder = ModelBuilder(label)
        x = builder.input("input", tuple(shape), dtype, draw_quantization(rng, dtype))
        builder.output(layer(builder, rng, x))
        return builder.build()

    return Case(name, label, build, differing=differing)
