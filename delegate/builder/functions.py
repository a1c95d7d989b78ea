"""Adds functions of one value, of two tensors, and others that keep the first operand's shape."""

from __future__ import annotations

from collections.abc import Sequence

from delegate.builder.model_builder import ModelBuilder
from delegate.builder.options import BuiltinOptions
from delegate.model.graph import DType, Quantization
from delegate.model.operator_options import Options


def function(
    builder: ModelBuilder,
    op: str,
    operands: Sequence[int],
    quantization: Quantization,
    options: Options | BuiltinOptions | None = None,
    dtype: DType | None = None,
) -> int:
    """``op`` of ``operands``, whose first has the result's shape and, unless ``dtype`` is given,
    its type.
    """
    name = op.lower()
    return builder.result(op, operands, name, None, quantization, dtype=dtype, options=options)
