"""Ranges of weights that leave room for the bias.

A bias is an int32 of the scale (input's scale x weight's scale). A channel whose weights are nearly
zero has a tiny scale, in which its bias does not fit: the quantiser saturates it, and TensorFlow
Lite's sums wrap. Such channels get a larger range, which costs them nothing: next to the bias the
weights are nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph
from delegate.ops import OPERATORS
from rk3588_vision.quantization.ranges import Range

_LARGEST_BIAS = 1 << 24
"""In steps: 64 times what nine products of 8 bits can reach, far below int32."""
_WEIGHT_STEPS, _INPUT_STEPS = 127, 255

Bounds = npt.NDArray[np.float32]


def weight_bounds(graph: Graph, ranges: Mapping[int, Range]) -> dict[int, Bounds]:
    """Return the largest magnitude per channel, with the axes kept, of weights that need more than
    they have.
    """
    found: dict[int, Bounds] = {}
    for node in graph.nodes:
        operator = OPERATORS.get(node.op)
        weights = None if operator is None else operator.weights(node)
        bias = None if operator is None else operator.bias(node)
        if operator is None or weights is None or bias is None:
            continue
        source = next(iter(operator.feature_inputs(node)))
        if source in ranges:
            arrays = graph.tensor(weights).constant, graph.tensor(bias).constant
            bounds = _bounds(*arrays, operator.weights_axis, ranges[source])
            if bounds is not None:
                found[weights] = np.maximum(bounds, found.get(weights, bounds))
    return found


def _bounds(
    weights: npt.NDArray[Any] | None, bias: npt.NDArray[Any] | None, axis: int, source: Range
) -> Bounds | None:
    """Return the bounds of one layer's channels; None: the weights' own will do."""
    if weights is None or bias is None or bias.size != weights.shape[axis]:
        return None
    low, high = source
    step = (max(high, 0.0) - min(low, 0.0)) / _INPUT_STEPS
    if step <= 0.0:
        return None
    others = tuple(a for a in range(weights.ndim) if a != axis)
    largest = np.abs(_floats(weights)).max(axis=others, keepdims=True)
    needed = np.abs(_floats(bias)) / (_LARGEST_BIAS * step) * _WEIGHT_STEPS
    bounds = np.maximum(largest, needed.reshape(largest.shape)).astype(np.float32)
    return bounds if (bounds > largest).any() else None


def _floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return array.astype(np.float64)
