"""Steps of mixed graphs: other element types, any rank, any axis, weights that are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.mul import MulOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import moves, options
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated import mixed_moves, random_operators

if TYPE_CHECKING:
    from rk3588_conformance.generated.mixed_graphs import MixedGenerator

EIGHT_BITS = (DType.INT8, DType.UINT8)
FLOATS = ("RELU", "RELU6", "ABS", "LOGISTIC", "TANH", "NEG")
ARG_MAX_OPTIONS, GATHER_OPTIONS = 40, 23
"""Numbers of the schema's union."""
INT32 = 2  # of the schema's element types


def _retyped(g: MixedGenerator, x: int) -> list[int]:
    if not g.is_eight_bits(x):
        return _to_eight_bits(g, x)
    kind = EIGHT_BITS[g.pick(2)]
    g.read.add(x)
    return [g.quantize(x, kind, g.quantization_of(kind))]


def _to_eight_bits(g: MixedGenerator, x: int) -> list[int]:
    spec = g.builder.spec(x)
    if spec.dtype is DType.FLOAT32 or spec.dtype is DType.INT16:
        g.read.add(x)
        kind = EIGHT_BITS[g.pick(2)] if spec.dtype is DType.FLOAT32 else DType.INT8
        return [g.quantize(x, kind, g.quantization_of(kind))]
    return []


def _floating(g: MixedGenerator, x: int) -> list[int]:
    """A stretch in float32, mostly back to 8 bits."""
    spec = g.builder.spec(x)
    g.read.add(x)
    y = x if spec.dtype is DType.FLOAT32 else None
    if y is None:
        if not g.is_eight_bits(x) and spec.dtype is not DType.INT16:
            return []
        y = g.dequantize(x)
    made = [y]
    for _ in range(g.pick((0, 0, 1, 2))):
        op = FLOATS[g.pick(len(FLOATS))]
        z = g.builder.tensor(g.name(op.lower()), g.shape(y), DType.FLOAT32)
        g.builder.operator(op, (y,), (z,), None)
        g.read.add(y)
        y = z
        made.append(y)
    if g.chance(0.75):
        kind = EIGHT_BITS[g.pick(2)]
        g.read.add(y)
        made.append(g.quantize(y, kind, g.quantization_of(kind)))
    return made if g.chance(0.2) else made[-1:]


def _wide(g: MixedGenerator, x: int) -> list[int]:
    """int16 and back, from int8 alone."""
    spec = g.builder.spec(x)
    if spec.dtype is not DType.INT8 or spec.quantization is None:
        return _to_eight_bits(g, x)
    scale = float(np.float32(spec.quantization.scale / g.pick((1, 16, 200))))
    y = g.quantize(x, DType.INT16, Quantization((scale,), (0,)))
    g.read.update((x, y))
    return [g.quantize(y, DType.INT8, g.quantization_of(DType.INT8))]


def _softmax(g: MixedGenerator, x: int) -> list[int]:
    spec = g.builder.spec(x)
    if not g.is_eight_bits(x) or len(spec.shape) > 4:
        return []
    low = LIMITS[spec.dtype][0]
    y = g.builder.tensor(
        g.name("softmax"), spec.shape, spec.dtype, Quantization((1 / 256,), (low,))
    )
    g.builder.operator("SOFTMAX", (x,), (y,), options.softmax(1.0), version=2)
    g.read.add(x)
    return [y]


def _largest(g: MixedGenerator, x: int) -> list[int]:
    """ARG_MAX, an output."""
    shape = g.shape(x)
    axis = g.pick(range(len(shape)))
    y = g.builder.tensor(
        g.name("largest"), tuple(s for a, s in enumerate(shape) if a != axis), DType.INT32
    )
    number = g.builder.constant(g.name("axis"), np.array(axis, np.int32))
    kind = options.BuiltinOptions(ARG_MAX_OPTIONS, {0: bytes([INT32])})
    g.builder.operator("ARG_MAX", (x, number), (y,), kind, version=2)
    g.builder.output(y)
    return []


