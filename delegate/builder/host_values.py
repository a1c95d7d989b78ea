"""Models whose edges are float32, or another 8-bit type, around quantised layers.

Comes from: quantisations and what lies between the edges. Goes to: ``ModelBuilder`` or bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from delegate.builder.functions import function
from delegate.builder.model_builder import ModelBuilder
from delegate.model.graph import DType, Quantization
from delegate.ops.leaky_relu import LeakyReluOptions

Body = Callable[[ModelBuilder, int], int]


def same_values(builder: ModelBuilder, x: int) -> int:
    """A task that changes no value: LEAKY_RELU with the slope 1."""
    quantization = builder.spec(x).quantization
    assert quantization is not None
    return function(builder, "LEAKY_RELU", (x,), quantization, LeakyReluOptions(1.0))


def edged_model(
    shape: Sequence[int],
    inner: tuple[DType, Quantization],
    *,
    before: tuple[DType, Quantization | None] | None = None,
    after: tuple[DType, Quantization | None] | None = None,
    body: Body = same_values,
) -> bytes:
    """``before`` is quantised to ``inner``, which ``body`` takes; its result becomes ``after``.
    None: there is no such node.
    """
    builder = ModelBuilder("edges")
    x = builder.input("input", shape, *(before or inner))
    if before is not None:
        x = function(builder, "QUANTIZE", (x,), inner[1], dtype=inner[0])
    y = body(builder, x)
    if after is not None:
        result = builder.tensor("result", builder.spec(y).shape, *after)
        op = "DEQUANTIZE" if after[0] is DType.FLOAT32 else "QUANTIZE"
        builder.operator(op, (y,), (result,))
        y = result
    return builder.build(y)
