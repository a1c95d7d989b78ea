"""Random graphs as converters of several kinds of models leave them: both 8-bit types, float32,
int16 and integers in the middle, tensors of ranks 1 to 6, parts, moves and reductions along any
axis, weights that are computed, outputs that are listed twice, are inputs or constants.

Beside them every step of ``random_graphs``, where the tensor is an image of 8 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from rk3588_conformance.builder.ranges import LIMITS
from rk3588_conformance.generated import random_graphs, random_operators
from rk3588_conformance.generated.mixed_operators import (
    EIGHT_BITS,
    MAKERS,
    STEPS,
    STEPS_OF_ONE_VALUE,
)
from rk3588_conformance.generated.random_graphs import Generator
from rk3588_conformance.random_layers import draw_quantization

IMAGE_STEPS = (*random_graphs.STEPS, *random_operators.STEPS)
MOST_NODES = 10
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33)


@dataclass(frozen=True)
class MixedGraph:
    content: bytes
    description: str


class MixedGenerator(Generator):
    """``dtype`` and ``shared`` are those of the tensor at hand."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.has_outputs = False
        self.is_resized = self.is_stretched = False
        self.shared_of = {
            kind: draw_quantization(self.rng, kind) if self.chance(0.7) else None
            for kind in EIGHT_BITS
        }

    def turn_to(self, tensor: int) -> None:
        kind = self.builder.spec(tensor).dtype
        if kind in EIGHT_BITS:
            self.dtype, self.shared = kind, self.shared_of[kind]

    def is_eight_bits(self, tensor: int) -> bool:
        spec = self.builder.spec(tensor)
        return spec.dtype in EIGHT_BITS and spec.quantization is not None

    def name(self, word: str) -> str:
        return f"{word}{len(self.words)}_{len(self.tensors)}"

    def quantize(self, x: int, kind: DType, quantization: Quantization) -> int:
        y = self.builder.tensor(self.name("quantize"), self.shape(x), kind, quantization)
        self.builder.operator("QUANTIZE", (x,), (y,), None, version=2)
        return y

    def dequantize(self, x: int) -> int:
        y = self.builder.tensor(self.name("dequantize"), self.shape(x), DType.FLOAT32)
        self.builder.operator("DEQUANTIZE", (x,), (y,), None, version=2)
        return y

    def generate(self) -> None:
        for _ in range(self.pick((1, 1, 2, 3))):
            self.tensors.append(self.any_input())
        for _ in range(self.pick(range(1, MOST_NODES + 1))):
            x = self.source()
            self.turn_to(x)
            is_image = len(self.shape(x)) == 4 and self.is_eight_bits(x)
            # Steps of images look for others of the same kind and rank.
            others = self.tensors
            if is_image and self.chance(0.5):
                name = IMAGE_STEPS[self.pick(len(IMAGE_STEPS))]
                spec = self.builder.spec(x)
                rest = [
                    t for t in others
                    if len(self.shape(t)) == 4 and self.builder.spec(t).dtype is spec.dtype
                    and self.is_eight_bits(t)
                ]  # fmt: skip
                self.tensors = rest
                made = random_graphs.MAKERS[name](self, x)
                added = [t for t in self.tensors if t not in rest]
                self.tensors = [*added, *others]
            else:
                steps = STEPS if self.shape(x) else STEPS_OF_ONE_VALUE
                name = steps[self.pick(len(steps))]
                made = MAKERS[name](self, x)
            if made:
                self.words.append(name)
                self.tensors += made

    def any_input(self) -> int:
        kind = self.dtype
        if self.chance(0.3):
            kind = EIGHT_BITS[self.pick(2)]
        rank = self.pick((4, 4, 4, 4, 1, 2, 3, 5))
        shape = tuple(self.pick(SIZES) for _ in range(rank))
        while prod(shape) > 6000:
            shape = tuple(max(size // 2, 1) for size in shape)
        if self.chance(0.12):
            return self.builder.input(f"input{len(self.tensors)}", shape, DType.FLOAT32)
        return self.builder.input(
            f"input{len(self.tensors)}", shape, kind, self.quantization_of(kind)
        )

    def quantization_of(self, kind: DType) -> Quantization:
        shared = self.shared_of[kind]
        if shared is not None and self.chance(0.8):
            return shared
        return draw_quantization(self.rng, kind)

    def outputs(self) -> None:
        made = [t for t in self.tensors if self.builder.spec(t).name[:5] != "input"]
        listed = [t for t in made if t not in self.read or self.chance(0.15)]
        if listed and self.chance(0.2):
            listed.append(listed[self.pick(len(listed))])
        if self.chance(0.1):
            listed.append(self.tensors[0])
        if self.chance(0.05):
            listed.append(self.constant((3,)))
        for tensor in listed:
            self.builder.output(tensor)
        self.has_outputs = bool(listed)


def mixed_graph(seed: int) -> MixedGraph:
    for attempt in range(100):
        g = MixedGenerator(seed + (attempt << 40))
        g.generate()
        g.outputs()
        if g.words and g.has_outputs:
            break
    return MixedGraph(g.builder.build(), " ".join(g.words))


def mixed_inferences(seed: int, content: bytes, count: int = 2) -> list[Mapping[int, Any]]:
    rng = np.random.default_rng([seed, 2])
    found = read_graph(content)
    made: list[Mapping[int, Any]] = []
    for _ in range(count):
        feeds = {}
        for index in found.inputs:
            tensor = found.tensor(index)
            kind = np.dtype(tensor.dtype.name.lower())
            if kind.kind == "f":
                feeds[index] = rng.normal(0, 2, tensor.shape).astype(kind)
                continue
            low, high = LIMITS.get(tensor.dtype, (-5000, 5000))
            values = rng.integers(low, high + 1, tensor.shape)
            if rng.random() < 0.15:
                values = rng.choice((low, high), tensor.shape)
            feeds[index] = values.astype(kind)
        made.append(feeds)
    return made
