"""Numbers of float32 for what runs in fp16: of ordinary and extreme magnitudes, at the ends of the
format, and what is no number. And those of a layer of reals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Activation, DType, Quantization
from rk3588_conformance.builder.model_builder import ModelBuilder

Floats = npt.NDArray[np.float32]
Draw = Callable[[np.random.Generator, Sequence[int]], Floats]

_POWERS = {"plain": 0, "wide": 12}
"""Powers of two between the magnitudes of values."""
_ENDS = (
    65504, -65504, 65520, 1e9, -1e9, 2.0**-14, 2.0**-24, 0.0, -0.0, 2049, 1.0, -1.0,
)  # fmt: skip
"""Numbers beyond fp16, at its ends, at ties, subnormal ones, zeros."""
_NEAR_ENDS = (65519, -(2.0**-25), 2.0**-25 * 1.01, 1e-30, 2051, 6.0, 5.998)
_NO_NUMBERS = (2.0**-25, np.inf, -np.inf, np.nan)


def numbers(rng: np.random.Generator, shape: Sequence[int], spread: str = "plain") -> Floats:
    """``spread``: of ``_POWERS``."""
    scale = np.exp2(rng.integers(-_POWERS[spread], 1 + _POWERS[spread] // 3, shape))
    return np.asarray(rng.normal(size=shape) * scale, np.float32)


def _any_of(found: Sequence[float]) -> Draw:
    return lambda rng, shape: rng.choice(np.array(found, np.float32), tuple(shape))


DRAWS: dict[str, Draw] = {
    "plain": numbers,
    "wide": partial(numbers, spread="wide"),
    "ends": _any_of((*_ENDS, *_NEAR_ENDS)),
    "any": _any_of((*_ENDS, *_NO_NUMBERS)),
}
"""The numbers that inputs are, by the word that names of cases have for them."""


def stored_reals(builder: ModelBuilder, name: str, values: Floats, kind: str) -> int:
    """``values``, or what float16 has of them behind a DEQUANTIZE."""
    if kind == "float32":
        return builder.constant(name, values)
    half = builder.constant(f"{name} half", values.astype(np.float16))
    return builder.result("DEQUANTIZE", (half,), name, dtype=DType.FLOAT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reals:
    """The numbers of a layer of float32. ``kind``: of its weights, "float32", "float16" behind
    DEQUANTIZE, or int8 with scales, "one" or "per_channel". ``spread``: of weights and biases.
    """

    activation: Activation = Activation.NONE
    kind: str = "float32"
    spread: str = "plain"
    has_bias: bool = True

    def operands(self, builder: ModelBuilder, kernels: Sequence[int], axis: int) -> Iterator[int]:
        """Add weights of the shape ``kernels``, with outputs along ``axis``, and biases."""
        rng, outputs = builder.rng, kernels[axis]
        if self.kind in ("one", "per_channel"):
            count = outputs if self.kind == "per_channel" else 1
            scales = rng.uniform(1e-3, 0.1, count).astype(np.float32)
            values = rng.integers(-127, 128, tuple(kernels)).astype(np.int8)
            quantization = Quantization(tuple(scales.tolist()), (0,) * count, axis)
            yield builder.constant("w", values, quantization)
        else:
            yield stored_reals(builder, "w", numbers(rng, kernels, self.spread), self.kind)
        if self.has_bias:
            kind = "float16" if self.kind == "float16" else "float32"
            yield stored_reals(builder, "b", numbers(rng, (outputs,), self.spread), kind)
