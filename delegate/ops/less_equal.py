"""LESS_EQUAL of float32 between 8-bit tensors, a truth value that a SELECT reads: in a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.shared.real_functions import comparison

OPERATOR = comparison("LESS_EQUAL", np.less_equal)
