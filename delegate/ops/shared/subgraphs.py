"""Operators that run other subgraphs of their model."""

from __future__ import annotations

from delegate.model.graph import Node

SUBGRAPH_RUNNERS = frozenset(
    {"CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"}
)
"""As TensorFlow Lite's schema has them; how often they do, data may decide."""


def runs_subgraphs(node: Node) -> bool:
    """Whether ``node`` is one of them: its work is that of nodes that no graph here holds."""
    return node.op in SUBGRAPH_RUNNERS
