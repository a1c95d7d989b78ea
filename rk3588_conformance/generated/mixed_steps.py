"""Steps of random graphs that take tensors of any rank and, some of them, of any type: other
element types, any axis, weights that are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.mul import MulOptions
from delegate.ops.strided_slice import StridedSliceOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import layers, options
from rk3588_conformance.builder.ranges import LIMITS, float32
from rk3588_conformance.generated.generator import CLAMPED, EIGHT_BITS, Generator, Step
from rk3588_conformance.generated.move_steps import beside
from rk3588_conformance.generated.steps import computed, shares
from rk3588_conformance.grid import Outputs

if TYPE_CHECKING:
    from rk3588_conformance.generated.random_graphs import MixedGenerator

FLOATS = ("RELU", "RELU6", "ABS", "LOGISTIC", "TANH", "NEG")
PAIRS: dict[str, Any] = {
    "ADD": AddOptions,
    "SUB": SubOptions,
    "MUL": MulOptions,
    "MAXIMUM": None,
    "MINIMUM": None,
}
"""Operators of two values, with the options of those that clamp."""
ARG_MAX_OPTIONS = 40
"""The number of the schema's union."""
INT32 = 2  # of the schema's element types


def _retyped(g: MixedGenerator, x: int) -> Outputs:
    kind = g.spec(x).dtype
    if kind not in (*EIGHT_BITS, DType.FLOAT32, DType.INT16):
        return ()
    return g.quantize(x, DType.INT8 if kind is DType.INT16 else g.choose(EIGHT_BITS))


def _floating(g: MixedGenerator, x: int) -> Outputs:
    """A stretch in float32, mostly back to 8 bits."""
    kind = g.spec(x).dtype
    if kind is not DType.FLOAT32 and not g.is_eight_bits(x) and kind is not DType.INT16:
        return ()
    made = [x if kind is DType.FLOAT32 else g.dequantize(x)]
    for _ in range(g.pick((0, 0, 1, 2))):
        op = g.choose(FLOATS)
        made.append(g.result(op, made[-1:], op.lower()))
    if g.chance(0.75):
        made.append(g.quantize(made[-1], g.choose(EIGHT_BITS)))
    return made if g.chance(0.2) else made[-1]


def _wide(g: MixedGenerator, x: int) -> Outputs:
    """int16 and back, from int8 alone."""
    if g.spec(x).dtype is not DType.INT8:
        return _retyped(g, x)
    scale = float32(g.scaling(x).scale / g.pick((1, 16, 200)))
    y = g.quantize(x, DType.INT16, Quantization((scale,), (0,)))
    return g.quantize(y, DType.INT8)


def _largest(g: MixedGenerator, x: int) -> Outputs:
    """ARG_MAX, an output."""
    shape = list(g.shape(x))
    axis = g.pick(range(len(shape)))
    del shape[axis]
    table = options.BuiltinOptions(ARG_MAX_OPTIONS, {0: bytes([INT32])})
    y = g.tensor("largest", shape, DType.INT32)
    g.operator("ARG_MAX", (x, g.constant("axis", np.array(axis, np.int32))), (y,), table, version=2)
    g.output(y)
    return ()


def _gather(g: Generator, x: int) -> Outputs:
    axis = g.pick(range(len(g.shape(x))))
    size = g.shape(x)[axis]
    return g.gather(x, g.rng.integers(0, size, g.pick((1, 2, 3, size))), axis)


def _paired(g: Generator, x: int) -> Outputs:
    """ADD, SUB, MUL, MAXIMUM, MINIMUM of any ranks, broadcast in any way."""
    spec, shape = g.spec(x), g.shape(x)
    fitting = [t for t in g.tensors if g.spec(t).dtype is spec.dtype and g.is_eight_bits(t)
               and _is_met(shape, g.shape(t))]  # fmt: skip
    other = g.choose(fitting or [x])
    if g.chance(0.4) and shape:
        kept = tuple(d if g.chance(0.5) else 1 for d in shape)[g.pick(range(len(shape))) :]
        other = g.new_constant(kept if g.chance(0.9) else ())
    pair = g.either_way(x, other)
    whole = np.broadcast_shapes(shape, g.shape(other))
    if len(whole) > 4 and shape != g.shape(other):
        return ()
    op = g.choose(("ADD", "ADD", "SUB", "MUL", "MUL", "MAXIMUM", "MINIMUM"))
    table, result = PAIRS[op], g.quantization()
    if table is None:
        if g.spec(other).quantization != spec.quantization:
            return ()
        result = g.scaling(x)
    made = None if table is None else table(g.choose(CLAMPED))
    return g.result(op, pair, op.lower(), whole, result, options=made, version=2)


def _is_met(one: Sequence[int], other: Sequence[int]) -> bool:
    try:
        whole = np.broadcast_shapes(tuple(one), tuple(other))
    except ValueError:
        return False
    return tuple(one) == tuple(other) or (prod(whole) <= 20000 and len(whole) <= 4)


