"""MIRROR_PAD: the image's own pixels around it."""

from __future__ import annotations

import numpy as np

from delegate.ops.mirror_pad import SYMMETRIC, MirrorPadOptions
from rk3588_conformance.reference.arithmetic import Array, Call
from rk3588_conformance.reference.pad import amounts_of

SELECTS = True


def reference(call: Call) -> Array:
    if call.node.known_options(MirrorPadOptions).mode == SYMMETRIC:
        return np.pad(call.value(), amounts_of(call), mode="symmetric")
    return np.pad(call.value(), amounts_of(call), mode="reflect")
