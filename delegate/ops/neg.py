"""NEG of float32 between 8-bit tensors, as layer normalisation of Keras 3 has it: a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("NEG", lambda _, given: np.negative(given[0]))
