"""MAXIMUM of raw values."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def reference(call: Call) -> Array:
    return np.asarray(np.maximum(call.value(0), call.value(1)))
