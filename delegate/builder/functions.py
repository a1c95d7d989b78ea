"""Functions of one value: layers and one-operator models.

Comes from: an operator's name and quantisations. Goes to: ``ModelBuilder`` or bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from delegate.builder.model_builder import ModelBuilder
from delegate.builder.options import BuiltinOptions
from delegate.model.graph import DType, Quantization


def function(
    builder: ModelBuilder,
    op: str,
    operands: Sequence[int],
    quantization: Quantization,
    options: BuiltinOptions | None = None,
    dtype: DType | None = None,
) -> int:
    """``op`` of ``operands``, whose first has the result's shape and, unless ``dtype`` is given,
    its type.
    """
    spec = builder.spec(operands[0])
    result = builder.tensor(op.lower(), spec.shape, dtype or spec.dtype, quantization)
    builder.operator(op, operands, (result,), options)
    return result
