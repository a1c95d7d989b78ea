"""MUL of feature maps and constants."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by


def reference(call: Call) -> Array:
    """The scales are multiplied and divided as float32."""
    a, b = (np.float32(call.quantization(place).scale) for place in call.places)
    factor = quantize_multiplier(float(a * b / np.float32(call.result.scale)))
    return scale_by(call.steps(0) * call.steps(1), *factor) + call.result.zero_point
