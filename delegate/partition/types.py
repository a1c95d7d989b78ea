"""What partitioning gives: convex sets of supported nodes, and a reason for every node left out."""

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


@dataclass(frozen=True, slots=True)
class Partition:
    """A convex set of nodes that becomes one program and one submit.

    ``nodes``: node indices in execution order. ``inputs``: non-constant tensors it reads from
    outside. ``outputs``: tensors it produces that are read outside or are outputs of the graph.
    """

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
