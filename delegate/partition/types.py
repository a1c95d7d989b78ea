"""Why a node is left to the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.errors import Rule
from delegate.model.graph import Node


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why ``node`` cannot be what its operator's record says, in its partition."""

    node: Node
    rule: Rule
    problem: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node stays on the CPU. ``rule`` is the constraint's name, ``detail`` the sentence
    for the user.
    """

    node: int
    op: str
    rule: str
    detail: str
