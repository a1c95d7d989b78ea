"""RELU_N1_TO_1 as an operator of its own: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.functions import RULES, clamped_function

OPERATOR = Operator(
    name="RELU_N1_TO_1", inputs=(Role.FEATURE,), function=clamped_function(-1.0, 1.0), rules=RULES
)