def _reduced2(g: Generator, x: int) -> Outputs:
    """MEAN, SUM, REDUCE_MAX over any axes."""
    rank = len(g.shape(x))
    if rank > 4:
        return ()
    axes = [a for a in range(rank) if g.chance(0.5)] or [rank - 1]
    given = [a - rank if g.chance(0.3) else a for a in axes]
    if g.chance(0.1):
        given.append(given[0])
    op = g.choose(("MEAN", "SUM", "REDUCE_MAX"))
    result = None if op == "REDUCE_MAX" else g.quantization()
    return g.reduced(op, x, result, keep_dims=g.chance(0.5), axes=given)


def _weighted(g: MixedGenerator, x: int) -> Outputs:
    """FULLY_CONNECTED or CONV_2D whose weights or biases are computed, shared or inputs."""
    spec, shape = g.spec(x), g.shape(x)
    count = g.pick((1, 3, 8, 16, 17))
    is_dense = len(shape) != 4 or g.chance(0.4)
    kept = (count, shape[-1]) if is_dense else (count, 1, 1, shape[-1])
    low, high = LIMITS[spec.dtype]
    values = g.rng.integers(low + 1, high + 1, kept).astype(spec.dtype.element.dtype)
    scale = float32(np.exp(g.rng.uniform(-7, -2)))
    weight = Quantization((scale,), (0 if spec.dtype is DType.INT8 else 128,))
    origin = g.pick(range(4))
    if origin == 0:  # by a node of constants
        weights = g.reshape(g.constant("raw", values.reshape(-1), weight), kept)
    elif origin == 1:
        weights = g.input("input_weights", kept, spec.dtype, weight)
    else:
        weights = g.constant("weights", values, weight)
    inputs = [x, weights]
    bias_kind = g.pick(range(4))
    if bias_kind:
        bias = g.rng.integers(-5000, 5000, count).astype(np.int32)
        product = float(np.float32(g.scaling(x).scale) * np.float32(scale))
        own = Quantization((product,), (0,))
        is_input = bias_kind == 1
        inputs.append(
            g.input("input_bias", (count,), DType.INT32, own)
            if is_input
            else g.constant("bias", bias, own)
        )
    elif is_dense:
        inputs.append(-1)
    clamp, result, made = g.choose(CLAMPED), g.quantization(), []
    for _ in range(g.pick((1, 1, 2))):
        if is_dense:
            layer = layers.dense_layer(shape, count, clamp, keep_num_dims=g.chance(0.5))
        else:
            layer = layers.conv_layer(shape, count, layers.Window(), clamp)
        how: dict[str, Any] = {"options": layer.options, "version": 4 if is_dense else 3}
        name = "dense" if is_dense else "point"
        made.append(g.result(layer.op, inputs, name, layer.result, result, **how))
    return made


def _product(g: Generator, x: int) -> Outputs:
    """BATCH_MATMUL of two computed values: of rows with rows, or columns with columns."""
    shape = g.shape(x)
    if g.spec(x).dtype is not DType.INT8 or not 2 <= len(shape) <= 4 or prod(shape) > 6000:
        return ()
    is_turned = g.chance(0.4)
    size = shape[-1] if is_turned else shape[-2]
    table = BatchMatMulOptions(is_turned, not is_turned, False)
    whole, result = (*shape[:-2], size, size), g.quantization()
    return g.result("BATCH_MATMUL", (x, x), "product", whole, result, options=table, version=2)


def _shape(g: Generator, x: int) -> Outputs:
    """Any other shape, of ranks 1 to 6."""
    factors = [p for size in g.shape(x) for p in _primes(size)]
    g.rng.shuffle(factors)
    new = [1] * g.pick((1, 2, 3, 4, 4, 4, 5, 6))
    for factor in factors:
        new[g.pick(range(len(new)))] *= factor
    spec = g.spec(x)
    if spec.quantization is None and spec.dtype is not DType.FLOAT32:
        return ()
    if g.chance(0.8):
        return g.reshape(x, new)
    wanted = list(new)  # with one size left open
    wanted[g.pick(range(len(new)))] = -1
    table = options.reshape(wanted)
    return g.result("RESHAPE", (x,), "open", new, options=table, numbers={"shape": wanted})


def _primes(size: int) -> list[int]:
    found = []
    for p in range(2, size + 1):
        while size % p == 0:
            found.append(p)
            size //= p
    return found


def _turned(g: Generator, x: int) -> Outputs:
    rank = len(g.shape(x))
    return g.transpose(x, g.rng.permutation(rank).tolist()) if rank < 6 else ()


def _joined(g: Generator, x: int) -> Outputs:
    """CONCATENATION along any axis, also of tensors with other scales, or PACK."""
    spec, shape = g.spec(x), g.shape(x)
    axis = g.pick(range(len(shape)))
    like = [t for t in g.tensors if g.spec(t).dtype is spec.dtype and g.is_eight_bits(t)]
    parts = beside(g, x, axis, like)
    if g.chance(0.15):
        parts.append(g.new_constant(shape))
    same = [t for t in parts if g.spec(t).quantization == spec.quantization]
    if g.chance(0.3) and len(shape) <= 4:
        place = g.pick(range(len(shape) + 1))
        return g.pack([t for t in same if g.shape(t) == shape], place)
    if spec.dtype is DType.INT8:  # of int8 the kernel copies whatever the scales are
        parts = same
    g.rng.shuffle(parts)
    return g.concatenation(parts, axis - len(shape) if g.chance(0.3) else axis)


