"""Adds operators that only move data: concatenations, splits, slices, reshapes, transposes.

Comes from: a builder and tensors of it, all of one quantisation. Goes to: the indices of the new
tensors, whose quantisation is the first input's. Version 2 of the operators is the first with int8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.builder import options
from delegate.builder.model_builder import ModelBuilder
from delegate.ops.pack import PackOptions
from delegate.ops.unpack import UnpackOptions


def concatenation(
    builder: ModelBuilder, parts: Sequence[int], axis: int, name: str = "joined"
) -> int:
    """``parts`` one after the other along ``axis``."""
    specs = [builder.spec(part) for part in parts]
    shape = list(specs[0].shape)
    shape[axis] = sum(spec.shape[axis] for spec in specs)
    y = builder.tensor(name, shape, specs[0].dtype, specs[0].quantization)
    builder.operator("CONCATENATION", tuple(parts), (y,), options.concatenation(axis), version=2)
    return y


def split(
    builder: ModelBuilder, x: int, count: int, axis: int, name: str = "part"
) -> tuple[int, ...]:
    """``x`` in ``count`` equal parts along ``axis``."""
    spec = builder.spec(x)
    shape = list(spec.shape)
    shape[axis] //= count
    parts = tuple(
        builder.tensor(f"{name}{i}", shape, spec.dtype, spec.quantization) for i in range(count)
    )
    dimension = builder.constant(f"{name}/axis", np.array(axis, np.int32))
    builder.operator("SPLIT", (dimension, x), parts, options.split(count), version=2)
    return parts


def slice_of(
    builder: ModelBuilder,
    x: int,
    begin: Sequence[int],
    size: Sequence[int],
    name: str = "slice",
    *,
    strided: bool = False,
) -> int:
    """The box of ``size`` from ``begin`` on, by SLICE or by STRIDED_SLICE."""
    spec = builder.spec(x)
    y = builder.tensor(name, tuple(size), spec.dtype, spec.quantization)
    start = builder.constant(f"{name}/begin", np.array(begin, np.int32))
    if not strided:
        sizes = builder.constant(f"{name}/size", np.array(size, np.int32))
        builder.operator("SLICE", (x, start, sizes), (y,), options.empty(), version=2)
        return y
    end = np.add(begin, size).astype(np.int32)
    ends = builder.constant(f"{name}/end", end)
    strides = builder.constant(f"{name}/strides", np.ones(len(end), np.int32))
    builder.operator(
        "STRIDED_SLICE", (x, start, ends, strides), (y,), options.strided_slice(), version=2
    )
    return y


def reshape(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "reshaped") -> int:
    """``x`` in another shape."""
    return _reshaped(builder, "RESHAPE", x, shape, name, shape)


def squeeze(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "squeezed") -> int:
    """``x`` without its dimensions of 1, which gives ``shape``."""
    return _reshaped(builder, "SQUEEZE", x, shape, name, None)


def expand_dims(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "expanded") -> int:
    """``x`` with one more dimension of 1, where ``shape`` has the first that is new."""
    same = sum(a == b for a, b in zip(builder.spec(x).shape, shape, strict=False))
    return _reshaped(builder, "EXPAND_DIMS", x, shape, name, same)


def _reshaped(
    builder: ModelBuilder,
    op: str,
    x: int,
    shape: Sequence[int],
    name: str,
    numbers: int | Sequence[int] | None,
) -> int:
    spec = builder.spec(x)
    y = builder.tensor(name, tuple(shape), spec.dtype, spec.quantization)
    inputs = [x]
    if numbers is not None:
        inputs.append(builder.constant(f"{name}/numbers", np.array(numbers, np.int32)))
    builder.operator(op, inputs, (y,), options.empty())
    return y


def transpose(builder: ModelBuilder, x: int, axes: Sequence[int], name: str = "transposed") -> int:
    """``x`` with its dimensions in another order."""
    spec = builder.spec(x)
    shape = [spec.shape[axis] for axis in axes]
    y = builder.tensor(name, shape, spec.dtype, spec.quantization)
    numbers = builder.constant(f"{name}/axes", np.array(axes, np.int32))
    builder.operator("TRANSPOSE", (x, numbers), (y,), options.empty(), version=2)
    return y


def split_v(
    builder: ModelBuilder, x: int, sizes: Sequence[int], axis: int, name: str = "part"
) -> tuple[int, ...]:
    """``x`` in parts of ``sizes`` along ``axis``, the last one given as -1."""
    spec = builder.spec(x)
    parts = []
    for number, size in enumerate(sizes):
        shape = list(spec.shape)
        shape[axis] = size
        parts.append(builder.tensor(f"{name}{number}", shape, spec.dtype, spec.quantization))
    numbers = builder.constant(f"{name}/sizes", np.array([*sizes[:-1], -1], np.int32))
    dimension = builder.constant(f"{name}/axis", np.array(axis, np.int32))
    table = options.split_v(len(sizes))
    builder.operator("SPLIT_V", (x, numbers, dimension), parts, table, version=2)
    return tuple(parts)


def pack(builder: ModelBuilder, parts: Sequence[int], axis: int, name: str = "packed") -> int:
    """``parts`` one after the other along a new dimension."""
    spec = builder.spec(parts[0])
    shape = (*spec.shape[:axis], len(parts), *spec.shape[axis:])
    y = builder.tensor(name, shape, spec.dtype, spec.quantization)
    table = options.of(PackOptions(len(parts), axis))
    builder.operator("PACK", tuple(parts), (y,), table, version=2)
    return y


def unpack(builder: ModelBuilder, x: int, axis: int, name: str = "unpacked") -> tuple[int, ...]:
    """Every place along ``axis``."""
    spec = builder.spec(x)
    shape = (*spec.shape[:axis], *spec.shape[axis + 1 :])
    count = spec.shape[axis]
    parts = tuple(
        builder.tensor(f"{name}{i}", shape, spec.dtype, spec.quantization) for i in range(count)
    )
    table = options.of(UnpackOptions(count, axis))
    builder.operator("UNPACK", (x,), parts, table, version=2)
    return parts
