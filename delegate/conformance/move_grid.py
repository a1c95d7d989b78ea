"""What brings data elsewhere: concatenations, slices, reshapes, blocks, and transposed
convolutions, which bring pixels apart. All but these have to be equal.
"""

from __future__ import annotations

import numpy as np

from delegate.conformance.builder import options
from delegate.conformance.builder.aliases import (
    concatenation,
    pack,
    reshape,
    slice_of,
    split,
    split_v,
    transpose,
    unpack,
)
from delegate.conformance.builder.functions import function
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.conformance.builder.options import BuiltinOptions
from delegate.conformance.builder.padding import pad
from delegate.conformance.builder.ranges import LIMITS
from delegate.conformance.case import Case, Family
from delegate.conformance.grid import Grid
from delegate.conformance.own_grid import TYPES, constant, dtype_of, pair, shape_of
from delegate.conformance.random_layers import draw_quantization
from delegate.conformance.tolerance import NONE, PER_CHANNEL
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.ops.depth_to_space import DepthToSpaceOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.space_to_depth import SpaceToDepthOptions
from delegate.ops.transpose_conv import TransposeConvOptions

_TYPES = ("uint8", "int8")
_ORDERS = {
    "columns": (0, 2, 1, 3), "channels": (0, 1, 3, 2), "first": (0, 3, 1, 2), "head": (0, 3, 1, 2),
}  # fmt: skip


def _computed(builder: ModelBuilder, rng: np.random.Generator, x: int) -> int:
    """A tensor of the same quantisation that the NPU makes: partitions of moves stay on the CPU."""
    spec = builder.spec(x)
    quantization = spec.quantization
    assert quantization is not None
    other = constant(builder, rng, spec.shape, spec.dtype, quantization)
    return function(builder, "MAXIMUM", (x, other), quantization)


