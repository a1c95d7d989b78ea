"""BATCH_MATMUL."""

from __future__ import annotations

import numpy as np

from delegate.ops.batch_matmul import BatchMatMulOptions
from rk3588_conformance.reference.arithmetic import Array, Call, requantize


def reference(call: Call) -> Array:
    options = call.node.known_options(BatchMatMulOptions)
    first, second = (
        np.swapaxes(operand, -1, -2) if is_turned else operand
        for operand, is_turned in zip(
            (call.steps(place).astype(np.float64) for place in call.places),
            (options.adj_x, options.adj_y),
            strict=True,
        )
    )
    acc = np.rint(first @ second).astype(np.int64)
    return requantize(call, acc, in_float=True)
