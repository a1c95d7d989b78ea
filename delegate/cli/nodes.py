"""Lists of node indices in few characters."""

from __future__ import annotations

from collections.abc import Iterable


def nodes_text(nodes: Iterable[int]) -> str:
    """0, 1, 2, 5 as "0-2 5"."""
    runs: list[list[int]] = []
    for node in sorted(nodes):
        if runs and node == runs[-1][1] + 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
