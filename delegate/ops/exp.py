"""EXP of int8, or of float32 between 8-bit tensors: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.functions import RULES, each, exp, float_function
from delegate.ops.shared.real_functions import in_float

OPERATOR = Operator(
    name="EXP",
    inputs=(Role.FEATURE,),
    function=float_function(exp),
    rules=(*RULES, int8_features),
    real_form=in_float(lambda _, given: each(exp, given[0])),
)
