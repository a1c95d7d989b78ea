"""Adds operators that resize images.

Comes from: a builder and a tensor of it. Goes to: the index of the result, whose quantisation is
the input's, as the kernels demand.
"""

from __future__ import annotations

import numpy as np

from delegate.builder.model_builder import ModelBuilder
from delegate.builder.options import BuiltinOptions


def resize(
    builder: ModelBuilder, op: str, x: int, rows: int, columns: int, table: BuiltinOptions
) -> int:
    """``op`` of ``x``. Version 3 has all options, and int8."""
    spec = builder.spec(x)
    images, _, _, channels = spec.shape
    y = builder.tensor(op.lower(), (images, rows, columns, channels), spec.dtype, spec.quantization)
    size = builder.constant(f"{op.lower()}/size", np.array([rows, columns], np.int32))
    builder.operator(op, (x, size), (y,), table, version=3)
    return y
