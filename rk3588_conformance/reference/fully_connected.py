"""FULLY_CONNECTED."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call, operands, requantize, round_once


def reference(call: Call) -> Array:
    features, weights = operands(call)
    acc = features.reshape(-1, weights.shape[1]) @ weights.T
    if call.graph.rounds_once:
        return round_once(call, acc)
    return requantize(call, np.rint(acc).astype(np.int64), in_float=True)


def is_undefined(call: Call) -> bool:
    """With scales per channel the kernel takes the output's first two dimensions for rows and
    outputs, whatever its rank, and leaves the rest unwritten.
    """
    quantization = call.operand(1).quantization
    is_per_channel = quantization is not None and quantization.is_per_channel
    return is_per_channel and len(call.output.shape) > 2
