"""MINIMUM: the smaller raw value of two feature maps, or of one and a constant; of float32 between
8-bit tensors a table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.lower.numerics.pipeline import EwOperation
from delegate.ops.shared.real_functions import in_float
from delegate.ops.shared.two_values import extremum

OPERATOR = replace(
    extremum("MINIMUM", EwOperation.MIN, np.minimum),
    real_form=in_float(lambda _, given: np.minimum(*given)),
)
