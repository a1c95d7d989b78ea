"""DIV of uint8 by a constant: a table.

The reference kernel makes the divisor positive, takes its reciprocal by Newton's method in fixed
point, and multiplies it with the dividend, shifted to the left as far as it can be, and with what
the scales make. That shift is taken back with the others to the right, where the kernel leaves open
what more than 31 bits become: those of a dividend of 0, unless the quotient has as many bits as the
divisor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delegate.lower.numerics import tflite
from delegate.model.graph import Activation, DType, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.fixed_point import (
    INT32_MAX,
    UndefinedResultError,
    float32_product,
    high_product32,
    multiplier_of,
)
from delegate.ops.shared.functions import activated, quantizations_of

_ONE_BITS = 29
"""A fixed-point number with two bits above the unit, in which the kernel iterates."""
_FIRST, _SLOPE = 1515870810, -1010580540
"""48 / 17 and -32 / 17 as such numbers."""
_ITERATIONS = 3
_MOST_RIGHT = 31
"""A shift of int32."""


@dataclass(frozen=True, slots=True)
class DivOptions(Options):
    UNION_TYPE = 29

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


@constraint()
def uint8_features(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and output must be uint8: the runtime takes no int8."""
    return common.other_type(facts.features(node), DType.UINT8)


@constraint()
def divisor_constant(facts: GraphFacts, node: Node) -> str | None:
    """The divisor must be a constant of one value, the dividend be computed and have the output's
    shape.
    """
    (dividend, divisor), output = facts.inputs(node), facts.outputs(node)[0]
    if divisor.constant is None or divisor.constant.size != 1:
        return f"{named(divisor)} is {list(divisor.shape)}, or computed"
    if dividend.constant is None and dividend.shape == output.shape:
        return None
    return f"{named(dividend)} is {list(dividend.shape)}, the output {list(output.shape)}"


def _reciprocal(value: int) -> tuple[Values, int]:
    """Return ``1 / value`` of 1 or more as the kernels approximate it: 31 bits below the unit, and
    by how many it is to be shifted to the right.
    """
    over = value.bit_length() - 1
    half = np.array(value << (_MOST_RIGHT - 1 - over))  # from 1/2 to 1, of 31 bits
    found = _FIRST + high_product32(half, np.array(_SLOPE))
    for _ in range(_ITERATIONS):
        left = (1 << _ONE_BITS) - high_product32(half, found)
        found = found + (high_product32(found, left) << 2)
    return np.minimum(found << 1, INT32_MAX), over


def quotient(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    scales, zero_points = quantizations_of(graph, node)
    dividends, divisor = operands[0] - zero_points[0], int(operands[1].item()) - zero_points[1]
    if divisor == 0:
        raise UndefinedResultError("the divisor is 0")
    if divisor < 0:
        dividends, divisor = -dividends, -divisor
    factor = float32_product(scales[1], scales[2], over=1)
    if factor == 0:
        raise UndefinedResultError("the product of two scales is no float32")
    by = multiplier_of(float32_product(scales[0], over=factor))
    inverse, over = _reciprocal(divisor)
    bits = np.ceil(np.log2(np.where(dividends < 0, -dividends, dividends + 1))).astype(np.int64)
    room = _MOST_RIGHT - bits
    right = room + over - by.shift
    if right.min() < 0 or right.max() > _MOST_RIGHT:
        raise UndefinedResultError(f"quotients are shifted by {right.min()} to {right.max()} bits")
    products = high_product32(dividends << room, inverse)
    results = tflite.scaled(products, by.fraction, -right) + zero_points[2]
    return activated(graph, node, results, node.known_options(DivOptions).activation)


OPERATOR = Operator(
    name="DIV",
    options=DivOptions,
    inputs=(Role.OPERAND, Role.OPERAND),
    function=quotient,
    rules=(
        *common.FIRST,
        common.quantization_in_range,
        common.rank_in_range,
        uint8_features,
        divisor_constant,
    ),
)
