"""SQRT of float32 between 8-bit tensors: a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("SQRT", lambda _, given: np.sqrt(given[0]))
