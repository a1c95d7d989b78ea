"""A random graph in the making: what its steps have drawn, and what they draw from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from delegate.model.graph import Activation, DType, Padding, Quantization
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import Window
from rk3588_conformance.builder.table_writer import TensorSpec
from rk3588_conformance.grid import Outputs
from rk3588_conformance.random_layers import Numbers

CHANNELS = (1, 3, 8, 15, 16, 16, 17, 31, 32, 32, 33, 48, 48, 64, 65, 96)
SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 17)
ACTIVATIONS = (Activation.NONE, Activation.NONE, Activation.RELU, Activation.RELU6,
               Activation.RELU_N1_TO_1)  # fmt: skip
CLAMPED = ACTIVATIONS[:4]
EIGHT_BITS = (DType.INT8, DType.UINT8)
MOST_ELEMENTS = 40_000  # of a tensor: the simulator takes milliseconds
_MOST_ATTEMPTS = 100

T = TypeVar("T")
Step = Callable[[Any, int], Outputs]
"""Adds nodes that read a tensor, and returns what later ones may read; nothing where the tensor
does not fit.
"""


@dataclass(frozen=True)
class RandomGraph:
    """``batches``: of each inference, in order; the inputs are resized between them. ``stretches``:
    rows and columns that the images then have more than the model says.

    ``description`` is what a report shows.
    """

    content: bytes
    description: str
    batches: tuple[int, ...] = ()
    stretches: tuple[tuple[int, int], ...] = ()


class Generator(Net):
    """``dtype`` and ``shared``, the quantisation of most tensors, are those of the tensor at
    hand.
    """

    def __init__(self, seed: int) -> None:
        super().__init__("random graph", np.random.default_rng(seed))
        self.dtype = DType.INT8 if self.chance(0.6) else DType.UINT8
        self.per_channel = self.dtype is DType.INT8 and self.chance(0.6)
        self.is_resized = self.chance(0.3)
        self.is_stretched = bool(np.random.default_rng([seed, 1]).random() < 0.3)
        self.batch = int(self.rng.choice((1, 1, 1, 2, 3)))
        # Views need one quantisation for all that they join.
        self.shared = self.drawn(self.dtype) if self.chance(0.7) else None
        # Half of the graphs have no operators but those of the first networks.
        self.share_of_first = 1.0 if self.chance(0.5) else 0.5
        self.tensors: list[int] = []
        self.read: set[int] = set()
        self.words: list[str] = []

    def _add(self, tensor: TensorSpec) -> int:
        tensor.name += str(len(self._graph.tensors))
        return super()._add(tensor)

    def operator(
        self, op: str | int, inputs: Sequence[int], outputs: Sequence[int], *rest: Any, **how: Any
    ) -> int:
        self.read.update(inputs)
        return super().operator(op, inputs, outputs, *rest, **how)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, values: object) -> int:
        return int(self.rng.choice(np.asarray(values)))

    def choose(self, values: Sequence[T]) -> T:
        return values[self.pick(len(values))]

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.spec(tensor).shape)

    @property
    def has_other_shapes(self) -> bool:
        """Return whether inferences have other shapes than the model."""
        return self.is_resized or self.is_stretched

    def is_eight_bits(self, tensor: int) -> bool:
        spec = self.spec(tensor)
        return spec.dtype in EIGHT_BITS and spec.quantization is not None

    def like(self, x: int) -> list[int]:
        """Return the tensors of the shape of ``x``."""
        return [t for t in self.tensors if self.shape(t) == self.shape(x)]

    def either_way(self, x: int, other: int) -> tuple[int, int]:
        return (x, other) if self.chance(0.5) else (other, x)

    def quantization(self) -> Quantization:
        if self.shared is not None and self.chance(0.9):
            return self.shared
        return self.drawn(self.dtype)

    def numbers(self) -> Numbers:
        activation = self.choose(ACTIVATIONS)
        output = self.shared if self.shared is not None and self.chance(0.9) else None
        return Numbers(per_channel=self.per_channel, activation=activation, output=output)

    def new_input(self, shape: Sequence[int]) -> int:
        signature = (-1, *shape[1:]) if self.is_resized else ()
        given = self.quantization()
        return self.input("input", shape, self.dtype, given, shape_signature=signature)

    def new_constant(self, shape: Sequence[int], quantization: Quantization | None = None) -> int:
        return self.random_constant(shape, self.dtype, quantization or self.quantization())

    def source(self) -> int:
        """A tensor to read: mostly one of the newest."""
        back = min(int(self.rng.geometric(0.45)), len(self.tensors))
        return self.tensors[-back]

    def drawn_window(self, x: int, *, padding: Padding | None = None) -> Window | None:
        """A window of an image; None: it does not fit."""
        _, h, w, _ = self.shape(x)
        kh, kw = (self.pick((1, 1, 2, 3, 3, 5)) for _ in "hw")
        dh, dw = (self.pick((1, 1, 1, 2, 3)) for _ in "hw")
        sh, sw = (self.pick((1, 1, 1, 1, 2, 2, 3)) for _ in "hw")
        scheme = padding or (Padding.SAME if self.chance(0.6) else Padding.VALID)
        if scheme is Padding.VALID and ((kh - 1) * dh >= h or (kw - 1) * dw >= w):
            return None
        if max(dh, dw) > 1 and self.chance(0.7):
            sh = sw = 1
        return Window(kh, kw, sh, sw, dh, dw, scheme)

    def take(self, word: str, made: Outputs) -> None:
        """Note what a step has made."""
        found = [made] if isinstance(made, int) else list(made)
        if found:
            self.words.append(word)
            self.tensors += found

    def shown(self) -> list[int]:
        """Return the outputs: what nobody reads, and a few others."""
        made = [t for t in self.tensors if t not in self._graph.inputs]
        return [t for t in made if t not in self.read or self.chance(0.15)]


def first_of(make: Callable[[int], Generator | None], seed: int) -> Generator:
    """The graph of ``seed``, or of the next attempt that gives one."""
    for attempt in range(_MOST_ATTEMPTS):
        found = make(seed + (attempt << 40))
        if found is not None:
            return found
    raise AssertionError(f"seed {seed} gives no graph")
