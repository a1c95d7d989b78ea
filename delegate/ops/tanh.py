"""TANH: a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from delegate.ops.operator import Operator, Role
from delegate.ops.shared import half_records
from delegate.ops.shared.functions import RULES, float_function, tanh

if TYPE_CHECKING:
    from delegate.lower.half.curves import Curve

_HALF_UNITS = 3456.0
"""The steps of the tables' index per unit of the number: they reach to 4.74, where 1.5e-4 are left
to 1, as much as half a unit of the index makes at the steepest place.
"""
_HALF_BEND = 0.7699
"""4 / (3 * sqrt(3)), rounded up: the largest second derivative."""


def half_curve() -> Curve:
    """Return the curve that the tables hold in fp16."""
    from delegate.lower.half.curves import Curve

    return Curve(np.tanh, 1.0, _HALF_BEND, (-1.0, 1.0), _HALF_UNITS)


OPERATOR = Operator(
    name="TANH",
    inputs=(Role.FEATURE,),
    function=float_function(tanh),
    rules=RULES,
    half=half_records.curve(half_curve),
)
