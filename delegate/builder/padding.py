"""Adds operators that give images a border.

Comes from: a builder and a tensor of it. Goes to: the index of the result, whose quantisation is
the input's, as the kernels demand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.builder import options
from delegate.builder.model_builder import ModelBuilder
from delegate.model.graph import DType
from delegate.ops.mirror_pad import MirrorPadOptions

Amounts = Sequence[Sequence[int]]
"""Before and behind, of each dimension."""


def pad(
    builder: ModelBuilder,
    x: int,
    amounts: Amounts,
    *,
    value: int | None = None,
    mode: int | None = None,
    name: str = "padded",
    version: int = 2,
) -> int:
    """By PAD of a ``version``, by PADV2 if ``value`` is given, by MIRROR_PAD if ``mode`` is."""
    spec = builder.spec(x)
    shape = [d + sum(added) for d, added in zip(spec.shape, amounts, strict=True)]
    y = builder.tensor(name, shape, spec.dtype, spec.quantization)
    inputs = [x, builder.constant(f"{name}/amounts", np.array(amounts, np.int32))]
    if mode is not None:
        builder.operator("MIRROR_PAD", inputs, (y,), options.of(MirrorPadOptions(mode)))
    elif value is None:
        builder.operator("PAD", inputs, (y,), version=version)
    else:
        kind = np.int8 if spec.dtype is DType.INT8 else np.uint8
        constant = np.array([value]).astype(kind)
        inputs.append(builder.constant(f"{name}/value", constant, spec.quantization))
        builder.operator("PADV2", inputs, (y,), version=2)
    return y
