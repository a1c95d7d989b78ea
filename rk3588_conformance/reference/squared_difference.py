"""SQUARED_DIFFERENCE of feature maps and constants."""

from __future__ import annotations

from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by

_SHIFT = 7


def reference(call: Call) -> Array:
    scales = [call.quantization(place).scale for place in call.places]
    twice = 2 * max(scales)
    first, second = (
        scale_by(call.steps(place) << _SHIFT, *quantize_multiplier(scale / twice))
        for place, scale in zip(call.places, scales, strict=True)
    )
    factor = quantize_multiplier(twice**2 / ((1 << 2 * _SHIFT) * call.result.scale))
    return scale_by((first - second) ** 2, *factor) + call.result.zero_point