def _joins() -> Grid:
    def make(name: str, *, parts: str, axis: int, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("join"), dtype_of(type)
            quantization = draw_quantization(rng, dtype)
            tensors = []
            for number, size in enumerate(shape_of(parts)):
                shape = [1, 5, 7, 19]
                shape[axis] = size
                x = builder.input(f"x{number}", shape, dtype, quantization)
                tensors.append(_computed(builder, rng, x))
            builder.output(concatenation(builder, tensors, axis))
            return builder.build()

        return Case(name, "Joins", build, differing=NONE)

    return Grid(
        "Joins.Op/",
        {
            "parts": ("16x5", "1x1", "4x1x80", "15x17", "31x33x16", "3x3x3x3", "48x16", "2x40"),
            "axis": (1, 3),
            "type": _TYPES,
        },
        make,
    )


def _cuts() -> Grid:
    def make(name: str, *, begin: str, size: str, by: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("cut"), dtype_of(type)
            x = builder.input("x", (1, 9, 11, 40), dtype, draw_quantization(rng, dtype))
            y = _computed(builder, rng, x)
            box = (0, *shape_of(begin)), (1, *shape_of(size))
            y = slice_of(builder, y, *box, strided=by == "strided")
            builder.output(_computed(builder, rng, y))
            return builder.build()

        return Case(name, "Cuts", build, differing=NONE)

    return Grid(
        "Cuts.Op/",
        {
            "begin": ("0x0x0", "2x0x16", "1x3x5", "3x1x33", "0x7x1"),
            "size": ("5x4x7", "1x1x1", "6x3x6", "3x4x5"),
            "by": ("slice", "strided"),
            "type": _TYPES,
        },
        make,
    )


def _splits() -> Grid:
    def make(name: str, *, channels: int, count: int, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("split"), dtype_of(type)
            shape = (1, 4, 9, channels * count)
            x = builder.input("x", shape, dtype, draw_quantization(rng, dtype))
            for part in split(builder, _computed(builder, rng, x), count, 3):
                builder.output(part)
            return builder.build()

        return Case(name, "Splits", build, differing=NONE)

    return Grid(
        "Splits.Op/",
        {"channels": (1, 15, 16, 17, 33, 64), "count": (2, 3, 5), "type": _TYPES},
        make,
    )


def _uneven_splits() -> Grid:
    def make(name: str, *, sizes: str, axis: int, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("split_v"), dtype_of(type)
            shape = [1, 4, 9, 19]
            shape[axis] = sum(shape_of(sizes))
            x = builder.input("x", shape, dtype, draw_quantization(rng, dtype))
            for part in split_v(builder, _computed(builder, rng, x), shape_of(sizes), axis):
                builder.output(part)
            return builder.build()

        return Case(name, "UnevenSplits", build, differing=NONE)

    return Grid(
        "UnevenSplits.Op/",
        {"sizes": ("16x3x16", "1x34x64", "32x48", "5x2", "80x4x1"), "axis": (1, 3), "type": _TYPES},
        make,
    )


def _packs() -> Grid:
    """A dimension more, and away again."""

    def make(name: str, *, shape: str, count: int, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("pack"), dtype_of(type)
            quantization = draw_quantization(rng, dtype)
            parts = [
                _computed(
                    builder, rng, builder.input(f"x{n}", shape_of(shape), dtype, quantization)
                )
                for n in range(count)
            ]
            axis = 1 if len(shape_of(shape)) == 3 else 0
            packed = _computed(builder, rng, pack(builder, parts, axis))
            for part in unpack(builder, packed, axis):
                builder.output(part)
            return builder.build()

        return Case(name, "Packs", build, differing=NONE)

    return Grid(
        "Packs.Op/",
        {"shape": ("1x7x20", "5x33", "16", "1x3x16"), "count": (1, 2, 3), "type": _TYPES},
        make,
    )


def _reshapes() -> Grid:
    def make(name: str, *, to: str, channels: int, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("reshape"), dtype_of(type)
            x = builder.input("x", (1, 6, 10, channels), dtype, draw_quantization(rng, dtype))
            y = reshape(builder, _computed(builder, rng, x), (*shape_of(to), channels))
            builder.output(_computed(builder, rng, y))
            return builder.build()

        return Case(name, "Reshapes", build, differing=NONE)

    return Grid(
        "Reshapes.Op/",
        {
            "to": ("1x10x6", "1x60", "60", "1x1x60", "1x4x15"),
            "channels": (1, 16, 33),
            "type": _TYPES,
        },
        make,
    )


def _reorders() -> Grid:
    """Reshapes that change channels, transposes, and one behind the other."""
    sizes = {
        "1x5x7x12": "1x35x3x4", "1x4x5x85": "1x20x17x5", "1x3x20x16": "1x3x4x80",
        "1x1x33x1": "1x1x1x33", "1x6x4x273": "1x24x3x91", "1x4x16x37": "1x4x8x74",
    }  # fmt: skip

    def make(name: str, *, shape: str, by: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("reorder"), dtype_of(type)
            given = shape_of(shape)
            x = builder.input("x", given, dtype, draw_quantization(rng, dtype))
            y = _computed(builder, rng, x)
            if by == "reshape":
                y = reshape(builder, y, shape_of(sizes[shape]))
            else:
                y = transpose(builder, y, _ORDERS[by])
            if by == "head":
                y = reshape(builder, y, (1, given[3], given[1] * given[2]))
            builder.output(_computed(builder, rng, y))
            return builder.build()

        return Case(name, "Reorders", build, differing=NONE)

    return Grid(
        "Reorders.Op/",
        {"shape": tuple(sizes), "by": ("reshape", *_ORDERS), "type": _TYPES},
        make,
    )


def _borders() -> Grid:
    """Of zero points, of any value, mirrored with the outermost pixels and without."""
    modes = {"reflect": REFLECT, "symmetric": SYMMETRIC}

    def make(name: str, *, by: str, amounts: str, channels: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder("border"), dtype_of(type)
            (top, bottom, left, right), (own, more) = shape_of(amounts), pair(channels)
            shape = (1 + more % 2, 9, 7, own)
            x = builder.input("x", shape, dtype, draw_quantization(rng, dtype))
            sides = [[0, 0], [top, bottom], [left, right], [more, more // 2]]
            value = int(rng.integers(*LIMITS[dtype])) if by == "value" else None
            y = pad(builder, x, sides, value=value, mode=modes.get(by))
            builder.output(_computed(builder, rng, y))
            return builder.build()

        return Case(name, "Borders", build, differing=NONE)

    def is_in(*, by: str, amounts: str, channels: str, type: str) -> bool:
        return by not in modes or (max(shape_of(amounts)) < 7 and pair(channels)[1] == 0)

    return Grid(
        "Borders.Op/",
        {
            "by": ("zero", "value", *modes),
            "amounts": ("1x1x1x1", "0x3x2x0", "6x5x4x3", "0x0x0x1", "17x1x0x33"),
            "channels": ("1x0", "16x0", "21x0", "64x0", "16x5", "3x16"),
            "type": _TYPES,
        },
        make,
        is_in,
    )


def _blocks() -> Grid:
    def make(name: str, *, op: str, block: int, channels: int, size: str, type: str) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            builder, dtype = ModelBuilder(op.lower()), dtype_of(type)
            height, width = pair(size)
            quantization = draw_quantization(rng, dtype)
            spatial = (1, height * block, width * block, channels)
            flat = (1, height, width, channels * block**2)
            before, after = (spatial, flat) if op == "SPACE_TO_DEPTH" else (flat, spatial)
            table: BuiltinOptions = options.of(
                SpaceToDepthOptions(block) if op == "SPACE_TO_DEPTH" else DepthToSpaceOptions(block)
            )
            x = builder.input("x", before, dtype, quantization)
            y = builder.tensor("y", after, dtype, quantization)
            builder.operator(op, (x,), (y,), table)
            builder.output(y)
            return builder.build()

        return Case(name, "Blocks", build, differing=NONE)

    return Grid(
        "Blocks.Op/",
        {
            "op": ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"),
            "block": (2, 3, 4),
            "channels": (1, 3, 16, 17, 33),
            "size": ("1x1", "3x5", "7x1", "11x13"),
            "type": _TYPES,
        },
        make,
    )


def _transposed() -> Grid:
    def make(
        name: str, *, kernel: str, stride: str, padding: str, channels: str, size: str, type: str
    ) -> Case:
        def build(rng: np.random.Generator) -> bytes:
            (kh, kw), (sh, sw) = pair(kernel), pair(stride)
            (height, width), (inputs, outputs) = pair(size), pair(channels)
            is_same = padding == "same"
            out = height * sh, width * sw
            if not is_same:
                out = (height - 1) * sh + kh, (width - 1) * sw + kw
            builder, dtype = ModelBuilder("transposed"), dtype_of(type)
            quantization = draw_quantization(rng, dtype)
            x = builder.input("x", (1, height, width, inputs), dtype, quantization)
            count = outputs if type == "per_channel" else 1
            scales = tuple(float(np.float32(s)) for s in 0.01 * 2 ** rng.uniform(-2, 1, count))
            zero = int(rng.integers(100, 150)) if dtype is DType.UINT8 else 0
            given = Quantization(scales, (zero,) * count)
            values = rng.integers(-127, 128, (outputs, kh, kw, inputs))
            if dtype is DType.UINT8:
                weights = builder.constant("w", (values + 127).astype(np.uint8), given)
            else:
                weights = builder.constant("w", values.astype(np.int8), given)
            numbers = builder.constant("shape", np.array((1, *out, outputs), np.int32))
            scale = Quantization(tuple(quantization.scale * s for s in scales), (0,) * count)
            bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
            b = builder.constant("b", bias, scale)
            terms = inputs * kh * kw / (sh * sw)
            spread = quantization.scale * max(scales) * 75 * 75 * max(terms, 1.0) ** 0.5
            result = Quantization((float(np.float32(spread / 40)),), draw_zero(rng, dtype))
            y = builder.tensor("y", (1, *out, outputs), dtype, result)
            scheme = Padding.SAME if is_same else Padding.VALID
            table = options.of(TransposeConvOptions(scheme, sh, sw, Activation.NONE))
            builder.operator("TRANSPOSE_CONV", (numbers, weights, x, b), (y,), table, version=3)
            builder.output(y)
            return builder.build()

        return Case(name, "TransposeConv", build, differing=PER_CHANNEL)

    def draw_zero(rng: np.random.Generator, dtype: DType) -> tuple[int, ...]:
        return draw_quantization(rng, dtype).zero_points

    def is_in(
        *, kernel: str, stride: str, padding: str, channels: str, size: str, type: str
    ) -> bool:
        return all(k >= s for k, s in zip(pair(kernel), pair(stride), strict=True))

    return Grid(
        "TransposeConv.Op/",
        {
            "kernel": ("2x2", "3x3", "4x4", "5x3"),
            "stride": ("2x2", "1x1", "3x2"),
            "padding": ("same", "valid"),
            "channels": ("1x1", "16x17", "33x15", "40x64"),
            "size": ("1x7", "5x4", "13x11"),
            "type": TYPES,
        },
        make,
        is_in,
    )


def families() -> tuple[Family, ...]:
    """All families of this file."""
    return (
        _joins(),
        _cuts(),
        _splits(),
        _uneven_splits(),
        _packs(),
        _borders(),
        _reshapes(),
        _reorders(),
        _blocks(),
        _transposed(),
    )
