"""SIN of float32 between 8-bit tensors: a table."""

from __future__ import annotations

from delegate.ops.shared.functions import each, sin
from delegate.ops.shared.real_functions import real_function

OPERATOR = real_function("SIN", lambda _, given: each(sin, given[0]))
