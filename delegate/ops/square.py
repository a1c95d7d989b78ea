"""SQUARE of float32 between 8-bit tensors: a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("SQUARE", lambda _, given: np.square(given[0]))
