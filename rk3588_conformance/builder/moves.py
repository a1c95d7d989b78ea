"""Adds operators that move data: joins, parts, other shapes and orders, borders, other sizes.

Comes from: a builder and tensors of it, all of one quantisation. Goes to: the indices of the new
tensors, whose quantisation is the first input's, as the kernels demand.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delegate.model.operator_options import Options
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.gather import GatherOptions
from delegate.ops.mirror_pad import MirrorPadOptions
from delegate.ops.pack import PackOptions
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.ops.unpack import UnpackOptions
from rk3588_conformance.builder import options
from rk3588_conformance.builder.model_builder import ModelBuilder

INT8_VERSION = 2
"""The first of most of these operators that knows int8."""


def concatenation(
    builder: ModelBuilder, parts: Sequence[int], axis: int, name: str = "joined"
) -> int:
    """``parts`` one after the other along ``axis``."""
    shape = list(builder.spec(parts[0]).shape)
    shape[axis] = sum(builder.spec(part).shape[axis] for part in parts)
    table = ConcatenationOptions(axis)
    return builder.result("CONCATENATION", parts, name, shape, options=table, version=INT8_VERSION)


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
    if not strided:
        box = {"begin": begin, "size": size}
        return builder.result("SLICE", (x,), name, size, numbers=box, version=INT8_VERSION)
    ends = {"begin": begin, "end": np.add(begin, size), "strides": np.ones(len(size))}
    table = StridedSliceOptions()
    return builder.result(
        "STRIDED_SLICE", (x,), name, size, options=table, numbers=ends, version=INT8_VERSION
    )


def reshape(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "reshaped") -> int:
    """``x`` in another shape."""
    return builder.result("RESHAPE", (x,), name, shape, numbers={"numbers": shape})


def squeeze(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "squeezed") -> int:
    """``x`` without its dimensions of 1, which gives ``shape``."""
    return builder.result("SQUEEZE", (x,), name, shape)


def expand_dims(builder: ModelBuilder, x: int, shape: Sequence[int], name: str = "expanded") -> int:
    """``x`` with one more dimension of 1, where ``shape`` has the first that is new."""
    same = sum(a == b for a, b in zip(builder.spec(x).shape, shape, strict=False))
    return builder.result("EXPAND_DIMS", (x,), name, shape, numbers={"numbers": same})


def transpose(builder: ModelBuilder, x: int, axes: Sequence[int], name: str = "transposed") -> int:
    """``x`` with its dimensions in another order."""
    shape = [builder.spec(x).shape[axis] for axis in axes]
    order = {"axes": axes}
    return builder.result("TRANSPOSE", (x,), name, shape, numbers=order, version=INT8_VERSION)


def tile(builder: ModelBuilder, x: int, times: Sequence[int], name: str = "tiled") -> int:
    """``x`` so many times in each dimension."""
    shape = np.multiply(builder.spec(x).shape, times).tolist()
    return builder.result("TILE", (x,), name, shape, numbers={"times": times})


def gather(builder: ModelBuilder, x: int, places: Any, axis: int, name: str = "gathered") -> int:
    """``places`` of ``x`` along ``axis``: one number, or an array of them."""
    shape, table = builder.spec(x).shape, GatherOptions(axis)
    result = (*shape[:axis], *np.shape(places), *shape[axis + 1 :])
    indices = {"places": places}
    return builder.result(
        "GATHER", (x,), name, result, options=table, numbers=indices, version=INT8_VERSION
    )


def reverse(builder: ModelBuilder, x: int, axis: int, name: str = "reversed") -> int:
    """``x`` backwards along ``axis``."""
    return builder.result("REVERSE_V2", (x,), name, numbers={"axis": [axis]})


def pack(builder: ModelBuilder, parts: Sequence[int], axis: int, name: str = "packed") -> int:
    """``parts`` one after the other along a new dimension."""
    shape = builder.spec(parts[0]).shape
    shape = (*shape[:axis], len(parts), *shape[axis:])
    table = PackOptions(len(parts), axis)
    return builder.result("PACK", parts, name, shape, options=table, version=INT8_VERSION)


def _parts(
    builder: ModelBuilder, x: int, sizes: Sequence[int | None], axis: int, name: str
) -> tuple[int, ...]:
    """Tensors like ``x`` but for their ``sizes`` along ``axis``; None: without that dimension."""
    spec = builder.spec(x)
    place = axis % len(spec.shape)
    before, behind = spec.shape[:place], spec.shape[place + 1 :]
    return tuple(
        builder.tensor(
            f"{name}{number}",
            (*before, *behind) if size is None else (*before, size, *behind),
            spec.dtype,
            spec.quantization,
        )
        for number, size in enumerate(sizes)
    )


def split(
    builder: ModelBuilder, x: int, count: int, axis: int, name: str = "part"
) -> tuple[int, ...]:
    """``x`` in ``count`` equal parts along ``axis``."""
    parts = _parts(builder, x, [builder.spec(x).shape[axis] // count] * count, axis, name)
    dimension = builder.constant(f"{name}/axis", np.array(axis, np.int32))
    table = options.split(count)
    builder.operator("SPLIT", (dimension, x), parts, table, version=INT8_VERSION)
    return parts


def split_v(
    builder: ModelBuilder, x: int, sizes: Sequence[int], axis: int, name: str = "part"
) -> tuple[int, ...]:
    """``x`` in parts of ``sizes`` along ``axis``, the last one given as -1."""
    parts = _parts(builder, x, sizes, axis, name)
    numbers = builder.constant(f"{name}/sizes", np.array([*sizes[:-1], -1], np.int32))
    dimension = builder.constant(f"{name}/axis", np.array(axis, np.int32))
    table = options.split_v(len(sizes))
    builder.operator("SPLIT_V", (x, numbers, dimension), parts, table, version=INT8_VERSION)
    return parts


def unpack(builder: ModelBuilder, x: int, axis: int, name: str = "unpacked") -> tuple[int, ...]:
    """Every place along ``axis``."""
    count = builder.spec(x).shape[axis]
    parts = _parts(builder, x, [None] * count, axis, name)
    builder.operator("UNPACK", (x,), parts, UnpackOptions(count, axis), version=INT8_VERSION)
    return parts


Amounts = Sequence[Sequence[int]]
"""Before and behind, of each dimension."""


def pad(
    builder: ModelBuilder,
    x: int,
    amounts: Amounts,
    *,
    value: int | None = None,
    mode: int | None = None,
    name: str = "padded",
    version: int = INT8_VERSION,
) -> int:
    """Add PAD of a ``version``, PADV2 if ``value`` is given, MIRROR_PAD if ``mode`` is."""
    spec = builder.spec(x)
    shape = [d + sum(added) for d, added in zip(spec.shape, amounts, strict=True)]
    numbers = {"amounts": amounts}
    if mode is not None:
        table = MirrorPadOptions(mode)
        return builder.result("MIRROR_PAD", (x,), name, shape, options=table, numbers=numbers)
    if value is None:
        return builder.result("PAD", (x,), name, shape, numbers=numbers, version=version)
    y = builder.tensor(name, shape, spec.dtype, spec.quantization)
    sides = builder.constant(f"{name}/amounts", np.array(amounts, np.int32))
    border = np.array([value]).astype(spec.dtype.element.dtype)
    constant = builder.constant(f"{name}/value", border, spec.quantization)
    builder.operator("PADV2", (x, sides, constant), (y,), version=INT8_VERSION)
    return y


def resize(builder: ModelBuilder, op: str, x: int, rows: int, columns: int, table: Options) -> int:
    """``op`` of ``x``. Version 3 has all options, and int8."""
    images, _, _, channels = builder.spec(x).shape
    shape, size = (images, rows, columns, channels), {"size": (rows, columns)}
    return builder.result(op, (x,), op.lower(), shape, options=table, numbers=size, version=3)
