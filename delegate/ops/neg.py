"""NEG of float32, as Keras 3 has it: between 8-bit tensors a table, in fp16 a product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.ops.shared import half_records
from delegate.ops.shared.real_functions import real_function

OPERATOR = replace(
    real_function("NEG", lambda _, given: np.negative(given[0])), half=half_records.negative
)
