"""HARD_SWISH: a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared.fixed_point import (
    INT16_MAX,
    INT32_MAX,
    UndefinedResultError,
    divide_by_power16,
    float32_product,
    high_product16,
    multiplier_of,
    towards_zero,
)
from delegate.ops.shared.functions import RULES, scales_of

_HIRES_BITS = 7
_RELUISH_SCALE = 3 / (1 << 15)
"""The scale of the int16 that holds relu6(x + 3) / 6, between -1 and 1."""
_MOST_LEFT = 31
"""The kernel multiplies by 2 to the power of one less, as an int32."""


def hard_swish(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """The kernels' steps in int16: the value times 128, scaled to the output, times the clamped
    and halved one.
    """
    (source, source_zero), (target, target_zero) = scales_of(graph, node)
    hires = float32_product(source, over=1 << _HIRES_BITS)
    to_output = multiplier_of(float32_product(hires, over=target))
    to_reluish = multiplier_of(float32_product(hires, over=_RELUISH_SCALE))
    if to_output.shift > 0:
        raise UndefinedResultError("the output's scale is less than 1/128 of the input's")
    if to_reluish.shift > _MOST_LEFT:
        raise UndefinedResultError(f"the input's scale {source} shifts values out of int32")
    values = (operands[0] - source_zero) << _HIRES_BITS
    preshift = high_product16(values, _in_16_bits(to_output.fraction))
    reluish = values
    if to_reluish.shift > 0:
        reluish = _saturated(reluish << (to_reluish.shift - 1))
    reluish = high_product16(reluish, _in_16_bits(to_reluish.fraction))
    if to_reluish.shift > 0:
        reluish = _saturated(reluish << 1)
    reluish = divide_by_power16(reluish, max(-to_reluish.shift, 0))
    reluish = (reluish + (1 << 15)) >> 1
    product = towards_zero(reluish * preshift, 15)
    return divide_by_power16(product, -to_output.shift) + target_zero


def _in_16_bits(fraction: int) -> int:
    """A fraction of 31 bits rounded to 15."""
    half = 1 << 15
    return INT16_MAX if fraction >= INT32_MAX - half else (fraction + half) >> 16


def _saturated(values: Values) -> Values:
    return np.clip(values, -INT16_MAX - 1, INT16_MAX)


def half(operator: Operator) -> Operator:
    """One task in fp16."""
    from delegate.ops.shared.half_maps import hard_swish_record

    return hard_swish_record(operator)


OPERATOR = Operator(
    name="HARD_SWISH", inputs=(Role.FEATURE,), function=hard_swish, rules=RULES, half=half
)
