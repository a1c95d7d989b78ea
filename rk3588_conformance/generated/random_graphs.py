"""Random graphs: tensors that are reused, several inputs and outputs, batches above 1, constants in
every position of operands. One seed, one model.

* ``random_graph``: images of 8 bits through convolutions, additions, aliases, padding, nodes of the
  CPU, and in half of the graphs everything else, in any combination; shapes change in between.
* ``fused_graph``: the same amid what ``numerics=auto`` joins: convolutions with a function, a
  product with their own LOGISTIC (SiLU) or a residual addition behind them, or both.
* ``mixed_graph``: as converters of several kinds of models leave them: both 8-bit types, float32,
  int16 and integers in the middle, ranks 1 to 6, weights that are computed, outputs that are listed
  twice, are inputs or constants.
* ``float_graph``: float operators, for ``float=fp16``.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from delegate.model.graph import DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated import float_steps, mixed_steps, move_steps, steps
from rk3588_conformance.generated.generator import (
    CHANNELS,
    EIGHT_BITS,
    SIDES,
    Generator,
    RandomGraph,
    Step,
    first_of,
)

FIRST_STEPS = (*3 * ("conv",), *2 * ("depthwise",), "dense", *4 * ("add",), *3 * ("concat",),
               *2 * ("split",), *2 * ("slice",), *2 * ("pad",), "pool", "input")  # fmt: skip
"""Operators of the first networks."""
LATER_STEPS = (*2 * ("function",), "shares", "quotient", "slopes", *4 * ("pair",), "squares",
               "extremum", *2 * ("pooled",), "reduced", *2 * ("resized",), *2 * ("spread",),
               "blocks", *2 * ("transposed",), "reshaped", "bordered", "uneven", "repeated",
               "gathered", "flipped")  # fmt: skip
MAKERS: dict[str, Step] = steps.MAKERS | move_steps.MAKERS

_STRETCHES = (-3, -1, 0, 0, 1, 2, 6)
_MOST_NODES = 9
_INFERENCES = 3
# Seeds of one kind of graphs lie below those of the next.
_FUSED, _FLOAT = 1 << 50, 1 << 51
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33)
_MOST_MIXED_ELEMENTS = 6000


def _image(g: Generator) -> int:
    return g.new_input((g.batch, g.pick(SIDES), g.pick(SIDES), g.pick(CHANNELS)))


def random_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``: at least one node, at most some fifteen."""

    def made(seed: int) -> Generator | None:
        g = Generator(seed)
        g.tensors.append(_image(g))
        for _ in range(g.pick(range(1, _MOST_NODES + 1))):
            names = FIRST_STEPS if g.chance(g.share_of_first) else LATER_STEPS
            name = g.choose(names)
            g.take(name, MAKERS[name](g, g.source()))
        for tensor in g.shown():
            g.output(tensor)
        return g if any(word != "input" for word in g.words) else None

    g = first_of(made, seed)
    batches = [g.batch, g.batch]
    if g.is_resized:
        batches += [g.pick((1, 2, 3, 4)) for _ in range(3)]
    stretches = [(0, 0) for _ in batches]
    if g.is_stretched:
        stretches += [(g.pick(_STRETCHES), g.pick(_STRETCHES)) for _ in range(3)]
        batches += 3 * batches[-1:]
    words = f"{g.dtype.name} batches {batches} stretches {stretches}: {' '.join(g.words)}"
    return RandomGraph(g.build(), words, tuple(batches), tuple(stretches))


def _of_own_shapes(g: Generator) -> RandomGraph:
    words = f"{g.dtype.name} batch {g.batch}: {' '.join(g.words)}"
    content = g.build(*g.shown())
    return RandomGraph(content, words, (g.batch,) * _INFERENCES, ((0, 0),) * _INFERENCES)


