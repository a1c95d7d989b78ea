"""ELU of int8: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.functions import RULES, expm1, float_function


def elu(value: float) -> float:
    """Return a value, or e to its power less 1 if it is below 0."""
    return expm1(value) if value < 0 else value


OPERATOR = Operator(
    name="ELU", inputs=(Role.FEATURE,), function=float_function(elu), rules=(*RULES, int8_features)
)
