"""LESS of float32 between 8-bit tensors, a truth value that a SELECT reads: in a table."""

from __future__ import annotations

import numpy as np

from delegate.ops.operator import Role
from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("LESS", lambda _, given: np.less(*given), Role.OPERAND)
