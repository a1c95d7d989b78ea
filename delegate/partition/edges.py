"""What the host converts at a partition's edges, and the partition that is left inside.

Comes from: the records that have ``host_values``. Goes to: ``workload`` and all that looks at what
happens between the edges. A node that the host's conversion does needs no task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from delegate.lower.operation import Edge
from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition
from delegate.ops import record_of
from delegate.ops.operator import HostValues, Lowering, Side
from delegate.ops.shared.host_values import is_float32
from delegate.partition.rules import HOST_CONVERTS, Refusal
from delegate.partition.spreading import Applied, Placed, SpreadPlan, spread_edges


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """``inner``: the partition of ``graph`` without what the host does. ``inputs`` and ``outputs``:
    one for each tensor of the whole partition, or several for the boxes that make an output, in its
    order. ``functions``: of boxes, for which there is no node in ``inner``.
    """

    graph: Graph
    inner: Partition
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    refusals: tuple[Refusal, ...]
    functions: tuple[Applied, ...]

    @property
    def sources(self) -> frozenset[int]:
        """Of ``functions``: tensors that are needed though no node reads them."""
        return frozenset(item.source for item in self.functions)


def plan_edges(graph: Graph, partition: Partition) -> EdgePlan:
    """Gives the host what it can do; a refusal of nodes that only it can, but not here. What it
    need not do it does only beside nodes with tasks.
    """
    found = _Finder(graph, partition).find()
    if not _has_tasks(graph, partition, found):
        found = {index: values for index, values in found.items() if _is_needed(graph, index)}
    refusals = [
        Refusal(graph.node(index), HOST_CONVERTS, _problem(graph, index))
        for index in partition.nodes
        if index not in found and _is_needed(graph, index)
    ]
    if found and not _has_tasks(graph, partition, found):
        problem = "no operator of its partition computes anything"
        refusals += [Refusal(graph.node(i), HOST_CONVERTS, problem) for i in found]
        found = {}
    outer = {
        side: {_outer(graph, i, s): i for i, (s, _) in found.items() if s is side} for side in Side
    }

    def values_at(side: Side, tensor: int) -> Edge:
        index = outer[side].get(tensor)
        if index is None:
            return Edge(tensor, tensor)
        values = found[index][1]
        return Edge(tensor, _inner(graph, index, side), values.affine, values.table)

    inputs = [values_at(Side.INPUT, tensor) for tensor in partition.inputs]
    outputs = [values_at(Side.OUTPUT, tensor) for tensor in partition.outputs]
    inner = Partition(
        tuple(index for index in partition.nodes if index not in found),
        tuple(dict.fromkeys(item.inner for item in inputs)),
        tuple(dict.fromkeys(item.inner for item in outputs)),
    )
    moved = SpreadPlan(graph, inner) if refusals else spread_edges(graph, inner)
    return EdgePlan(
        moved.graph,
        moved.inner,
        tuple(_edge_at(edge, moved.inputs.get(edge.inner)) for edge in inputs),
        tuple(
            _edge_at(edge, box)
            for edge in outputs
            for box in moved.outputs.get(edge.inner, (None,))
        ),
        tuple(refusals),
        moved.functions,
    )


def _edge_at(edge: Edge, placed: Placed | None) -> Edge:
    if placed is None:
        return edge
    return replace(edge, inner=placed.tensor, spread=placed.spread, channels=placed.channels)


_Found = Mapping[int, tuple[Side, HostValues]]


class _Finder:
    """Nodes at the edges of a partition that the host's conversion can do."""

    def __init__(self, graph: Graph, partition: Partition) -> None:
        self._graph = graph
        self._inputs = frozenset(partition.inputs)
        self._outputs = frozenset(partition.outputs)
        self._nodes = [graph.node(index) for index in partition.nodes]
        self._readers: dict[int, int] = {}
        for node in self._nodes:
            for tensor in node.inputs:
                self._readers[tensor] = self._readers.get(tensor, 0) + 1

    def find(self) -> dict[int, tuple[Side, HostValues]]:
        """By node."""
        found: dict[int, tuple[Side, HostValues]] = {}
        converted: set[int] = set()
        for node in self._nodes:
            convert = record_of(self._graph, node).host_values
            side = self._side(node)
            if convert is None or side is None or node.inputs[0] in converted:
                continue
            values = convert(self._graph, node, side)
            if values is not None:
                found[node.index] = side, values
                converted.add(node.outputs[0])
        return found

    def _side(self, node: Node) -> Side | None:
        source, result = node.inputs[0], node.outputs[0]
        if source in self._inputs:
            alone = self._readers[source] == 1 and result not in self._outputs
            return Side.INPUT if alone else None
        is_last = result in self._outputs and result not in self._readers
        return Side.OUTPUT if is_last else None


def _outer(graph: Graph, index: int, side: Side) -> int:
    node = graph.node(index)
    return node.inputs[0] if side is Side.INPUT else node.outputs[0]


def _inner(graph: Graph, index: int, side: Side) -> int:
    node = graph.node(index)
    return node.outputs[0] if side is Side.INPUT else node.inputs[0]


def _has_tasks(graph: Graph, partition: Partition, found: _Found) -> bool:
    """Whether anything is left to compute beside what the host does."""
    left = (graph.node(index) for index in partition.nodes if index not in found)
    return any(
        record_of(graph, node).lowering is Lowering.TASKS and not _is_needed(graph, node.index)
        for node in left
    )


def _is_needed(graph: Graph, index: int) -> bool:
    """Whether nobody but the host can do it."""
    node = graph.node(index)
    return record_of(graph, node).host_values is not None and is_float32(graph, node)


def _problem(graph: Graph, index: int) -> str:
    node = graph.node(index)
    tensors = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    return f"node {index} is {' to '.join(t.dtype.name for t in tensors)} and at no such edge"