def _gather(g: MixedGenerator, x: int) -> list[int]:
    spec = g.builder.spec(x)
    if not g.is_eight_bits(x):
        return []
    axis = g.pick(range(len(spec.shape)))
    count = g.pick((1, 2, 3, spec.shape[axis]))
    wanted = g.rng.integers(0, spec.shape[axis], count).astype(np.int32)
    shape = (*spec.shape[:axis], count, *spec.shape[axis + 1 :])
    y = g.builder.tensor(g.name("gather"), shape, spec.dtype, spec.quantization)
    indices = g.builder.constant(g.name("indices"), wanted)
    table = options.BuiltinOptions(GATHER_OPTIONS, {0: axis.to_bytes(4, "little")})
    g.builder.operator("GATHER", (x, indices), (y,), table, version=2)
    g.read.add(x)
    return [y]


def _computed(g: MixedGenerator, x: int) -> list[int]:
    """A function of one value, of any rank."""
    if not g.is_eight_bits(x):
        return []
    return random_operators.MAKERS["function"](g, x)


def _paired(g: MixedGenerator, x: int) -> list[int]:
    """ADD, SUB, MUL, MAXIMUM, MINIMUM of any ranks, broadcast in any way."""
    if not g.is_eight_bits(x):
        return []
    spec, shape = g.builder.spec(x), g.shape(x)
    fitting = []
    for t in g.tensors:
        its = g.builder.spec(t)
        if its.dtype is spec.dtype and g.is_eight_bits(t):
            try:
                whole = np.broadcast_shapes(shape, its.shape)
            except ValueError:
                continue
            if prod(whole) <= 20000 and len(whole) <= 4:
                fitting.append(t)
    if len(shape) > 4 and x not in fitting:
        fitting.append(x)
    other = fitting[g.pick(len(fitting))] if fitting else x
    if g.chance(0.4) and shape:
        kept = tuple(d if g.chance(0.5) else 1 for d in shape)[g.pick(range(len(shape))) :]
        other = g.constant(kept if g.chance(0.9) else ())
    pair = (x, other) if g.chance(0.5) else (other, x)
    whole = np.broadcast_shapes(*(g.shape(t) for t in pair))
    if len(whole) > 4 and g.shape(pair[0]) != g.shape(pair[1]):
        return []
    op = ("ADD", "ADD", "SUB", "MUL", "MUL", "MAXIMUM", "MINIMUM")[g.pick(7)]
    quantization = g.quantization_of(spec.dtype)
    if op in ("MAXIMUM", "MINIMUM"):
        if g.builder.spec(other).quantization != spec.quantization:
            return []
        assert spec.quantization is not None
        quantization = spec.quantization
    clamp = random_operators.CLAMPED[g.pick(4)]
    table = {"ADD": AddOptions, "SUB": SubOptions, "MUL": MulOptions}.get(op)
    y = g.builder.tensor(g.name(op.lower()), whole, spec.dtype, quantization)
    g.builder.operator(op, pair, (y,), table(clamp) if table else None, version=2)
    g.read.update(pair)
    return [y]


def _reduced(g: MixedGenerator, x: int) -> list[int]:
    """MEAN, SUM, REDUCE_MAX over any axes."""
    if not g.is_eight_bits(x) or len(g.shape(x)) > 4:
        return []
    spec, shape = g.builder.spec(x), g.shape(x)
    axes = [a for a in range(len(shape)) if g.chance(0.5)] or [len(shape) - 1]
    keep = g.chance(0.5)
    new = tuple(1 if a in axes else s for a, s in enumerate(shape) if keep or a not in axes)
    op = ("MEAN", "SUM", "REDUCE_MAX")[g.pick(3)]
    assert spec.quantization is not None
    quantization = spec.quantization if op == "REDUCE_MAX" else g.quantization_of(spec.dtype)
    y = g.builder.tensor(g.name(op.lower()), new, spec.dtype, quantization)
    given = [a - len(shape) if g.chance(0.3) else a for a in axes]
    if g.chance(0.1):
        given.append(given[0])
    numbers = g.builder.constant(g.name("axes"), np.array(given, np.int32))
    g.builder.operator(op, (x, numbers), (y,), ReducerOptions(keep), version=2)
    g.read.add(x)
    return [y]


