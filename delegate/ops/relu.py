"""RELU as an operator of its own: a table."""

from __future__ import annotations

from delegate.model.graph import Activation
from delegate.ops.operator import Operator, Role
from delegate.ops.shared import half_records
from delegate.ops.shared.functions import RULES, clamped_function

OPERATOR = Operator(
    name="RELU",
    inputs=(Role.FEATURE,),
    function=clamped_function(0.0, None),
    rules=RULES,
    half=half_records.clamp(Activation.RELU),
)
