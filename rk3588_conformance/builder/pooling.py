"""Adds MAX_POOL_2D, AVERAGE_POOL_2D, MEAN, SUM and REDUCE_MAX.

Comes from: a builder and a tensor of it. Goes to: the index of the result, whose quantisation is
the input's, as the kernels of pooling demand. Version 2 is the first with int8.
"""

from collections.abc import Sequence

from delegate.model.graph import Activation, Padding, Quantization
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.shared.reductions import ReducerOptions
from rk3588_conformance.builder.layers import output_size
from rk3588_conformance.builder.model_builder import ModelBuilder


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
    """``op`` of ``x``."""
    images, height, width, channels = builder.spec(x).shape
    rows = output_size(height, filter_h, stride_h, 1, padding)
    columns = output_size(width, filter_w, stride_w, 1, padding)
    shape = (images, rows, columns, channels)
    table = PoolOptions(padding, stride_w, stride_h, filter_w, filter_h, activation)
    return builder.result(op, (x,), op.lower(), shape, options=table, version=2)


def reduced(
    builder: ModelBuilder,
    op: str,
    x: int,
    quantization: Quantization | None = None,
    *,
    keep_dims: bool,
    axes: Sequence[int] = (1, 2),
) -> int:
    """MEAN, SUM or REDUCE_MAX over ``axes`` of ``x``, whose quantisation it has unless given."""
    before = builder.spec(x).shape
    reduced = {axis % len(before) for axis in axes}
    sizes = ((1 if axis in reduced else size) for axis, size in enumerate(before))
    shape = tuple(s for axis, s in enumerate(sizes) if keep_dims or axis not in reduced)
    return builder.result(
        op, (x,), op.lower(), shape, quantization,
        options=ReducerOptions(keep_dims), numbers={"axes": axes}, version=2,
    )  # fmt: skip
