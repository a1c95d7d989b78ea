"""DEQUANTIZE to float32."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call


def reference(call: Call) -> Array:
    """The product of doubles, then rounded to float32."""
    return np.asarray((call.steps() * call.quantization().scale).astype(np.float32))
