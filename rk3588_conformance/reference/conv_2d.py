"""CONV_2D, not grouped."""

from __future__ import annotations

import numpy as np

from delegate.ops.conv_2d import ConvOptions
from rk3588_conformance.reference.arithmetic import Array, Call, operands, requantize
from rk3588_conformance.reference.windows import taps


def reference(call: Call) -> Array:
    options = call.node.known_options(ConvOptions)
    features, weights = operands(call)
    outputs, kh, kw, channels = weights.shape
    (rows, columns), tap = taps(options, features, kh, kw)
    acc = np.zeros((features.shape[0] * rows * columns, outputs))
    for y in range(kh):
        for x in range(kw):
            acc += tap(y, x).reshape(-1, channels) @ weights[:, y, x].T
    wide = np.rint(acc).astype(np.int64).reshape(features.shape[0], rows, columns, outputs)
    return requantize(call, wide)


def is_covered(call: Call) -> bool:
    """Grouped convolutions are left to the kernels."""
    return call.operand().shape[3] == call.operand(1).shape[3]
