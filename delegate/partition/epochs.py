"""Group nodes into partitions, and put all nodes into an order in which they can run.

In: a ``Graph`` and which of its nodes are delegated. Out: the ``Partition``s that TensorFlow Lite
itself makes of these.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from delegate.model.graph import ABSENT, Graph, Partition

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
    return [
        _with_borders(graph, nodes, epoch, readers)
        for epoch, nodes in enumerate(epochs)
        if nodes[0] in members
    ]


def execution_order(graph: Graph, supported: Collection[int]) -> list[tuple[int, ...]]:
    """All nodes in an order in which they can run: each group is a partition of ``partition_graph``
    or consists of nodes that are not ``supported``. Nodes that never run come last, one by one.
    """
    epochs = _epochs(graph, frozenset(supported))
    placed = {node for nodes in epochs for node in nodes}
    return [*epochs, *((node.index,) for node in graph.nodes if node.index not in placed)]


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


def _with_borders(
    graph: Graph, nodes: tuple[int, ...], epoch: int, readers: Mapping[int, set[int]]
) -> Partition:
    """Adds inputs and outputs, each in ascending order, as the runtime lists them."""
    produced = {t for node in nodes for t in graph.node(node).outputs if t != ABSENT}
    read = {t for node in nodes for t in graph.node(node).inputs if t != ABSENT}
    ends = frozenset(graph.outputs)
    inputs = []
    for index in sorted(read - produced):
        tensor = graph.tensor(index)
        if tensor.constant is None and not tensor.is_variable:
            inputs.append(index)
    outputs = []
    for index in sorted(produced):
        reading = readers.get(index, set())
        is_end = index in ends if ends else not reading
        if is_end or reading - {epoch}:
            outputs.append(index)
    return Partition(nodes, tuple(inputs), tuple(outputs))


def inner_part(graph: Graph, whole: Partition, nodes: Collection[int]) -> Partition:
    """Return ``whole`` where only ``nodes`` become tasks; its others are computed before."""
    kept = tuple(node for node in whole.nodes if node in nodes)
    computed = tuple(node for node in whole.nodes if node not in nodes)
    read = {tensor for node in kept for tensor in graph.node(node).inputs}
    inputs = tuple(tensor for tensor in whole.inputs if tensor in read)
    return Partition(kept, inputs, whole.outputs, computed)
