"""SPACE_TO_DEPTH: element by element, as its definition says."""

from __future__ import annotations

import numpy as np

from delegate.ops.space_to_depth import SpaceToDepthOptions
from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def reference(call: Call) -> Array:
    options = call.node.known_options(SpaceToDepthOptions)
    x, block = call.value(), options.block
    parts = [x[:, row::block, column::block] for row in range(block) for column in range(block)]
    return np.concatenate(parts, axis=3)