def fused_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``."""
    g = Generator(_FUSED + seed)
    g.is_resized = g.is_stretched = False
    g.tensors.append(_image(g))
    for _ in range(g.pick(range(1, 7))):
        if g.chance(0.3):
            name = g.choose(FIRST_STEPS)
            g.take(name, MAKERS[name](g, g.source()))
        else:
            _block(g)
    return _of_own_shapes(g)


def _block(g: Generator) -> None:
    """A convolution that mostly keeps the shape, and what may follow it."""
    x = g.source()
    if len(g.shape(x)) != 4:
        return
    keeps = g.chance(0.7)
    side = g.pick((1, 1, 3, 3, 5))
    window = Window(kh=side, kw=g.pick((1, 3, side)), padding=Padding.SAME)
    channels = g.shape(x)[3] if keeps else g.pick(CHANNELS)
    if g.chance(0.25):
        y = g.depthwise(x, window, g.numbers())
    else:
        y = g.conv(x, channels, window, g.numbers())
    g.take("block", y)
    if g.chance(0.6):
        y = _activated(g, y)
        g.take("function", y)
    others = [x] if g.shape(x) == g.shape(y) else [t for t in g.like(y) if t not in (x, y)]
    if others and g.chance(0.6):
        pair = g.either_way(y, g.choose(others))
        g.take("sum", steps.sum_of(g, pair, g.quantization()))


def _activated(g: Generator, x: int) -> int:
    """SiLU, or a function of one node."""
    if g.chance(0.4):
        return steps.computed(g, x)
    gate = g.function("LOGISTIC", (x,), Quantization((1 / 256,), (LIMITS[g.dtype][0],)))
    return g.function("MUL", g.either_way(x, gate), g.quantization(), MulOptions())


class MixedGenerator(Generator):
    """The generator of tensors of several types and ranks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_resized = self.is_stretched = False
        self.shared_of = {
            kind: self.drawn(kind) if self.chance(0.7) else None for kind in EIGHT_BITS
        }

    def turn_to(self, kind: DType) -> None:
        if kind in EIGHT_BITS:
            self.dtype, self.shared = kind, self.shared_of[kind]

    def quantize(self, x: int, kind: DType, quantization: Quantization | None = None) -> int:
        self.turn_to(kind)
        given = quantization or self.quantization()
        return self.function("QUANTIZE", (x,), given, dtype=kind, version=2)

    def dequantize(self, x: int) -> int:
        y = self.tensor("real", self.shape(x), DType.FLOAT32)
        self.operator("DEQUANTIZE", (x,), (y,), version=2)
        return y

    def any_input(self) -> int:
        if self.chance(0.3):
            self.turn_to(self.choose(EIGHT_BITS))
        rank = self.pick((4, 4, 4, 4, 1, 2, 3, 5))
        shape = tuple(self.pick(_SIZES) for _ in range(rank))
        while prod(shape) > _MOST_MIXED_ELEMENTS:
            shape = tuple(max(size // 2, 1) for size in shape)
        if self.chance(0.12):
            return self.input("input", shape, DType.FLOAT32)
        return self.new_input(shape)

    def grow(self, x: int) -> None:
        """Take a step of images half of the time, where ``x`` is one."""
        self.turn_to(self.spec(x).dtype)
        if len(self.shape(x)) == 4 and self.is_eight_bits(x) and self.chance(0.5):
            name = self.choose((*FIRST_STEPS, *LATER_STEPS))
            # Steps of images look for others of the same kind and rank.
            others, kind = self.tensors, self.spec(x).dtype
            images = [t for t in others if len(self.shape(t)) == 4 and self.is_eight_bits(t)]
            self.tensors = rest = [t for t in images if self.spec(t).dtype is kind]
            made = MAKERS[name](self, x)
            self.tensors = [*(t for t in self.tensors if t not in rest), *others]
        else:
            name = self.choose(
                mixed_steps.STEPS if self.shape(x) else mixed_steps.STEPS_OF_ONE_VALUE
            )
            makers = mixed_steps.OF_ANY_TYPE
            if self.is_eight_bits(x):
                makers = makers | mixed_steps.OF_EIGHT_BITS
            made = makers[name](self, x) if name in makers else ()
        self.take(name, made)

    def shown(self) -> list[int]:
        listed = super().shown()
        if listed and self.chance(0.2):
            listed.append(self.choose(listed))
        if self.chance(0.1):
            listed.append(self.tensors[0])
        if self.chance(0.05):
            listed.append(self.new_constant((3,)))
        return listed


def mixed_graph(seed: int) -> RandomGraph:
    def made(seed: int) -> Generator | None:
        g = MixedGenerator(seed)
        g.tensors += [g.any_input() for _ in range(g.pick((1, 1, 2, 3)))]
        for _ in range(g.pick(range(1, 11))):
            g.grow(g.source())
        listed = g.shown()
        for tensor in listed:
            g.output(tensor)
        return g if g.words and listed else None

    g = first_of(made, seed)
    return RandomGraph(g.build(), " ".join(g.words))


class FloatGenerator(Generator):
    """Values of the order of one, whatever the depth."""

    def __init__(self, seed: int) -> None:
        super().__init__(_FLOAT + seed)
        self.dtype, self.shared = DType.FLOAT32, None
        self.is_resized = self.is_stretched = False
        self.has_half_weights = self.chance(0.5)

    def new_input(self, shape: Sequence[int]) -> int:
        return self.input("input", shape, self.dtype)

    def numbers_of(self, shape: Sequence[int], deviation: float) -> int:
        """A constant: float32, or float16 behind DEQUANTIZE."""
        values = self.rng.normal(scale=deviation, size=tuple(shape)).astype(np.float32)
        if not self.has_half_weights:
            return self.constant("numbers", values)
        half = self.constant("half", values.astype(np.float16))
        return self.result("DEQUANTIZE", (half,), "numbers", dtype=DType.FLOAT32)


def float_graph(seed: int) -> RandomGraph:
    """The graph of ``seed``: at least one node."""

    def made(seed: int) -> Generator | None:
        g = FloatGenerator(seed)
        g.tensors.append(_image(g))
        for _ in range(g.pick(range(1, _MOST_NODES + 1))):
            name = g.choose(float_steps.STEPS)
            g.take(name, float_steps.MAKERS[name](g, g.source()))
        return g if g.words else None

    return _of_own_shapes(first_of(made, seed))


def inferences(graph: RandomGraph, seed: int) -> list[Mapping[int, Any]]:
    """Values for every input of every inference: uniform over the type, or its ends alone."""
    rng = np.random.default_rng([seed, 1])
    found = read_graph(graph.content)
    image = found.tensor(found.inputs[0]).shape[1:3]
    made: list[Mapping[int, Any]] = []
    for batch, (rows, columns) in zip(
        graph.batches or (1, 1), graph.stretches or ((0, 0),) * 2, strict=True
    ):
        feeds: dict[int, Any] = {}
        for index in found.inputs:
            tensor = found.tensor(index)
            shape = list(tensor.shape)
            if tensor.shape_signature:
                shape[0] = batch
            if len(shape) == 4 and tuple(shape[1:3]) == image:
                shape[1:3] = max(shape[1] + rows, 1), max(shape[2] + columns, 1)
            kind = np.dtype(tensor.dtype.name.lower())
            if kind.kind == "f":
                feeds[index] = rng.normal(0, 2, shape).astype(kind)
                continue
            low, high = LIMITS.get(tensor.dtype, (-5000, 5000))
            values = rng.integers(low, high + 1, shape)
            if rng.random() < 0.15:
                values = rng.choice((low, high), shape)
            feeds[index] = values.astype(kind)
        made.append(feeds)
    return made


def float_inferences(graph: RandomGraph, seed: int) -> list[Mapping[int, Any]]:
    """Values for inputs: ordinary ones, and what fp16 cannot hold."""
    rng = np.random.default_rng([seed, 1])
    found = read_graph(graph.content)
    shapes = [(t, found.tensor(t).shape) for t in found.inputs]
    plain = [{t: rng.normal(size=s).astype(np.float32) for t, s in shapes} for _ in range(2)]
    ends = np.array([65504, -65504, 1e9, -1e9, 2.0**-14, 2.0**-25, 0.0, -0.0, 2049, 1.0, -1.0])
    return [*plain, {t: rng.choice(ends, s).astype(np.float32) for t, s in shapes}]
