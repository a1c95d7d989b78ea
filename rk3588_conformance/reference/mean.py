"""MEAN over height and width."""

from __future__ import annotations

from rk3588_conformance.reference.arithmetic import Array, Call, quantize_multiplier, scale_by


def reference(call: Call) -> Array:
    total, mantissa, exponent = image_total(call)
    _, height, width, _ = call.operand().shape
    count = height * width
    bits = 0  # of the count, as the kernel shifts before it divides
    while count >> (bits + 1) and bits < min(32, 31 + exponent):
        bits += 1
    scaled = scale_by(total, (mantissa << bits) // count, exponent - bits)
    return scaled + call.result.zero_point


def image_total(call: Call) -> tuple[Array, int, int]:
    """The sums of every image's channels, less the zero points, and the multiplier to the output's
    scale.
    """
    multiplier = quantize_multiplier(call.quantization().scale / call.result.scale)
    return call.steps().sum(axis=(1, 2)), *multiplier