def _weighted(g: MixedGenerator, x: int) -> list[int]:
    """FULLY_CONNECTED or CONV_2D whose weights or biases are computed, shared or inputs."""
    if not g.is_eight_bits(x):
        return []
    spec, shape = g.builder.spec(x), g.shape(x)
    count = g.pick((1, 3, 8, 16, 17))
    is_dense = len(shape) != 4 or g.chance(0.4)
    kept = (count, shape[-1]) if is_dense else (count, 1, 1, shape[-1])
    low, high = LIMITS[spec.dtype]
    kind = np.int8 if spec.dtype is DType.INT8 else np.uint8
    values = g.rng.integers(low + 1, high + 1, kept).astype(kind)
    scale = float(np.float32(np.exp(g.rng.uniform(-7, -2))))
    point = 0 if spec.dtype is DType.INT8 else 128
    weight = Quantization((scale,), (point,))
    how = g.pick(range(4))
    if how == 0:  # by a node of constants
        flat = g.builder.constant(g.name("raw"), values.reshape(-1), weight)
        weights = moves.reshape(g.builder, flat, kept, g.name("weights"))
    elif how == 1:
        weights = g.builder.input(g.name("input_weights"), kept, spec.dtype, weight)
    else:
        weights = g.builder.constant(g.name("weights"), values, weight)
    quantization = g.quantization_of(spec.dtype)
    assert spec.quantization is not None
    product = float(np.float32(spec.quantization.scale) * np.float32(scale))
    inputs = [x, weights]
    bias_kind = g.pick(range(4))
    if bias_kind:
        bias = g.rng.integers(-5000, 5000, count).astype(np.int32)
        bias_quantization = Quantization((product,), (0,))
        if bias_kind == 1:
            inputs.append(
                g.builder.input(g.name("input_bias"), (count,), DType.INT32, bias_quantization)
            )
        else:
            inputs.append(g.builder.constant(g.name("bias"), bias, bias_quantization))
    elif is_dense:
        inputs.append(-1)
    clamp = random_operators.CLAMPED[g.pick(4)]
    made = []
    for number in range(g.pick((1, 1, 2))):
        if is_dense:
            keep = g.chance(0.5)
            lead = shape[:-1] if keep else (prod(shape[:-1]),)
            y = g.builder.tensor(
                f"{g.name('dense')}_{number}", (*lead, count), spec.dtype, quantization
            )
            table = FullyConnectedOptions(clamp, keep_num_dims=keep)
            g.builder.operator("FULLY_CONNECTED", inputs, (y,), table, version=4)
        else:
            y = g.builder.tensor(
                f"{g.name('point')}_{number}", (*shape[:3], count), spec.dtype, quantization
            )
            g.builder.operator("CONV_2D", inputs, (y,), ConvOptions(activation=clamp), version=3)
        made.append(y)
    g.read.add(x)
    return made


def _product_of_two(g: MixedGenerator, x: int) -> list[int]:
    """BATCH_MATMUL of two computed values: of rows with rows, or columns with columns."""
    spec, shape = g.builder.spec(x), g.shape(x)
    if spec.dtype is not DType.INT8 or not 2 <= len(shape) <= 4 or prod(shape) > 6000:
        return []
    of_columns = g.chance(0.4)
    size = shape[-1] if of_columns else shape[-2]
    result = (*shape[:-2], size, size)
    y = g.builder.tensor(g.name("product"), result, spec.dtype, g.quantization_of(spec.dtype))
    table = options.of(BatchMatMulOptions(of_columns, not of_columns, False))
    g.builder.operator("BATCH_MATMUL", (x, x), (y,), table, version=2)
    g.read.add(x)
    return [y]


MAKERS: Mapping[str, Callable[[MixedGenerator, int], list[int]]] = {
    "retyped": _retyped,
    "floating": _floating,
    "wide": _wide,
    "softmax": _softmax,
    "largest": _largest,
    "gather": _gather,
    "shape": mixed_moves.reshaped,
    "turned": mixed_moves.turned,
    "computed": _computed,
    "paired": _paired,
    "joined": mixed_moves.joined,
    "cut": mixed_moves.cut,
    "reduced2": _reduced,
    "padded": mixed_moves.padded,
    "weighted": _weighted,
    "product": _product_of_two,
    "tiled": mixed_moves.tiled,
}
STEPS = (*2 * ("retyped",), *2 * ("floating",), "wide", "softmax", "largest", "gather",
         *4 * ("shape",), *2 * ("turned",), *2 * ("computed",), *4 * ("paired",), *2 * ("joined",),
         *4 * ("cut",), *2 * ("reduced2",), "padded", *3 * ("weighted",), "product",
         "tiled")  # fmt: skip

STEPS_OF_ONE_VALUE = ("retyped", "floating", "wide", "shape", "computed", "paired")
