"""SQUEEZE: the same pixels in other rows and columns, free."""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import Shape
from delegate.ops.shared.reshaping import reshaping


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape without its dimensions of 1, if it loses as many as it has: the options,
    which are not read, may say which.
    """
    source = graph.tensor(node.inputs[0]).shape
    kept = tuple(size for size in source if size != 1)
    if len(kept) != len(graph.tensor(node.outputs[0]).shape):
        raise ValueError(f"which dimensions of {list(source)} it keeps is not known")
    return (kept,)


OPERATOR = reshaping("SQUEEZE", shapes)
