"""Cases of one operator in fp16, within its bound for every element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from delegate.model.graph import DType
from delegate.model.operator_options import Options
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.case import Case
from rk3588_conformance.half_judge import outside_bound
from rk3588_conformance.half_values import constant, inputs_of, numbers

Constants = Callable[[ModelBuilder, np.random.Generator], Iterable[int]]


def operator_case(
    name: str,
    op: str,
    shapes: Sequence[Sequence[int]],
    result: Sequence[int],
    options: Options | None,
    spread: str,
    *,
    constants: Constants = lambda *_: (),
    arrange: Callable[..., Sequence[int]] = lambda *operands: operands,
    version: int = 1,
) -> Case:
    """``op`` of inputs of ``shapes``, whose values are of ``spread``, and behind them of
    ``constants``, unless ``arrange`` gives them another order.
    """

    def build(rng: np.random.Generator) -> bytes:
        builder = ModelBuilder("half")
        inputs = [builder.input(f"x{n}", s, DType.FLOAT32) for n, s in enumerate(shapes)]
        operands = arrange(*inputs, *constants(builder, rng))
        y = builder.result(
            op, operands, "y", result, dtype=DType.FLOAT32, options=options, version=version
        )
        return builder.build(y)

    given = inputs_of(name, shapes, spread)
    return Case(name, "Half", build, inputs=given, outside=outside_bound)


def weights_and_bias(
    shape: Sequence[int], outputs: int, kind: str, spread: str = "plain", *, has_bias: bool = True
) -> Constants:
    """Draw weights and bias of one of ``half_values.WEIGHTS``, and of ``spread``, but not the ends
    of fp16.
    """
    drawn = "plain" if spread == "ends" else spread

    def constants(builder: ModelBuilder, rng: np.random.Generator) -> Iterable[int]:
        yield constant(builder, "w", numbers(rng, shape, drawn), kind)
        if has_bias:
            yield constant(builder, "b", numbers(rng, (outputs,), drawn), kind)

    return constants
