"""RSQRT of int8: a table.

The reference kernel takes the reciprocal root of the raw value by Newton's method in fixed point,
with 20 bits below the unit, and multiplies by what the scales make. Zero gives the largest result,
and a value below the zero point ends its inference with an error.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records
from delegate.ops.shared.common import TYPE_RANGES, int8_features
from delegate.ops.shared.fixed_point import (
    INT32_MAX,
    Multiplier,
    UndefinedResultError,
    float32_root,
    high_product32,
    multiplier_of,
    multiply,
)
from delegate.ops.shared.functions import RULES, scales_of

_FRACTION_BITS = 20
"""The fraction's bits of the reciprocal root of a raw value."""
_ONE_BITS = 28
"""A fixed-point number with three bits above the unit, in which the kernel iterates."""
_ITERATIONS = 5
_HALF_ROOT_OF_2 = 1518500250
"""times 2^-31."""
_LARGEST = 255
"""A raw value less the zero point."""
_MOST_RIGHT = 31
"""A shift of int32."""


def _newton(value: int) -> Multiplier:
    """``1 / sqrt(value)`` of 1 or more, as the kernels approximate it."""
    if value == 1:
        return Multiplier(INT32_MAX, 0)
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    scaled = np.array((value << (2 * pairs)) >> 1)
    half, root = (scaled + 1) >> 1, np.array(1 << _ONE_BITS)
    for _ in range(_ITERATIONS):
        cube = high_product32(high_product32(root, root), root) << 6
        correction = high_product32(np.array(3 << (_ONE_BITS - 1)), root)
        root = (correction - high_product32(half, cube)) << 3
    return Multiplier(int(high_product32(root, np.array(_HALF_ROOT_OF_2))), pairs - 11)


@functools.cache
def _roots() -> Values:
    """Return the reciprocal roots of 0, which has none, to 255, with their bits below the unit."""
    one = np.array(1)
    found = [
        multiply(one, Multiplier(root.fraction, root.shift + _FRACTION_BITS))
        for root in map(_newton, range(1, _LARGEST + 1))
    ]
    return np.array([0, *found], np.int64)


def reciprocal_root(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    (source, source_zero), (target, target_zero) = scales_of(graph, node)
    values = operands[0] - source_zero
    if values.min() < 0:
        raise UndefinedResultError(
            "there are values below the zero point, whose roots the kernels refuse"
        )
    by = multiplier_of(1 / float32_root(source, times=target))
    shift = by.shift - _FRACTION_BITS
    if shift < -_MOST_RIGHT:
        raise UndefinedResultError(f"results are shifted by {-shift} bits to the right")
    results = multiply(_roots()[values], Multiplier(by.fraction, shift)) + target_zero
    largest = TYPE_RANGES[graph.tensor(node.outputs[0]).dtype][1]
    return np.where(values == 0, largest, results)


OPERATOR = Operator(
    name="RSQRT",
    inputs=(Role.FEATURE,),
    function=reciprocal_root,
    rules=(*RULES, int8_features),
    half=half_records.root,
)
