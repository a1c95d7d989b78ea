"""Adds functions of one value, of two tensors, and others that keep the first operand's shape; and
models whose edges are float32, or another 8-bit type, around quantised layers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from delegate.model.graph import Activation, DType, Quantization
from delegate.model.operator_options import Options
from delegate.ops.div import DivOptions
from delegate.ops.leaky_relu import LeakyReluOptions
from rk3588_conformance.builder.model_builder import ModelBuilder
from rk3588_conformance.builder.options import BuiltinOptions
from rk3588_conformance.builder.ranges import one_scale


def function(
    builder: ModelBuilder,
    op: str,
    operands: Sequence[int],
    quantization: Quantization | None,
    options: Options | BuiltinOptions | None = None,
    dtype: DType | None = None,
    version: int = 1,
) -> int:
    """``op`` of ``operands``, whose first has the result's shape and, unless ``dtype`` is given,
    its type.
    """
    how: dict[str, Any] = {"dtype": dtype, "options": options, "version": version}
    return builder.result(op, operands, op.lower(), None, quantization, **how)


def quotient(
    builder: ModelBuilder,
    x: int,
    *,
    is_above: bool,
    activation: Activation = Activation.NONE,
) -> int:
    """``x``, which is uint8, divided by a constant above or below 0. Quotients have as many bits as
    the divisor: else the kernel leaves open what 0 gives.
    """
    given, rng = builder.scaling(x), builder.rng
    scale, distance = 10 ** rng.uniform(-3, 0), int(rng.integers(1, 256))
    zero_point = int(rng.integers(0, 256 - distance)) + (0 if is_above else distance)
    value = zero_point + (distance if is_above else -distance)
    own = one_scale(scale, zero_point)
    divisor = builder.constant(f"divisor of {x}", np.array([value], np.uint8), own)
    unit = given.scale / (distance * own.scale)
    result = one_scale(unit * rng.uniform(0.1, 0.5), int(rng.integers(0, 256)))
    return function(builder, "DIV", (x, divisor), result, DivOptions(activation))


Body = Callable[[ModelBuilder, int], int]


def same_values(builder: ModelBuilder, x: int) -> int:
    """A task that changes no value: LEAKY_RELU with the slope 1."""
    return function(builder, "LEAKY_RELU", (x,), builder.scaling(x), LeakyReluOptions(1.0))


Kind = tuple[DType, Quantization | None]


def edged(
    builder: ModelBuilder,
    shape: Sequence[int],
    inner: tuple[DType, Quantization],
    *,
    before: Kind | None = None,
    after: Kind | None = None,
    body: Body = same_values,
) -> int:
    """An input that is ``before`` is quantised to ``inner``, which ``body`` takes; its result
    becomes ``after``. None: there is no such node.
    """
    x = builder.input("input", shape, *(before or inner))
    if before is not None:
        x = function(builder, "QUANTIZE", (x,), inner[1], dtype=inner[0])
    y = body(builder, x)
    if after is None:
        return y
    result = builder.tensor("result", builder.spec(y).shape, *after)
    op = "DEQUANTIZE" if after[0] is DType.FLOAT32 else "QUANTIZE"
    builder.operator(op, (y,), (result,))
    return result


def edged_model(shape: Sequence[int], inner: tuple[DType, Quantization], **how: Any) -> bytes:
    """The model of ``edged`` alone."""
    builder = ModelBuilder("edges")
    return builder.build(edged(builder, shape, inner, **how))
