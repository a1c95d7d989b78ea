"""ELU of int8, or of float32 between 8-bit tensors: a table."""

from __future__ import annotations

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.functions import RULES, each, expm1, float_function
from delegate.ops.shared.real_functions import in_float


def elu(value: float) -> float:
    """Return a value, or e to its power less 1 if it is below 0."""
    return expm1(value) if value < 0 else value


OPERATOR = Operator(
    name="ELU",
    inputs=(Role.FEATURE,),
    function=float_function(elu),
    rules=(*RULES, int8_features),
    real_form=in_float(lambda _, given: each(elu, given[0])),
)
