"""Random graphs of float operators, for ``float=fp16``: what networks in float are made of, with
tensors that are reused, several outputs, and weights as float32 or as float16 behind DEQUANTIZE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from delegate.ops.add import AddOptions
from delegate.ops.batch_matmul import BatchMatMulOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from delegate.ops.mirror_pad import REFLECT, SYMMETRIC
from delegate.ops.mul import MulOptions
from delegate.ops.sub import SubOptions
from rk3588_conformance.builder import layers, moves, options, pooling
from rk3588_conformance.builder.moves import pad
from rk3588_conformance.generated import random_graphs
from rk3588_conformance.generated.random_graphs import CHANNELS, SIDES, Generator, RandomGraph

_APART = 1 << 51  # seeds of ``random_graphs`` and ``fused_graphs`` lie below
_MOST_NODES = 9
_INFERENCES = 3
_UNARY = ("RELU", "RELU6", "HARD_SWISH", "LOGISTIC", "TANH", "LEAKY_RELU", "ABS", "PRELU")
_PAIRS: dict[str, Any] = {
    "ADD": AddOptions,
    "SUB": SubOptions,
    "MUL": MulOptions,
    "MAXIMUM": None,
    "MINIMUM": None,
}
_CLAMPS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6)


class FloatGenerator(Generator):
    """Values of the order of one, whatever the depth."""

    def __init__(self, seed: int) -> None:
        super().__init__(_APART + seed)
        self.dtype, self.shared = DType.FLOAT32, None
        self.is_resized = self.is_stretched = False
        self.has_half_weights = self.chance(0.5)

    def quantization(self) -> Quantization:
        return Quantization((), ())

    def input(self, shape: tuple[int, ...]) -> int:
        return self.builder.input(f"input{len(self.tensors)}", shape, self.dtype)

    def constant(self, shape: tuple[int, ...]) -> int:
        return self.numbers_of(shape, 1.0)

    def numbers_of(self, shape: Sequence[int], deviation: float) -> int:
        """A constant: float32, or float16 behind DEQUANTIZE."""
        values = self.rng.normal(scale=deviation, size=tuple(shape)).astype(np.float32)
        name = f"numbers{len(self.words)}_{len(shape)}"
        if not self.has_half_weights:
            return self.builder.constant(name, values)
        half = self.builder.constant(f"{name}_half", values.astype(np.float16))
        result = self.builder.tensor(name, values.shape, DType.FLOAT32)
        self.builder.operator("DEQUANTIZE", (half,), (result,))
        return result

    def made(self, op: str, operands: Sequence[int], shape: Sequence[int], table: object) -> int:
        y = self.builder.tensor(f"{op.lower()}{len(self.words)}", tuple(shape), self.dtype)
        self.builder.operator(op, operands, (y,), table)  # type: ignore[arg-type]
        return y

    def clamp(self) -> Activation:
        return _CLAMPS[self.pick(len(_CLAMPS))]


def _conv(g: Generator, x: int) -> list[int]:
    """Or a depthwise convolution."""
    assert isinstance(g, FloatGenerator)
    window = g.window(x)
    if window is None:
        return []
    n, h, w, c = g.shape(x)
    rows, columns = (
        layers.output_size(size, kernel, stride, dilation, window.padding)
        for size, kernel, stride, dilation in (
            (h, window.kh, window.sh, window.dh),
            (w, window.kw, window.sw, window.dw),
        )
    )
    is_depthwise = g.chance(0.35)
    taps = window.kh * window.kw
    strides = window.padding, window.sh, window.sw
    if is_depthwise:
        outputs, kernel, fan_in = c, (1, window.kh, window.kw, c), taps
        table: Any = DepthwiseOptions(*strides, window.dh, window.dw, g.clamp(), 1)
    else:
        outputs = g.pick(CHANNELS)
        kernel, fan_in = (outputs, window.kh, window.kw, c), taps * c
        table = ConvOptions(*strides, window.dh, window.dw, g.clamp())
    weights = g.numbers_of(kernel, 1 / math.sqrt(fan_in))
    bias = g.numbers_of((outputs,), 0.3)
    g.read.add(x)
    op = "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D"
    return [g.made(op, (x, weights, bias), (n, rows, columns, outputs), table)]


def _pair(g: Generator, x: int) -> list[int]:
    """Add a node of two tensors, or of one and a constant."""
    assert isinstance(g, FloatGenerator)
    shape = g.shape(x)
    fitting = [t for t in g.tensors if g.shape(t) == shape]
    other = fitting[g.pick(len(fitting))]
    if g.chance(0.3):
        other = g.constant((shape[3],) if g.chance(0.7) else (1,))
    op = tuple(_PAIRS)[g.pick(len(_PAIRS))]
    make = _PAIRS[op]
    g.read.update((x, other))
    return [g.made(op, (x, other), shape, make(g.clamp()) if make is not None else None)]


def _function(g: Generator, x: int) -> list[int]:
    assert isinstance(g, FloatGenerator)
    op = _UNARY[g.pick(len(_UNARY))]
    operands: tuple[int, ...] = (x,)
    if op == "PRELU":
        operands = (x, g.numbers_of((1, 1, g.shape(x)[3]), 0.3))
    table = LeakyReluOptions(0.1) if op == "LEAKY_RELU" else None
    g.read.add(x)
    return [g.made(op, operands, g.shape(x), table)]


def _concat(g: Generator, x: int) -> list[int]:
    axis = g.pick((3, 3, 3, 1, 2))
    shape = g.shape(x)
    parts = [x]
    for tensor in g.tensors:
        other = g.shape(tensor)
        fits = (*other[:axis], *other[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])
        if fits and len(parts) < 4 and g.chance(0.6):
            parts.append(tensor)
    if len(parts) < 2:
        return []
    g.read.update(parts)
    return [moves.concatenation(g.builder, parts, axis, f"concat{len(g.words)}")]


def _mean(g: Generator, x: int) -> list[int]:
    """Or the largest value."""
    g.read.add(x)
    if g.chance(0.3):
        return [pooling.reduced(g.builder, "REDUCE_MAX", x, keep_dims=True)]
    return [pooling.reduced(g.builder, "MEAN", x, g.quantization(), keep_dims=True)]


def _padded(g: Generator, x: int) -> list[int]:
    """Pad with zeros, mostly for a convolution, or with mirrored pixels."""
    _, h, w, _ = g.shape(x)
    mode = g.pick((REFLECT, SYMMETRIC)) if g.chance(0.3) else None
    most = 3 if mode is None else min(h, w, 3) - (mode == REFLECT)
    sides = g.rng.integers(0, most + 1, (2, 2)).tolist()
    channels = g.rng.integers(0, 12, 2).tolist() if mode is None and g.chance(0.3) else [0, 0]
    g.read.add(x)
    y = pad(g.builder, x, [[0, 0], *sides, channels], mode=mode, name=f"padded{len(g.words)}")
    return [y, *(_conv(g, y) if g.chance(0.6) else [])]


def _product(g: Generator, x: int) -> list[int]:
    """Add a product of two computed matrices of each row of the images, rows with rows or with
    columns, brought back to the order of one; often of one tensor with itself.
    """
    assert isinstance(g, FloatGenerator)
    n, h, w, c = g.shape(x)
    is_turned = g.chance(0.5)
    fitting = [
        t for t in g.tensors
        if g.shape(t)[:2] == (n, h) and g.shape(t)[3 if is_turned else 2] == c
    ]  # fmt: skip
    if not fitting:
        return []
    other = fitting[g.pick(len(fitting))]
    columns = g.shape(other)[2 if is_turned else 3]
    g.read.update((x, other))
    table = options.of(BatchMatMulOptions(False, is_turned, False))
    y = g.made("BATCH_MATMUL", (x, other), (n, h, w, columns), table)
    scale = g.builder.constant(f"scale{len(g.words)}", np.array([1 / c], np.float32))
    g.read.add(y)
    return [y, g.made("MUL", (y, scale), (n, h, w, columns), MulOptions())]


_SHARED = ("split", "slice", "pooled", "resized", "blocks", "transposed", "reshaped", "uneven",
           "repeated", "gathered")  # fmt: skip
MAKERS: dict[str, Callable[[Generator, int], list[int]]] = {
    "conv": _conv,
    "pair": _pair,
    "function": _function,
    "concat": _concat,
    "mean": _mean,
    "padded": _padded,
    "product": _product,
    **{name: random_graphs.MAKERS[name] for name in _SHARED},
}
STEPS = (*5 * ("conv",), *4 * ("pair",), *3 * ("function",), *2 * ("concat",), *2 * ("pooled",),
         *2 * ("product",), "mean", "padded", *_SHARED)  # fmt: skip


def float_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``: at least one node."""
    for attempt in range(100):
        g = FloatGenerator(seed + (attempt << 40))
        g.tensors.append(g.input((g.batch, g.pick(SIDES), g.pick(SIDES), g.pick(CHANNELS))))
        for _ in range(g.pick(range(1, _MOST_NODES + 1))):
            name = STEPS[g.pick(len(STEPS))]
            made = MAKERS[name](g, g.source())
            if made:
                g.words.append(name)
                g.tensors += made
        g.outputs()
        if g.words:
            break
    words = f"float batch {g.batch}: {' '.join(g.words)}"
    batches = (g.batch,) * _INFERENCES
    return RandomGraph(g.builder.build(), batches, ((0, 0),) * _INFERENCES, words)


def float_inferences(
    seed: int, shapes: Sequence[tuple[int, tuple[int, ...]]]
) -> list[dict[int, npt.NDArray[np.float32]]]:
    """Values for inputs (tensor, shape): ordinary ones, and what fp16 cannot hold."""
    rng = np.random.default_rng([seed, 1])
    plain = [{t: rng.normal(size=s).astype(np.float32) for t, s in shapes} for _ in range(2)]
    ends = np.array([65504, -65504, 1e9, -1e9, 2.0**-14, 2.0**-25, 0.0, -0.0, 2049, 1.0, -1.0])
    return [*plain, {t: rng.choice(ends, s).astype(np.float32) for t, s in shapes}]
