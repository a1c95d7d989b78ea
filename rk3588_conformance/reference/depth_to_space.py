"""DEPTH_TO_SPACE: block by block, as its definition says."""

from __future__ import annotations

import numpy as np

from delegate.ops.depth_to_space import DepthToSpaceOptions
from rk3588_conformance.reference.arithmetic import Array, Call

SELECTS = True


def reference(call: Call) -> Array:
    options = call.node.known_options(DepthToSpaceOptions)
    x, block = call.value(), options.block
    result: Array = np.zeros(call.output.shape, x.dtype)
    parts = np.split(x, block**2, axis=3)
    for number, part in enumerate(parts):
        row, column = divmod(number, block)
        result[:, row::block, column::block] = part
    return result
