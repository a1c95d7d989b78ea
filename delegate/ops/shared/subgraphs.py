"""Operators that run other subgraphs of their model."""

from __future__ import annotations

SUBGRAPH_RUNNERS = frozenset(
    {"CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"}
)
"""As TensorFlow Lite's schema has them; how often they do, data may decide."""
