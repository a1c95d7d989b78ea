"""The operators that the NPU takes and the rules a node must meet, as values."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.errors import Rule


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """A TensorFlow Lite operator and its rules, in the order in which they are checked."""

    op: str
    rules: tuple[Rule, ...]


def supported_operators() -> tuple[SupportedOperator, ...]:
    """All operators of this version."""
    from delegate.chip.chips import DEFAULT
    from delegate.ops import OPERATORS

    return tuple(
        SupportedOperator(op, tuple(Rule(r.name, r.sentence_for(DEFAULT)) for r in operator.rules))
        for op, operator in OPERATORS.items()
    )
