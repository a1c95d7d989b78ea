"""Models that several tests read: the smallest residual block, and one function."""

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import DType, Quantization
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.layers import DEFAULT_ARITHMETIC, Arithmetic, Window
from rk3588_conformance.builder.options import BuiltinOptions
from rk3588_conformance.builder.ranges import random_quantization


def conv_conv_add_model(
    rng: np.random.Generator,
    h: int,
    w: int,
    ic: int,
    oc: int,
    kh: int,
    kw: int,
    dtype: DType = DType.INT8,
    arithmetic: Arithmetic = DEFAULT_ARITHMETIC,
) -> bytes:
    """Two equal CONV_2D on one input, then ADD."""
    builder = Net("conv_conv_add", rng)
    x = builder.input("input", (1, h, w, ic), dtype, random_quantization(rng, dtype))
    pair = (
        builder.conv(x, oc, Window(kh, kw), arithmetic, name=name) for name in ("first", "second")
    )
    return builder.build(builder.add(*pair))


def function_model(
    op: str,
    source: tuple[DType, Quantization],
    target: tuple[DType, Quantization],
    options: BuiltinOptions | None = None,
    shape: Sequence[int] = (1, 1, 1, 256),
) -> bytes:
    """One operator with one operand."""
    builder = Net(op.lower())
    x = builder.input("input", shape, *source)
    return builder.build(builder.function(op, (x,), target[1], options, target[0]))
