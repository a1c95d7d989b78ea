"""Adds MAX_POOL_2D and AVERAGE_POOL_2D.

Comes from: a builder and a tensor of it. Goes to: the index of the result, whose quantisation is
the input's, as the kernels demand.
"""

from __future__ import annotations

from delegate.conformance.builder import options
from delegate.conformance.builder.model_builder import ModelBuilder
from delegate.model.graph import Activation, Padding


def pool(
    builder: ModelBuilder,
    op: str,
    x: int,
    filter_h: int,
    filter_w: int,
    stride_h: int = 1,
    stride_w: int = 1,
    padding: Padding = Padding.SAME,
    activation: Activation = Activation.NONE,
) -> int:
    """``op`` of ``x``. Version 2 is the first with int8."""
    spec = builder.spec(x)
    images, height, width, channels = spec.shape
    rows = _output(height, filter_h, stride_h, padding)
    columns = _output(width, filter_w, stride_w, padding)
    shape = (images, rows, columns, channels)
    y = builder.tensor(op.lower(), shape, spec.dtype, spec.quantization)
    table = options.pool_2d(padding, stride_h, stride_w, filter_h, filter_w, activation)
    builder.operator(op, (x,), (y,), table, version=2)
    return y


def _output(size: int, kernel: int, stride: int, padding: Padding) -> int:
    return -(-size // stride) if padding is Padding.SAME else (size - kernel) // stride + 1
