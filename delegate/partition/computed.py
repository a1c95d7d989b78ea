"""Give nodes that are computed while a graph is compiled to the partitions that read their results.

Comes from: a graph with such results as constants, and the nodes that the NPU takes. Goes to: the
compiler. For the runtime they are nodes of the partition like all others; no task is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from delegate.errors import Rejection
from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition
from delegate.ops.shared.shape_arithmetic import is_shape_arithmetic
from delegate.partition.rules import NOT_DENIED, READERS_TAKEN, refused


class Computed:
    """The nodes of ``graph`` that are computed while it is compiled, and belong to the partition
    that reads their results. ``rejections``: of nodes that the NPU does not take; those that the
    user denied stay where they are.
    """

    def __init__(self, graph: Graph, rejections: Sequence[Rejection]) -> None:
        denied = {r.node for r in rejections if r.rule == NOT_DENIED.name}
        self._graph = graph
        self._nodes = [node for node in graph.nodes if node.index not in denied and self._is(node)]

    def _is(self, node: Node) -> bool:
        outputs, graph = node.outputs, self._graph
        return is_shape_arithmetic(graph, node) and not any(t in graph.outputs for t in outputs)

    def split(
        self,
        partitions_of: Callable[[frozenset[int]], Sequence[Partition]],
        supported: Collection[int],
    ) -> list[Partition]:
        """Return the partitions of ``supported`` nodes, each with those that are computed for it
        alone. ``partitions_of`` groups nodes as the runtime does.
        """
        left: set[int] = set()
        while True:
            computed = self._read_by(supported, left)
            found = [
                self._inner(partition, computed)
                for partition in partitions_of(frozenset(supported) | computed)
            ]
            wrong = {node for one in found if self._reaches_out(one) for node in one.computed}
            if not wrong:
                return found
            left |= wrong

    def explained(
        self, rejections: Sequence[Rejection], partitions: Sequence[Partition]
    ) -> tuple[Rejection, ...]:
        """Return ``rejections`` of the nodes that are in none of ``partitions``, by node; of those
        that could be computed, with that reason.
        """
        done = {node for partition in partitions for node in partition.computed}
        mine = {node.index: node for node in self._nodes}
        found = [
            refused(mine[one.node], READERS_TAKEN, "others do") if one.node in mine else one
            for one in rejections
            if one.node not in done
        ]
        return tuple(sorted(found, key=lambda one: one.node))

    def _read_by(self, supported: Collection[int], left: set[int]) -> frozenset[int]:
        """Return those whose results only ``supported`` nodes, or one another, read."""
        readers: dict[int, list[int]] = {}
        for node in self._graph.nodes:
            for tensor in node.inputs:
                readers.setdefault(tensor, []).append(node.index)
        taken: set[int] = set()
        allowed = set(supported)
        for node in reversed(self._nodes):
            read = [reader for t in node.outputs for reader in readers.get(t, ())]
            if node.index not in left and read and all(r in allowed or r in taken for r in read):
                taken.add(node.index)
        return frozenset(taken)

    def _inner(self, partition: Partition, computed: frozenset[int]) -> Partition:
        inside = tuple(node for node in partition.nodes if node in computed)
        if not inside:
            return partition
        nodes = tuple(node for node in partition.nodes if node not in computed)
        read = {t for node in nodes for t in self._graph.node(node).inputs}
        inputs = tuple(t for t in partition.inputs if t in read)
        return Partition(nodes, inputs, partition.outputs, inside)

    def _reaches_out(self, one: Partition) -> bool:
        """Return whether what is computed for ``one`` is read elsewhere, or reads what the others
        do not, so that the runtime would have another idea of its edges.
        """
        if not one.computed:
            return False
        made = {t for node in one.nodes for t in self._graph.node(node).outputs}
        own = {t for node in one.computed for t in self._graph.node(node).outputs}
        read = {t for node in one.computed for t in self._graph.node(node).inputs if t >= 0}
        known = {t for t in read if self._graph.tensor(t).constant is not None}
        foreign = read - known - made - own - set(one.inputs)
        return not one.nodes or bool(foreign) or not own.isdisjoint(one.outputs)
