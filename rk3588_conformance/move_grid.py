"""Families of operators that bring data elsewhere: concatenations, slices, reshapes, blocks, and
transposed convolutions, which bring pixels apart. All but these have to be equal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from delegate.model.graph import DType, Padding, Quantization
from delegate.model.operator_options import Options
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions
from rk3588_conformance.builder.functions import function
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.moves import concatenation, reshape, slice_of, split
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import Value, grid
from rk3588_conformance.own_grid import (
    EIGHT_BITS,
    PADDINGS,
    TYPES,
    constant,
    dtype_of,
    is_per_channel,
    layer_grid,
    model,
    pair,
    shape_of,
)
from rk3588_conformance.random_layers import draw_quantization
from rk3588_conformance.tolerance import NONE, PER_CHANNEL


def computed(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
    """A tensor of the same quantisation that the NPU makes: partitions of moves stay on the CPU."""
    spec = builder.spec(x)
    quantization = spec.quantization
    assert quantization is not None
    other = constant(builder, rng, spec.shape, spec.dtype, quantization)
    return function(builder, "MAXIMUM", (x, other), quantization)


@grid(
    "Joins.Op/",
    parts=("16x5", "1x1", "4x1x80", "15x17", "31x33x16", "3x3x3x3", "48x16", "2x40"),
    axis=(1, 3),
    type=EIGHT_BITS,
)
def _joins(name: str, *, parts: str, axis: int, type: str) -> Case:
    def body(builder: ModelBuilder, rng: np.random.Generator) -> int:
        dtype = dtype_of(type)
        quantization = draw_quantization(rng, dtype)
        tensors = []
        for number, size in enumerate(shape_of(parts)):
            shape = [1, 5, 7, 19]
            shape[axis] = size
            x = builder.input(f"x{number}", shape, dtype, quantization)
            tensors.append(computed(builder, rng, x))
        return concatenation(builder, tensors, axis)

    return Case(name, "Joins", model("join", body), differing=NONE)


@layer_grid(
    "Cuts.Op/",
    differing=NONE,
    shape="1x9x11x40",
    begin=("0x0x0", "2x0x16", "1x3x5", "3x1x33", "0x7x1"),
    size=("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
    by=("slice", "strided"),
    type=EIGHT_BITS,
)
def _cuts(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, begin: str, size: str, by: str,
    **_: Value,
) -> int:  # fmt: skip
    y = computed(builder, rng, x)
    box = (0, *shape_of(begin)), (1, *shape_of(size))
    return computed(builder, rng, slice_of(builder, y, *box, strided=by == "strided"))


@layer_grid(
    "Splits.Op/",
    differing=NONE,
    input_shape=lambda channels, count, **_: (1, 4, 9, channels * count),
    channels=(1, 15, 16, 17, 33, 64),
    count=(2, 3, 5),
    type=EIGHT_BITS,
)
def _splits(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, count: int, **_: Value
) -> tuple[int, ...]:
    return split(builder, computed(builder, rng, x), count, 3)


@layer_grid(
    "Reshapes.Op/",
    differing=NONE,
    size="6x10",
    to=("1x10x6", "1x60", "60", "1x1x60", "1x4x15"),
    channels=(1, 16, 33),
    type=EIGHT_BITS,
)
def _reshapes(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, to: str, channels: int, **_: Value
) -> int:
    y = reshape(builder, computed(builder, rng, x), (*shape_of(to), channels))
    return computed(builder, rng, y)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """``joins``: pixels become channels."""

    name: str
    options: Callable[[int], Options]
    joins: bool

    def shapes(
        self, *, block: int, channels: int, size: str, **_: Value
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before and behind it."""
        height, width = pair(size)
        spatial = (1, height * block, width * block, channels)
        flat = (1, height, width, channels * block**2)
        return (spatial, flat) if self.joins else (flat, spatial)


_BLOCKS = {
    blocks.name: blocks
    for blocks in (
        _Blocks("SPACE_TO_DEPTH", SpaceToDepthOptions, joins=True),
        _Blocks("DEPTH_TO_SPACE", DepthToSpaceOptions, joins=False),
    )
}


@layer_grid(
    "Blocks.Op/",
    differing=NONE,
    input_shape=lambda op, **values: _BLOCKS[op].shapes(**values)[0],
    op=tuple(_BLOCKS),
    block=(2, 3, 4),
    channels=(1, 3, 16, 17, 33),
    size=("1x1", "3x5", "7x1", "11x13"),
    type=EIGHT_BITS,
)
def _blocks(
    builder: ModelBuilder, _: np.random.Generator, x: int, *, op: str, block: int, **sizes: Any
) -> int:
    after = _BLOCKS[op].shapes(block=block, **sizes)[1]
    return builder.result(op, (x,), "y", after, options=_BLOCKS[op].options(block))


@layer_grid(
    "TransposeConv.Op/",
    differing=PER_CHANNEL,
    input_shape=lambda channels, size, **_: (1, *pair(size), pair(channels)[0]),
    is_in=lambda kernel, stride, **_: all(map(operator.ge, pair(kernel), pair(stride))),
    kernel=("2x2", "3x3", "4x4", "5x3"),
    stride=("2x2", "1x1", "3x2"),
    padding=tuple(PADDINGS),
    channels=("1x1", "16x17", "33x15", "40x64"),
    size=("1x7", "5x4", "13x11"),
    type=TYPES,
)
def _transposed(
    builder: ModelBuilder, rng: np.random.Generator, x: int, *, kernel: str, stride: str,
    padding: str, channels: str, size: str, type: str,
) -> int:  # fmt: skip
    (kh, kw), (sh, sw) = pair(kernel), pair(stride)
    (height, width), (inputs, outputs) = pair(size), pair(channels)
    scheme = PADDINGS[padding]
    rows, columns = (
        n * s if scheme is Padding.SAME else (n - 1) * s + k
        for n, s, k in ((height, sh, kh), (width, sw, kw))
    )
    dtype, given = builder.spec(x).dtype, builder.spec(x).quantization
    assert given is not None
    count = outputs if is_per_channel(type) else 1
    scales = tuple(float(np.float32(s)) for s in 0.01 * 2 ** rng.uniform(-2, 1, count))
    zero = int(rng.integers(100, 150)) if dtype is DType.UINT8 else 0
    values = rng.integers(-127, 128, (outputs, kh, kw, inputs))
    stored = (values + (127 if dtype is DType.UINT8 else 0)).astype(dtype.element.dtype)
    weights = builder.constant("w", stored, Quantization(scales, (zero,) * count))
    numbers = builder.constant("shape", np.array((1, rows, columns, outputs), np.int32))
    scale = Quantization(tuple(given.scale * s for s in scales), (0,) * count)
    bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
    b = builder.constant("b", bias, scale)
    terms = inputs * kh * kw / (sh * sw)
    spread = given.scale * max(scales) * 75 * 75 * max(terms, 1.0) ** 0.5
    zero_points = draw_quantization(rng, dtype).zero_points
    result = Quantization((float(np.float32(spread / 40)),), zero_points)
    return builder.result(
        "TRANSPOSE_CONV", (numbers, weights, x, b), "y", (1, rows, columns, outputs), result,
        dtype=dtype, options=TransposeConvOptions(scheme, sh, sw), version=3,
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (_joins, _cuts, _splits, _reshapes, _blocks, _transposed)
