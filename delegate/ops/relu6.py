"""RELU6 as an operator of its own, also of float32 between 8-bit tensors: a table."""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Activation
from delegate.ops.operator import Operator, Role
from delegate.ops.shared import half_records
from delegate.ops.shared.functions import RULES, clamped_function
from delegate.ops.shared.real_functions import in_float

OPERATOR = Operator(
    name="RELU6",
    inputs=(Role.FEATURE,),
    function=clamped_function(0.0, 6.0),
    rules=RULES,
    real_form=in_float(lambda _, given: np.clip(given[0], 0.0, 6.0)),
    half=half_records.clamp(Activation.RELU6),
)
