"""PADV2: a value around the image."""

from __future__ import annotations

import numpy as np

from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.pad import amounts_of

SELECTS = True


def reference(call: Call) -> Array:
    return np.pad(call.value(), amounts_of(call), constant_values=int(call.constant(2).item()))
