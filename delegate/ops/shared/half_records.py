"""Records in fp16 by their kind, see ``Operator.half``: what they are made of is imported when the
first float model asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from delegate.lower.numerics.pipeline import EwOperation
from delegate.model.graph import Activation
from delegate.ops.operator import Constraint, Operator

if TYPE_CHECKING:
    from delegate.lower.half.curves import Curve

Record = Callable[[Operator], Operator]


def sums(before: tuple[Constraint, ...], behind: tuple[Constraint, ...]) -> Record:
    """Return the record of sums of products with weights: its own rules ``before`` those of weights
    and ``behind`` them.
    """

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half import sums_record

        return sums_record(operator, before, behind)

    return record


def pair(operation: EwOperation) -> Record:
    """Return the record of two maps, or of one and a constant."""

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half_maps import pair_record

        return pair_record(operator, operation)

    return record


def clamp(activation: Activation) -> Record:
    """Return the record of a RELU."""

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half_maps import clamp_record

        return clamp_record(operator, activation)

    return record


def curve(made: Callable[[], Curve]) -> Record:
    """Return the record of a function in the DPU's tables."""

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half_maps import curve_record

        return curve_record(operator, made())

    return record


def magnitude(operator: Operator) -> Operator:
    """Return the record of ABS."""
    from delegate.ops.shared.half_norms import magnitude_record

    return magnitude_record(operator)


def negative(operator: Operator) -> Operator:
    """Return the record of NEG."""
    from delegate.ops.shared.half_norms import negative_record

    return negative_record(operator)


def squares(operator: Operator) -> Operator:
    """Return the record of SQUARE and SQUARED_DIFFERENCE."""
    from delegate.ops.shared.half_norms import squares_record

    return squares_record(operator)


def root(operator: Operator) -> Operator:
    """Return the record of RSQRT."""
    from delegate.ops.shared.half_norms import root_record

    return root_record(operator)


def moving(rules: tuple[Constraint, ...]) -> Record:
    """Return the record of an operator that brings bytes elsewhere."""

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half import moving_record

        return moving_record(operator, rules)

    return record


def alias(rules: tuple[Constraint, ...]) -> Record:
    """Return the record of tensors that lie in one another where they can."""

    def record(operator: Operator) -> Operator:
        from delegate.ops.shared.half import alias_record

        return alias_record(operator, rules)

    return record
