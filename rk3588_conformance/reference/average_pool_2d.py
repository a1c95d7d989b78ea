"""AVERAGE_POOL_2D: of raw values, halves away from zero."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.pools import pooled


def reference(call: Call) -> Array:
    def average(window: Array) -> Array:
        count = window.shape[1] * window.shape[2]
        total = window.sum(axis=(1, 2))
        return np.asarray(np.sign(total) * ((2 * np.abs(total) + count) // (2 * count)))

    return pooled(call, average)
