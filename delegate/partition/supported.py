"""The operators that the NPU takes and the rules a node must meet, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """``name`` is what a rejection gives as its rule, ``sentence`` the rule in words."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class SupportedOperator:
    """A TensorFlow Lite operator and its rules, in the order in which they are checked."""

    op: str
    rules: tuple[Rule, ...]


def supported_operators() -> tuple[SupportedOperator, ...]:
    """All operators of this version."""
    from delegate.ops import OPERATORS

    return tuple(
        SupportedOperator(op, tuple(Rule(rule.name, rule.sentence) for rule in operator.rules))
        for op, operator in OPERATORS.items()
    )
