"""Group nodes into partitions, and put all nodes into an order in which they can run.

In: a ``Graph`` and which of its nodes are delegated. Out: the ``Partition``s that TensorFlow Lite
itself makes of these.

Say a partition in another way, where that pays (``heads``, ``siblings``): tensors and nodes that
are added to its graph, or put in place of others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from delegate.model.graph import ABSENT, DType, Graph, Node, Partition, Tensor

NEVER = -1  # the epoch of a node whose inputs are never computed


def partition_graph(graph: Graph, supported: Collection[int]) -> list[Partition]:
    """Groups the ``supported`` node indices into partitions, as TensorFlow Lite does.

    The runtime fills alternating epochs: the first node whose inputs are ready decides whether the
    epoch is one of supported or of other nodes; the epoch then takes, in passes over the execution
    plan, every node of that kind whose inputs are ready, until a pass adds none. A node's inputs
    come from its own or earlier epochs, so every partition is convex and the partitions, in order,
    can run one after the other. Parts of an epoch that are not connected stay together, because one
    submit is cheaper than two. A graph that names no outputs (read from a context) gets those
    tensors as outputs that nobody reads.
    """
    members = frozenset(supported)
    epochs = _epochs(graph, members)
    epoch_of_node = {node: epoch for epoch, nodes in enumerate(epochs) for node in nodes}
    readers: dict[int, set[int]] = {}  # tensor -> epochs of the nodes that read it
    for node in graph.nodes:
        for tensor in node.inputs:
            readers.setdefault(tensor, set()).add(epoch_of_node.get(node.index, NEVER))
    found = []
    for epoch, nodes in enumerate(epochs):
        if nodes[0] not in members:
            continue
        given = [graph.node(node) for node in nodes]
        produced = {t for node in given for t in node.outputs if t != ABSENT}
        read = (graph.tensor(t) for node in given for t in node.inputs if t != ABSENT)
        computed = {t.index for t in read if t.constant is None and not t.is_variable}
        seen = {t for t in produced if readers.get(t, set()) - {epoch}}
        seen |= produced & {*graph.outputs} if graph.outputs else produced - readers.keys()
        # Each in ascending order, as the runtime lists them.
        borders = tuple(sorted(computed - produced)), tuple(sorted(seen))
        found.append(Partition(nodes, *borders))
    return found


def execution_order(
    graph: Graph, supported: Collection[int], parts: Sequence[Collection[int]] = ()
) -> list[tuple[int, ...]]:
    """All nodes in an order in which they can run: each group is a partition of
    ``partition_graph``, or one of its ``parts``, or consists of nodes that are not ``supported``.
    Nodes that never run come last, one by one.
    """
    epochs = _epochs(graph, frozenset(supported))
    placed = {node for nodes in epochs for node in nodes}
    number = {node: place for place, part in enumerate(parts) for node in part}
    groups = [
        tuple(group)
        for nodes in epochs
        for _, group in groupby(sorted(nodes, key=lambda n: number.get(n, 0)), number.get)
    ]
    return [*groups, *((node.index,) for node in graph.nodes if node.index not in placed)]


PartitionsOf = Callable[[frozenset[int]], Sequence[Partition]]
"""Groups nodes as the runtime does."""


def _epochs(graph: Graph, supported: frozenset[int]) -> list[tuple[int, ...]]:
    """Node indices of every epoch, in the order the runtime adds them.

    The runtime's repeated passes over the plan are two heaps here, of ready nodes by (pass, place
    in the plan): a node made ready by an earlier one in the plan joins in the same pass, by a later
    one in the next. That keeps long graphs from costing the square of their length.
    """
    plan_nodes = graph.nodes
    readers: dict[int, list[int]] = {}
    missing = [0] * len(plan_nodes)
    computed = {t for node in plan_nodes for t in node.outputs if t != ABSENT}
    for place, node in enumerate(plan_nodes):
        for tensor in computed.intersection(node.inputs):
            readers.setdefault(tensor, []).append(place)
            missing[place] += 1
    ready: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for place, node in enumerate(plan_nodes):
        if missing[place] == 0:
            heapq.heappush(ready[node.index in supported], (0, place))
    done: set[int] = set()
    epochs: list[tuple[int, ...]] = []
    while ready[True] or ready[False]:
        # A new epoch starts a new pass: only the place counts, for all that wait.
        for kind in ready:
            ready[kind] = [(0, place) for _, place in ready[kind]]
            heapq.heapify(ready[kind])
        is_supported = not ready[False] or (bool(ready[True]) and ready[True][0] < ready[False][0])
        heap = ready[is_supported]
        nodes: list[int] = []
        while heap:
            turn, place = heapq.heappop(heap)
            nodes.append(plan_nodes[place].index)
            for tensor in plan_nodes[place].outputs:
                if tensor in done:
                    continue
                done.add(tensor)
                for reader in readers.get(tensor, ()):
                    missing[reader] -= 1
                    if missing[reader] == 0:
                        target = ready[plan_nodes[reader].index in supported]
                        heapq.heappush(target, (turn + (reader < place), reader))
        epochs.append(tuple(nodes))
    return epochs


def inner_part(graph: Graph, whole: Partition, nodes: Collection[int]) -> Partition:
    """Return ``whole`` where only ``nodes`` become tasks; its others are computed before."""
    kept = tuple(node for node in whole.nodes if node in nodes)
    computed = tuple(node for node in whole.nodes if node not in nodes)
    read = {tensor for node in kept for tensor in graph.node(node).inputs}
    inputs = tuple(tensor for tensor in whole.inputs if tensor in read)
    return Partition(kept, inputs, whole.outputs, computed)


RESHAPE, SLICE = "RESHAPE", "SLICE"
"""The operators that bring elements back in the model's order, and that cut a part."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph that says a partition in another way. ``before``: the model's nodes that a
    convolution of ``graph`` also does, by the index that it has.
    """

    graph: Graph
    partition: Partition
    before: Mapping[int, tuple[int, ...]]


class Rewriter:
    """A graph while it is rewritten. ``tensors`` and ``nodes``: as they are by now, the nodes in an
    order in which they can run. Those that are added belong to ``partition``. ``changed``: the
    nodes that were put in the place of others, by index.
    """

    def __init__(self, graph: Graph, partition: Partition) -> None:
        self.graph, self.partition = graph, partition
        self.tensors = list(graph.tensors)
        self.nodes = list(graph.nodes)
        self.changed: list[int] = []

    def add(
        self, like: Tensor, shape: Sequence[int], constant: npt.NDArray[np.generic] | None = None
    ) -> int:
        """Add a tensor as ``like``, of another shape, and return its index."""
        index = len(self.tensors)
        size = tuple(shape)
        made = replace(like, index=index, shape=size, constant=constant, shape_signature=())
        self.tensors.append(made)
        return index

    def numbers(self, values: Sequence[int]) -> int:
        """Add a constant that says a shape, a place or a size."""
        array = np.array(values, np.int32)
        return self.add(Tensor(0, "numbers", array.shape, DType.INT32), array.shape, array)

    @property
    def spare(self) -> int:
        """Return the first index from which on no node has one."""
        return max(node.index for node in (*self.graph.nodes, *self.nodes)) + 1

    def put(self, index: int, *nodes: Node) -> None:
        """Put ``nodes`` in the place of node ``index``; none: it goes."""
        at = next(place for place, node in enumerate(self.nodes) if node.index == index)
        self.nodes[at : at + 1] = nodes
        self.changed += [node.index for node in nodes]

    def put_behind(self, tensor: int, *nodes: Node) -> None:
        """Put ``nodes`` behind the one that makes ``tensor``."""
        at = next(place for place, node in enumerate(self.nodes) if tensor in node.outputs) + 1
        self.nodes[at:at] = nodes

    def made(self) -> tuple[Graph, Partition]:
        """Return the graph and the partition as they are by now."""
        indices = [node.index for node in self.nodes]
        mine = {*indices}.difference(node.index for node in self.graph.nodes)
        mine.update(self.partition.nodes)
        graph = replace(self.graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
        return graph, replace(self.partition, nodes=tuple(i for i in indices if i in mine))
