"""LOGISTIC: a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from delegate.ops.operator import Operator, Role
from delegate.ops.shared import functions, half_records
from delegate.ops.shared.functions import RULES, float_function
from delegate.ops.shared.image_rules import probability_scale

if TYPE_CHECKING:
    from delegate.lower.half.curves import Curve

_LEAST_EXPONENT = -88.0
"""exp of more than its negative is no float32."""


def logistic(value: float) -> float:
    """1 / (1 + exp(-value)) in float32."""
    if value < _LEAST_EXPONENT:
        return 0.0
    return float(np.float32(1) / (np.float32(1) + np.float32(functions.exp(-value))))


_HALF_UNITS = 1536.0
"""The steps of the tables' index per unit of the number: they reach to 10.7, where 2.3e-5 are left
to 0 or 1, a third of what half a unit of the index makes at the steepest place. From there on it is
0 or 1.
"""
_HALF_BEND = 0.0963
"""1 / (6 * sqrt(3)), rounded up: the largest second derivative."""


def half_curve() -> Curve:
    """Return the curve that the tables hold in fp16."""
    from delegate.lower.half.curves import Curve

    def exact(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(1 / (1 + np.exp(-x)))

    return Curve(exact, 0.25, _HALF_BEND, (0.0, 1.0), _HALF_UNITS)


OPERATOR = Operator(
    name="LOGISTIC",
    inputs=(Role.FEATURE,),
    function=float_function(logistic),
    rules=(*RULES, probability_scale),
    half=half_records.curve(half_curve),
)
