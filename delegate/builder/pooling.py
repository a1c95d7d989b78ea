"""Adds MAX_POOL_2D, AVERAGE_POOL_2D, MEAN, SUM and REDUCE_MAX.

Comes from: a builder and a tensor of it. Goes to: the index of the result, whose quantisation is
the input's, as the kernels of pooling demand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.builder import options
from delegate.builder.model_builder import ModelBuilder
from delegate.model.graph import Activation, Padding, Quantization


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


def mean(
    builder: ModelBuilder,
    x: int,
    quantization: Quantization,
    *,
    keep_dims: bool,
    axes: Sequence[int] = (1, 2),
) -> int:
    """Over the pixels of ``x``."""
    return _reduced(builder, "MEAN", x, quantization, axes, keep_dims=keep_dims)


def total(
    builder: ModelBuilder,
    x: int,
    quantization: Quantization,
    *,
    keep_dims: bool,
    axes: Sequence[int] = (1, 2),
) -> int:
    """SUM over the pixels of ``x``."""
    return _reduced(builder, "SUM", x, quantization, axes, keep_dims=keep_dims)


def reduce_max(
    builder: ModelBuilder, x: int, *, keep_dims: bool, axes: Sequence[int] = (1, 2)
) -> int:
    """Over the pixels of ``x``."""
    quantization = builder.spec(x).quantization
    return _reduced(builder, "REDUCE_MAX", x, quantization, axes, keep_dims=keep_dims)


def _reduced(
    builder: ModelBuilder,
    op: str,
    x: int,
    quantization: Quantization | None,
    axes: Sequence[int],
    *,
    keep_dims: bool,
) -> int:
    spec = builder.spec(x)
    images, _, _, channels = spec.shape
    shape = (images, 1, 1, channels) if keep_dims else (images, channels)
    y = builder.tensor(op.lower(), shape, spec.dtype, quantization)
    numbers = builder.constant(f"{op.lower()}/axes", np.array(axes, np.int32))
    builder.operator(op, (x, numbers), (y,), options.reducer(keep_dims), version=2)
    return y


def _output(size: int, kernel: int, stride: int, padding: Padding) -> int:
    return -(-size // stride) if padding is Padding.SAME else (size - kernel) // stride + 1
