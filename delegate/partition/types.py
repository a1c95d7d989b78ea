"""Why a node is left to the CPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node stays on the CPU. ``rule`` is the constraint's name, ``detail`` the sentence
    for the user.
    """

    node: int
    op: str
    rule: str
    detail: str
