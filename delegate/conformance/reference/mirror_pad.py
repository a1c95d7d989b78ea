"""MIRROR_PAD: the image's own pixels around it."""

from __future__ import annotations

import numpy as np

from delegate.conformance.reference.arithmetic import Array, Call
from delegate.conformance.reference.pad import amounts_of
from delegate.ops.mirror_pad import SYMMETRIC, MirrorPadOptions

SELECTS = True


def reference(call: Call) -> Array:
    if call.node.known_options(MirrorPadOptions).mode == SYMMETRIC:
        return np.pad(call.value(), amounts_of(call), mode="symmetric")
    return np.pad(call.value(), amounts_of(call), mode="reflect")
