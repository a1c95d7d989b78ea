"""Steps of random graphs of float operators, for ``float=fp16``: what networks in float are made
of, with weights as float32 or as float16 behind DEQUANTIZE.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.gelu import GeluOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.mul import MulOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import layers
from rk3588_conformance.generated import move_steps, steps
from rk3588_conformance.generated.generator import CHANNELS, CLAMPED, Step
from rk3588_conformance.generated.mixed_steps import PAIRS
from rk3588_conformance.grid import Outputs

if TYPE_CHECKING:
    from rk3588_conformance.generated.random_graphs import FloatGenerator

_UNARY = ("RELU", "RELU6", "HARD_SWISH", "LOGISTIC", "TANH", "LEAKY_RELU", "ABS", "PRELU", "GELU",
          "NEG")  # fmt: skip


def _conv(g: FloatGenerator, x: int) -> Outputs:
    """Or a depthwise convolution."""
    window = g.drawn_window(x)
    if window is None:
        return ()
    if g.chance(0.35):
        layer = layers.depthwise_layer(g.shape(x), window, g.choose(CLAMPED))
    else:
        outputs = g.pick(CHANNELS)
        layer = layers.conv_layer(g.shape(x), outputs, window, g.choose(CLAMPED))
    fan_in = math.prod(layer.kernels) // layer.outputs
    weights = g.numbers_of(layer.kernels, 1 / math.sqrt(fan_in))
    bias = g.numbers_of((layer.outputs,), 0.3)
    return g.result(layer.op, (x, weights, bias), "conv", layer.result, options=layer.options)


def _pair(g: FloatGenerator, x: int) -> Outputs:
    """Add a node of two tensors, or of one and a constant."""
    other = g.choose(g.like(x))
    if g.chance(0.3):
        other = g.numbers_of((g.shape(x)[3],) if g.chance(0.7) else (1,), 1.0)
    op = g.choose(tuple(PAIRS))
    make = PAIRS[op]
    table = None if make is None else make(g.choose(CLAMPED))
    return g.result(op, (x, other), op.lower(), options=table)


def _function(g: FloatGenerator, x: int) -> Outputs:
    op = g.choose(_UNARY)
    slopes = (g.numbers_of((1, 1, g.shape(x)[3]), 0.3),) if op == "PRELU" else ()
    table: Any = LeakyReluOptions(0.1) if op == "LEAKY_RELU" else None
    if op == "GELU":
        table = GeluOptions(g.chance(0.5))
    return g.result(op, (x, *slopes), op.lower(), options=table)


def _concat(g: FloatGenerator, x: int) -> Outputs:
    axis = g.pick((3, 3, 3, 1, 2))
    parts = move_steps.beside(g, x, axis, g.tensors)
    return g.concatenation(parts, axis) if len(parts) > 1 else ()


def _mean(g: FloatGenerator, x: int) -> Outputs:
    """Or the largest value."""
    op = "REDUCE_MAX" if g.chance(0.3) else "MEAN"
    axes = (3,) if g.chance(0.3) else (1, 2)
    return g.reduced(op, x, keep_dims=True, axes=axes)


def _padded(g: FloatGenerator, x: int) -> Outputs:
    """Pad with zeros, mostly for a convolution, or with mirrored pixels."""
    mode = g.pick((REFLECT, SYMMETRIC)) if g.chance(0.3) else None
    most = 3 if mode is None else min(*g.shape(x)[1:3], 3) - (mode == REFLECT)
    sides = g.rng.integers(0, most + 1, (2, 2)).tolist()
    channels = g.rng.integers(0, 12, 2).tolist() if mode is None and g.chance(0.3) else [0, 0]
    y = g.pad(x, [[0, 0], *sides, channels], mode=mode)
    more = _conv(g, y) if g.chance(0.6) else ()
    return [y, *((more,) if isinstance(more, int) else more)]


def _product(g: FloatGenerator, x: int) -> Outputs:
    """Add a product of two computed matrices of each row of the images, rows with rows or with
    columns, brought back to the order of one; often of one tensor with itself.
    """
    n, h, w, c = g.shape(x)
    is_turned = g.chance(0.5)
    inner = 3 if is_turned else 2
    fitting = [t for t in g.tensors if g.shape(t)[:2] == (n, h) and g.shape(t)[inner] == c]
    if not fitting:
        return ()
    other = g.choose(fitting)
    shape = (n, h, w, g.shape(other)[5 - inner])
    table = BatchMatMulOptions(False, is_turned, False)
    y = g.result("BATCH_MATMUL", (x, other), "product", shape, options=table)
    scale = g.constant("scale", np.array([1 / c], np.float32))
    return [y, g.result("MUL", (y, scale), "scaled", options=MulOptions())]


def _normalised(g: FloatGenerator, x: int) -> Outputs:
    """Add distances from the mean of a pixel's channels, mostly over their deviation."""
    shape = g.shape(x)
    rows = (*shape[:3], 1)
    axis = g.constant("axis", np.array([-1], np.int32))
    keep = ReducerOptions(True)
    mean = g.result("MEAN", (x, axis), "mean", rows, options=keep)
    distances = g.result("SUB", (x, mean), "distances", shape, options=SubOptions())
    if g.chance(0.3):
        return [mean, distances]
    squares = g.result("SQUARED_DIFFERENCE", (x, mean), "squares", shape)
    variance = g.result("MEAN", (squares, axis), "variance", rows, options=keep)
    # What is below it comes out no larger, and neither do its errors.
    one = g.constant("one", np.array([1], np.float32))
    added = g.result("ADD", (variance, one), "added", rows, options=AddOptions())
    root = g.result("RSQRT", (added,), "root", rows)
    if g.chance(0.5):  # as Keras 3 has it: the factor first
        factors = g.constant("factors", g.rng.normal(size=shape[3:]).astype(np.float32))
        root = g.result("MUL", (root, factors), "scale", shape, options=MulOptions())
    return [mean, g.result("MUL", (distances, root), "normalised", shape, options=MulOptions())]


_SHARED = ("split", "slice", "pooled", "resized", "blocks", "transposed", "reshaped", "uneven",
           "repeated", "gathered", "flipped")  # fmt: skip
MAKERS: dict[str, Step] = {
    make.__name__.strip("_"): make
    for make in (_conv, _pair, _function, _concat, _mean, _padded, _product, _normalised)
} | {name: (steps.MAKERS | move_steps.MAKERS)[name] for name in _SHARED}
STEPS = (*5 * ("conv",), *4 * ("pair",), *3 * ("function",), *2 * ("concat",), *2 * ("pooled",),
         *2 * ("product",), "mean", "padded", "normalised", *_SHARED)  # fmt: skip
