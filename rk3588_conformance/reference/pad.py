"""PAD: zero points around the image."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def amounts_of(call: Call) -> Array:
    """Elements before and behind, by dimension."""
    return call.constant(1).reshape(-1, 2)


def reference(call: Call) -> Array:
    return np.pad(call.value(), amounts_of(call), constant_values=call.result.zero_point)
