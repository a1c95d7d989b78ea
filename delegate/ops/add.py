"""ADD: two feature maps, or one and a constant, in the DPU."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.numerics.pipeline import EwOperation
from delegate.ops.shared.two_values import SumOptions, weighted


@dataclass(frozen=True, slots=True)
class AddOptions(SumOptions):
    UNION_TYPE = 11


OPERATOR = weighted("ADD", AddOptions, EwOperation.ADD, (1, 1))
