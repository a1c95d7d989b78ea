"""ADD of feature maps and constants."""

from __future__ import annotations

from rk3588_conformance.reference.arithmetic import Array, Call, sum_with_signs

CARRIES_ERRORS = True


def reference(call: Call) -> Array:
    return sum_with_signs(call, (1, 1))
