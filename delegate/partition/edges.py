"""Find what the host converts at a partition's edges, and the partition that is left inside.

Comes from: the records that have ``host_values``. Goes to: ``workload`` and all that looks at what
happens between the edges. A node that the host's conversion does needs no task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from delegate.lower.operation import Edge
from delegate.model.graph import Graph
from delegate.model.partition import Partition
from delegate.ops import record_of
from delegate.ops.operator import Lowering, Side
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
        """Return the sources of ``functions``: tensors needed though no node reads them."""
        return frozenset(item.source for item in self.functions)


def plan_edges(graph: Graph, partition: Partition) -> EdgePlan:
    """Gives the host what it can do; a refusal of nodes that only it can, but not here. What it
    need not do it does only beside nodes with tasks.
    """
    found = _converted(graph, partition)
    if not _has_tasks(graph, partition, found):
        found = {index: edge for index, edge in found.items() if _is_needed(graph, index)}
    refusals = [
        Refusal(graph.node(index), HOST_CONVERTS, _problem(graph, index))
        for index in partition.nodes
        if index not in found and _is_needed(graph, index)
    ]
    if found and not _has_tasks(graph, partition, found):
        problem = "no operator of its partition computes anything"
        refusals += [Refusal(graph.node(i), HOST_CONVERTS, problem) for i in found]
        found = {}
    by_outer = {edge.outer: edge for edge in found.values()}
    inputs = [by_outer.get(tensor) or Edge(tensor, tensor) for tensor in partition.inputs]
    outputs = [by_outer.get(tensor) or Edge(tensor, tensor) for tensor in partition.outputs]
    inner = Partition(
        tuple(index for index in partition.nodes if index not in found),
        tuple(dict.fromkeys(edge.inner for edge in inputs)),
        tuple(dict.fromkeys(edge.inner for edge in outputs)),
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


def _converted(graph: Graph, partition: Partition) -> dict[int, Edge]:
    """Nodes at the edges of a partition that the host's conversion can do, and what it does."""
    nodes = [graph.node(index) for index in partition.nodes]
    readers = Counter(tensor for node in nodes for tensor in node.inputs)
    inputs, outputs = frozenset(partition.inputs), frozenset(partition.outputs)
    converted: set[int] = set()
    found: dict[int, Edge] = {}
    for node in nodes:
        source, result = node.inputs[0], node.outputs[0]
        if source in inputs:
            outer, inner, side = source, result, Side.INPUT
            is_edge = readers[source] == 1 and result not in outputs
        else:
            outer, inner, side = result, source, Side.OUTPUT
            is_edge = result in outputs and not readers[result]
        convert = record_of(graph, node).host_values
        if convert is None or not is_edge or source in converted:
            continue
        values = convert(graph, node, side)
        if values is not None:
            found[node.index] = Edge(outer, inner, values.affine, values.table)
            converted.add(result)
    return found


def _has_tasks(graph: Graph, partition: Partition, found: Collection[int]) -> bool:
    """Whether anything is left to compute beside what the host does, ``found``."""
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
