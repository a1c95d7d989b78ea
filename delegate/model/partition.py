"""A part of a graph that becomes one program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """A convex set of nodes that becomes one program and one submit.

    ``nodes``: node indices in execution order. ``inputs``: non-constant tensors it reads from
    outside. ``outputs``: tensors it produces that are read outside or are outputs of the graph.
    ``computed``: nodes beside these that are computed while it is compiled, as shapes are; only
    its ``nodes`` read their results.
    """

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    computed: tuple[int, ...] = ()

    @property
    def delegated(self) -> tuple[int, ...]:
        """All nodes that the program stands for, by index."""
        return tuple(sorted((*self.nodes, *self.computed)))
