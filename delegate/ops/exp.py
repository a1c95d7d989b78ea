"""EXP of int8: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.functions import RULES, exp, float_function

OPERATOR = Operator(
    name="EXP", inputs=(Role.FEATURE,), function=float_function(exp), rules=(*RULES, int8_features)
)
