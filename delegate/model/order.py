"""Whether the nodes of a graph can run as they stand."""

from __future__ import annotations

from collections.abc import Iterator

from delegate.model.graph import Graph, Tensor

ABSENT = -1
"""Among the inputs and outputs of a node: none."""


def named(tensor: Tensor) -> str:
    """How messages call a tensor."""
    return f"tensor {tensor.index} {tensor.name!r}"


def computed_tensors(graph: Graph) -> frozenset[int]:
    """Tensors that a node writes."""
    return frozenset(t for node in graph.nodes for t in node.outputs if t != ABSENT)


def find_disorder(graph: Graph) -> str | None:
    """Say what keeps the nodes from running one after the other as they stand; None: nothing.

    The runtime finds partitions by which results are ready, not by the order of the nodes, and
    writes out of bounds where an output of the model never gets ready.
    """

    def present(tensors: tuple[int, ...]) -> Iterator[Tensor]:
        return (graph.tensor(t) for t in tensors if t != ABSENT)

    done: set[int] = set()
    ends = frozenset(graph.inputs)
    computed = computed_tensors(graph)
    for node in graph.nodes:
        where = f"node {node.index} ({node.op})"
        for tensor in present(node.inputs):
            if tensor.index in computed and tensor.index not in done:
                return f"{where} reads {named(tensor)} before it is written"
        for tensor in present(node.outputs):
            if tensor.index in done:
                return f"{where} writes {named(tensor)} again"
            if tensor.is_variable or tensor.index in ends:
                kind = "a variable" if tensor.is_variable else "an input of the model"
                return f"{where} writes {named(tensor)}, {kind}"
            done.add(tensor.index)
    return None
