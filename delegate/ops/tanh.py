"""TANH: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.float32 import tanh
from delegate.ops.shared.functions import RULES, float_function

OPERATOR = Operator(name="TANH", inputs=(Role.FEATURE,), function=float_function(tanh), rules=RULES)
