"""MAX_POOL_2D."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.pools import pooled

SELECTS = True


def reference(call: Call) -> Array:
    return pooled(call, lambda window: np.max(window, axis=(1, 2)))
