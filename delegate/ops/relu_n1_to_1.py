"""RELU_N1_TO_1 as an operator of its own, also of float32 between 8-bit tensors: a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.operator import Operator, Role
from delegate.ops.shared.functions import RULES, clamped_function
from delegate.ops.shared.real_functions import in_float

OPERATOR = Operator(
    name="RELU_N1_TO_1",
    inputs=(Role.FEATURE,),
    function=clamped_function(-1.0, 1.0),
    rules=RULES,
    real_form=in_float(lambda _, given: np.clip(given[0], -1.0, 1.0)),
)
