"""Steps of mixed graphs that move data: other shapes and orders, parts, borders, repetitions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from delegate.model.graph import Activation, DType
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.strided_slice import StridedSliceOptions
from rk3588_conformance.builder import moves, options

if TYPE_CHECKING:
    from rk3588_conformance.generated.mixed_graphs import MixedGenerator


def reshaped(g: MixedGenerator, x: int) -> list[int]:
    """Any other shape, of ranks 1 to 6."""
    shape = g.shape(x)
    factors = [p for size in shape for p in _primes(size)]
    g.rng.shuffle(factors)
    rank = g.pick((1, 2, 3, 4, 4, 4, 5, 6))
    new = [1] * rank
    for factor in factors:
        new[g.pick(range(rank))] *= factor
    g.read.add(x)
    spec = g.builder.spec(x)
    if spec.quantization is None and spec.dtype is not DType.FLOAT32:
        return []
    if g.chance(0.2):  # with one size left open
        wanted = list(new)
        wanted[g.pick(range(rank))] = -1
        y = g.builder.tensor(g.name("open"), new, spec.dtype, spec.quantization)
        numbers = g.builder.constant(g.name("numbers"), np.array(wanted, np.int32))
        g.builder.operator("RESHAPE", (x, numbers), (y,), options.reshape(wanted))
        return [y]
    return [moves.reshape(g.builder, x, new, g.name("reshape"))]


def _primes(size: int) -> list[int]:
    found = []
    for p in range(2, size + 1):
        while size % p == 0:
            found.append(p)
            size //= p
    return found


def turned(g: MixedGenerator, x: int) -> list[int]:
    rank = len(g.shape(x))
    if rank > 5 or not g.is_eight_bits(x):
        return []
    axes = [int(a) for a in g.rng.permutation(rank)]
    g.read.add(x)
    return [moves.transpose(g.builder, x, axes, g.name("transpose"))]


def joined(g: MixedGenerator, x: int) -> list[int]:
    """CONCATENATION along any axis, also of tensors with other scales, or PACK."""
    if not g.is_eight_bits(x):
        return []
    spec, shape = g.builder.spec(x), g.shape(x)
    axis = g.pick(range(len(shape)))
    parts = [x]
    for t in g.tensors:
        other = g.builder.spec(t)
        fits = other.dtype is spec.dtype and len(other.shape) == len(shape) and all(
            a == b for d, (a, b) in enumerate(zip(shape, other.shape, strict=True)) if d != axis
        )  # fmt: skip
        if fits and g.is_eight_bits(t) and len(parts) < 4 and g.chance(0.5):
            parts.append(t)
    if g.chance(0.15):
        g.turn_to(x)
        parts.append(g.constant(shape))
    if g.chance(0.3) and len(shape) <= 4:
        same = [t for t in parts if g.shape(t) == shape
                and g.builder.spec(t).quantization == spec.quantization]  # fmt: skip
        g.read.update(same)
        place = g.pick(range(len(shape) + 1))
        return [moves.pack(g.builder, same, place, g.name("pack"))]
    if spec.dtype is DType.INT8:  # of int8 the kernel copies whatever the scales are
        parts = [t for t in parts if g.builder.spec(t).quantization == spec.quantization]
    g.rng.shuffle(parts)
    g.read.update(parts)
    total = list(shape)
    total[axis] = sum(g.shape(t)[axis] for t in parts)
    quantization = spec.quantization
    y = g.builder.tensor(g.name("concat"), total, spec.dtype, quantization)
    place = axis - len(shape) if g.chance(0.3) else axis
    table = ConcatenationOptions(place, Activation.NONE)
    g.builder.operator("CONCATENATION", tuple(parts), (y,), table, version=2)
    return [y]


def cut(g: MixedGenerator, x: int) -> list[int]:
    """STRIDED_SLICE with masks and negative numbers, SLICE with -1, SPLIT, UNPACK."""
    if not g.is_eight_bits(x):
        return []
    spec, shape = g.builder.spec(x), g.shape(x)
    rank = len(shape)
    kind = g.pick(range(4))
    axis = g.pick(range(rank))
    g.read.add(x)
    if kind == 0 and rank <= 5:
        return _strided(g, x, axis)
    if kind == 1 and rank <= 5:
        begin = [g.pick(range(d)) if g.chance(0.5) else 0 for d in shape]
        sizes = [g.pick(range(1, d - b + 1)) for b, d in zip(begin, shape, strict=True)]
        given = [
            -1 if b + s == d and g.chance(0.5) else s
            for b, s, d in zip(begin, sizes, shape, strict=True)
        ]
        y = g.builder.tensor(g.name("slice"), sizes, spec.dtype, spec.quantization)
        kind64 = np.int64 if g.chance(0.3) else np.int32
        start = g.builder.constant(g.name("begin"), np.array(begin).astype(kind64))
        size = g.builder.constant(g.name("size"), np.array(given).astype(kind64))
        g.builder.operator("SLICE", (x, start, size), (y,), None, version=2)
        return [y]
    if kind == 2 and shape[axis] <= 8:
        return list(moves.unpack(g.builder, x, axis, g.name("unpack")))
    counts = [n for n in (1, 2, 3, 4) if shape[axis] % n == 0]
    if rank > 4:
        return []
    place = axis - rank if g.chance(0.3) else axis
    return _split(g, x, counts[g.pick(len(counts))], axis, place)


def _strided(g: MixedGenerator, x: int, axis: int) -> list[int]:
    """Add a slice with masks, negative numbers, steps, and without ``axis``."""
    spec, shape = g.builder.spec(x), g.shape(x)
    rank = len(shape)
    begin = [g.pick(range(d)) if g.chance(0.4) else 0 for d in shape]
    end = [g.pick(range(b + 1, d + 1)) if g.chance(0.4) else d
           for b, d in zip(begin, shape, strict=True)]  # fmt: skip
    steps = [g.pick((1, 1, 1, 2, 3)) for _ in shape]
    sizes = [-((b - e) // s) for b, e, s in zip(begin, end, steps, strict=True)]
    shrink = 0
    if g.chance(0.3):
        shrink = 1 << axis
        end[axis], steps[axis] = begin[axis] + 1, 1
        sizes[axis] = 1
    begin_mask = sum(1 << d for d in range(rank) if begin[d] == 0 and g.chance(0.5))
    end_mask = sum(1 << d for d in range(rank) if end[d] == shape[d] and g.chance(0.5))
    begin_mask &= ~shrink
    end_mask &= ~shrink
    given = [
        b - d if g.chance(0.3) and not begin_mask >> a & 1 else b
        for a, (b, d) in enumerate(zip(begin, shape, strict=True))
    ]
    until = [e - d if e < d and g.chance(0.3) else e for e, d in zip(end, shape, strict=True)]
    until = [b + 1 if shrink >> a & 1 else e
             for a, (b, e) in enumerate(zip(given, until, strict=True))]  # fmt: skip
    kept = tuple(s for a, s in enumerate(sizes) if not shrink >> a & 1)
    y = g.builder.tensor(g.name("strided"), kept, spec.dtype, spec.quantization)
    numbers = [
        g.builder.constant(g.name(word), np.array(values, np.int32))
        for word, values in (("begin", given), ("end", until), ("steps", steps))
    ]
    table = StridedSliceOptions(begin_mask, end_mask, 0, 0, shrink)
    g.builder.operator("STRIDED_SLICE", (x, *numbers), (y,), table, version=2)
    return [y]


def _split(g: MixedGenerator, x: int, count: int, axis: int, place: int) -> list[int]:
    spec = g.builder.spec(x)
    shape = list(spec.shape)
    shape[axis] //= count
    parts = tuple(
        g.builder.tensor(f"{g.name('split')}_{i}", shape, spec.dtype, spec.quantization)
        for i in range(count)
    )
    number = g.builder.constant(g.name("axis"), np.array(place, np.int32))
    g.builder.operator("SPLIT", (number, x), parts, options.split(count), version=2)
    return list(parts)


def padded(g: MixedGenerator, x: int) -> list[int]:
    """PAD along any axis."""
    shape = g.shape(x)
    if not g.is_eight_bits(x) or len(shape) > 4:
        return []
    spec = g.builder.spec(x)
    amounts = g.rng.integers(0, 3, (len(shape), 2)) * (g.rng.random((len(shape), 2)) < 0.4)
    new = [int(s + a.sum()) for s, a in zip(shape, amounts, strict=True)]
    y = g.builder.tensor(g.name("pad"), new, spec.dtype, spec.quantization)
    numbers = g.builder.constant(g.name("amounts"), amounts.astype(np.int32))
    g.builder.operator("PAD", (x, numbers), (y,), None, version=2)
    g.read.add(x)
    return [y]


def tiled(g: MixedGenerator, x: int) -> list[int]:
    spec, shape = g.builder.spec(x), g.shape(x)
    if not g.is_eight_bits(x) or prod(shape) > 3000 or len(shape) > 4:
        return []
    times = [g.pick((1, 1, 2)) for _ in shape]
    new = [s * t for s, t in zip(shape, times, strict=True)]
    y = g.builder.tensor(g.name("tile"), new, spec.dtype, spec.quantization)
    g.builder.operator(
        "TILE", (x, g.builder.constant(g.name("times"), np.array(times, np.int32))), (y,),
        None,
    )  # fmt: skip
    g.read.add(x)
    return [y]
