"""TANH: a table."""

from __future__ import annotations

import math

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.functions import RULES, float_function

OPERATOR = Operator(
    name="TANH", inputs=(Role.FEATURE,), function=float_function(math.tanh), rules=RULES
)
