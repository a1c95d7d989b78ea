"""REDUCE_MAX over height and width."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def reference(call: Call) -> Array:
    return np.asarray(call.value().astype(np.int64).max(axis=(1, 2)))
