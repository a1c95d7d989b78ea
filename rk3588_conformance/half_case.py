"""Families of one operator in fp16, within its bound for every element, and their values: ordinary
and extreme magnitudes, the ends of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import DType
from delegate.model.operator_options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case, generator_of
from rk3588_conformance.grid import Grid, Values, grid
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.net import Net

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


Constants = Callable[[Net], Iterable[int]]


@dataclass(frozen=True, slots=True)
class HalfLayer:
    """``op`` of inputs of ``shapes``, and behind them of ``constants``, unless ``arrange`` gives
    them another order. ``spread``: of the inputs' values; None: the case's.
    """

    op: str
    shapes: Sequence[Sequence[int]]
    result: Sequence[int]
    options: Options | None = None
    constants: Constants = lambda _: ()
    spread: str | None = None
    arrange: Callable[..., Sequence[int]] = lambda *operands: operands
    version: int = 1


Described = Callable[[Values, np.random.Generator], HalfLayer]


def half_grid(prefix: str, **axes: Any) -> Callable[[Described], Grid]:
    """Makes a ``Grid`` of the function below it, which says of a case's values what its layer is,
    with a generator of the case.
    """

    def family(described: Described) -> Grid:
        def make(name: str, v: Values) -> Case:
            layer = described(v, generator_of(name))

            def build(rng: np.random.Generator) -> bytes:
                net = Net("half", rng)
                inputs = (net.input(f"x{n}", s, DType.FLOAT32) for n, s in enumerate(layer.shapes))
                operands = layer.arrange(*inputs, *layer.constants(net))
                how: dict[str, Any] = {"options": layer.options, "version": layer.version}
                y = net.result(layer.op, operands, "y", layer.result, dtype=DType.FLOAT32, **how)
                return net.build(y)

            given = inputs_of(name, layer.shapes, layer.spread or v.spread)
            return Case(name, "Half", build, inputs=given, outside=outside_bound)

        return grid(prefix, **axes)(make)

    return family


def weights_and_bias(
    shape: Sequence[int], outputs: int, kind: str, spread: str = "plain", *, has_bias: bool = True
) -> Constants:
    """Draw weights and bias of one of ``WEIGHTS``, and of ``spread``, but not the ends
    of fp16.
    """
    drawn = "plain" if spread == "ends" else spread

    def constants(net: Net) -> Iterable[int]:
        yield constant(net, "w", numbers(net.rng, shape, drawn), kind)
        if has_bias:
            yield constant(net, "b", numbers(net.rng, (outputs,), drawn), kind)

    return constants
