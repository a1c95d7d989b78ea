"""SELECT between 8-bit tensors that follow from one value, as does what chooses: in a table."""

from __future__ import annotations

from delegate.ops.shared.real_functions import choice

OPERATOR = choice("SELECT")
