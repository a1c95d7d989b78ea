"""RESHAPE: the same pixels in other rows and columns, free."""

from __future__ import annotations

from delegate.ops.operator import Role
from delegate.ops.shared.reshaping import reshaping

OPERATOR = reshaping("RESHAPE", Role.NUMBERS)