def _cut(g: Generator, x: int) -> Outputs:
    """STRIDED_SLICE with masks and negative numbers, SLICE with -1, SPLIT, UNPACK."""
    shape = g.shape(x)
    rank, kind = len(shape), g.pick(range(4))
    axis = g.pick(range(rank))
    if kind == 0 and rank <= 5:
        return _strided(g, x, axis)
    if kind == 1 and rank <= 5:
        begin = [g.pick(range(d)) if g.chance(0.5) else 0 for d in shape]
        sizes = [g.pick(range(1, d - b + 1)) for b, d in zip(begin, shape, strict=True)]
        given = [-1 if b + s == d and g.chance(0.5) else s
                 for b, s, d in zip(begin, sizes, shape, strict=True)]  # fmt: skip
        number = np.int64 if g.chance(0.3) else np.int32
        box = [g.constant("box", np.array(values, number)) for values in (begin, given)]
        return g.result("SLICE", (x, *box), "slice", sizes, version=2)
    if kind == 2 and shape[axis] <= 8:
        return g.unpack(x, axis)
    if rank > 4:
        return ()
    counts = [n for n in (1, 2, 3, 4) if shape[axis] % n == 0]
    return g.split(x, g.choose(counts), axis - rank if g.chance(0.3) else axis)


def _strided(g: Generator, x: int, axis: int) -> int:
    """Add a slice with masks, negative numbers, steps, and without ``axis``."""
    shape = g.shape(x)
    begin = [g.pick(range(d)) if g.chance(0.4) else 0 for d in shape]
    end = [g.pick(range(b + 1, d + 1)) if g.chance(0.4) else d
           for b, d in zip(begin, shape, strict=True)]  # fmt: skip
    steps = [g.pick((1, 1, 1, 2, 3)) for _ in shape]
    shrink = 0
    if g.chance(0.3):
        shrink = 1 << axis
        end[axis], steps[axis] = begin[axis] + 1, 1
    sizes = [-((b - e) // s) for b, e, s in zip(begin, end, steps, strict=True)]
    begin_mask = sum(1 << d for d, b in enumerate(begin) if b == 0 and g.chance(0.5)) & ~shrink
    end_mask = sum(1 << d for d, e in enumerate(end) if e == shape[d] and g.chance(0.5)) & ~shrink
    given = [b - d if g.chance(0.3) and not begin_mask >> a & 1 else b
             for a, (b, d) in enumerate(zip(begin, shape, strict=True))]  # fmt: skip
    until = [e - d if e < d and g.chance(0.3) else e for e, d in zip(end, shape, strict=True)]
    until = [b + 1 if shrink >> a & 1 else e
             for a, (b, e) in enumerate(zip(given, until, strict=True))]  # fmt: skip
    kept = tuple(s for a, s in enumerate(sizes) if not shrink >> a & 1)
    table = StridedSliceOptions(begin_mask, end_mask, 0, 0, shrink)
    numbers = {"begin": given, "end": until, "steps": steps}
    return g.result(
        "STRIDED_SLICE", (x,), "strided", kept, options=table, numbers=numbers, version=2
    )


def _padded(g: Generator, x: int) -> Outputs:
    """PAD along any axis."""
    rank = len(g.shape(x))
    amounts = g.rng.integers(0, 3, (rank, 2)) * (g.rng.random((rank, 2)) < 0.4)
    return g.pad(x, amounts.tolist()) if rank <= 4 else ()


def _tiled(g: Generator, x: int) -> Outputs:
    times = [g.pick((1, 1, 2)) for _ in g.shape(x)]
    fits = prod(g.shape(x)) <= 3000 and len(times) <= 4
    return g.tile(x, times) if fits else ()


OF_ANY_TYPE: dict[str, Step] = {
    make.__name__.strip("_"): make for make in (_retyped, _floating, _wide, _largest, _shape)
}
OF_EIGHT_BITS: dict[str, Step] = {"softmax": shares} | {
    make.__name__.strip("_"): make
    for make in (
        _gather, _turned, computed, _paired, _joined, _cut, _reduced2, _padded, _weighted, _product,
        _tiled,
    )
}  # fmt: skip
STEPS = (*2 * ("retyped",), *2 * ("floating",), "wide", "softmax", "largest", "gather",
         *4 * ("shape",), *2 * ("turned",), *2 * ("computed",), *4 * ("paired",), *2 * ("joined",),
         *4 * ("cut",), *2 * ("reduced2",), "padded", *3 * ("weighted",), "product",
         "tiled")  # fmt: skip
STEPS_OF_ONE_VALUE = ("retyped", "floating", "wide", "shape", "computed", "paired")
