"""COS of float32 between 8-bit tensors: a table."""

from __future__ import annotations

from delegate.ops.shared.functions import cos, each
from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("COS", lambda _, given: each(cos, given[0]))
