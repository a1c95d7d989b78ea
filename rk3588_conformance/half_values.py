"""Values of float models for fp16: ordinary and extreme magnitudes, the ends of the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import generator_of

ACTIVATIONS = ("NONE", "RELU", "RELU6")
WEIGHTS = ("float32", "float16")
SPREADS = ("plain", "wide", "ends")
_POWERS = {"plain": 0, "wide": 12}
"""Powers of two between the magnitudes of values."""

Floats = npt.NDArray[np.float32]


def numbers(rng: np.random.Generator, shape: Sequence[int], spread: str) -> Floats:
    scale = np.exp2(rng.integers(-_POWERS[spread], 1 + _POWERS[spread] // 3, shape))
    return np.asarray(rng.normal(size=shape) * scale, np.float32)


def ends(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    """The ends of fp16: beyond them, at ties, subnormal numbers, zeros."""
    odd = [65504, -65504, 65519, 65520, 1e9, -1e9, 2.0**-14, 2.0**-24, -(2.0**-25), 2.0**-25 * 1.01,
           0.0, -0.0, 1e-30, 2049, 2051, 1.0, -1.0, 6.0, 5.998]  # fmt: skip
    return np.asarray(rng.choice(np.array(odd, np.float32), tuple(shape)))


def constant(builder: ModelBuilder, name: str, values: Floats, kind: str) -> int:
    """``values``, or what float16 has of them behind a DEQUANTIZE."""
    if kind == "float32":
        return builder.constant(name, values)
    half = builder.constant(f"{name} half", values.astype(np.float16))
    return builder.result("DEQUANTIZE", (half,), name, dtype=DType.FLOAT32)


def inputs_of(
    name: str, shapes: Sequence[Sequence[int]], spread: str
) -> Callable[[], Sequence[Floats]]:
    rng = generator_of(name + " inputs")
    draw = ends if spread == "ends" else partial(numbers, spread=spread)
    return lambda: [draw(rng, shape) for shape in shapes]
