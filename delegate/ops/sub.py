"""SUB: of two feature maps, or one and a constant, in the DPU; of one value a table."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.numerics.pipeline import EwOperation
from delegate.ops.shared.two_values import SumOptions, weighted


@dataclass(frozen=True, slots=True)
class SubOptions(SumOptions):
    UNION_TYPE = 28


OPERATOR = weighted("SUB", SubOptions, EwOperation.SUBTRACT, (1, -1))
