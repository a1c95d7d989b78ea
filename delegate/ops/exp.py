"""EXP of int8: a table."""

from __future__ import annotations

import math

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.functions import RULES, float_function


def exp(value: float) -> float:
    """Infinite where no float32 holds the result."""
    return math.exp(value) if value < math.log(2) * 128 else math.inf


OPERATOR = Operator(
    name="EXP", inputs=(Role.FEATURE,), function=float_function(exp), rules=(*RULES, int8_features)
)
