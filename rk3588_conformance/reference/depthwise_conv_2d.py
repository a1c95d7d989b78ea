"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

import numpy as np

from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from rk3588_conformance.reference.arithmetic import Array, Call, operands, requantize
from rk3588_conformance.reference.windows import taps


def reference(call: Call) -> Array:
    options = call.node.known_options(DepthwiseOptions)
    features, weights = operands(call)
    _, kh, kw, outputs = weights.shape
    features = np.repeat(features, outputs // features.shape[3], axis=3)
    (rows, columns), tap = taps(options, features, kh, kw)
    acc = np.zeros((features.shape[0], rows, columns, outputs))
    for y in range(kh):
        for x in range(kw):
            acc += tap(y, x) * weights[0, y, x]
    return requantize(call, np.rint(acc).astype(np.int64))
