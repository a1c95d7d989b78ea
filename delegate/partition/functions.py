"""Which nodes of a partition are functions of one value, and the 256 results of each.

Comes from: the records that have a ``function``. Goes to: ``workload``, which makes an operation of
every function whose result somebody needs. Values in between, that nobody else reads, vanish.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition
from delegate.ops import known_record, record_of
from delegate.ops.operator import Values
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.partition.rules import RESULTS_DEFINED, Refusal

MOST_NODES = 64
"""The most nodes of a chain: more than any network has in a row; every one more is looked at again
and again.
"""


@dataclass(frozen=True, slots=True)
class Chain:
    """``nodes``, by index in execution order, make the last one's result from ``source`` alone."""

    source: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionPlan:
    """``chains``: by the last node, all whose results are needed; ``tables``: their results for
    the device's values -128 to 127, as int8. ``within``: nodes that need no tasks of their own.
    """

    chains: Mapping[int, Chain]
    tables: Mapping[int, bytes]
    within: frozenset[int]
    refusals: tuple[Refusal, ...]


def plan_functions(
    graph: Graph, partition: Partition, wanted: Collection[int] = ()
) -> FunctionPlan:
    """Joins nodes to functions; ``wanted``: tensors that are needed though no node reads them. A
    refusal of nodes that could only be part of one, and are not
    in this partition, or whose results the reference kernels leave undefined.
    """
    joiner = _joined(graph, partition, wanted)
    refusals = {}
    chains = joiner.needed_chains
    tables = {}
    for index, chain in chains.items():
        try:
            tables[index] = table_of(graph, chain)
        except UndefinedResultError as error:
            for found in map(graph.node, chain.nodes):
                refusals[found.index] = Refusal(found, RESULTS_DEFINED, str(error))
    within = frozenset(index for chain in joiner.chains.values() for index in chain.nodes)
    return FunctionPlan(chains, tables, within, tuple(refusals.values()))


def chains_of(graph: Graph, partition: Partition) -> Mapping[int, Chain]:
    """The functions of ``partition`` whose results are needed, by the last node of each."""
    return _joined(graph, partition, ()).needed_chains


def _joined(graph: Graph, partition: Partition, wanted: Collection[int]) -> _Joiner:
    nodes = [graph.node(index) for index in partition.nodes]
    needed = {*partition.outputs, *wanted}
    for node in nodes:
        if record_of(graph, node).function is None:
            needed.update(node.inputs)
    joiner = _Joiner(graph, nodes, needed)
    while joiner.join():
        pass
    return joiner


def smallest_partition(graph: Graph, node: Node) -> Partition:
    """``node`` by itself, or with what it needs to be a function of one value."""
    if len(_computed(graph, node)) > 1:
        known = tuple(n.index for n in graph.nodes if known_record(graph, n) is not None)
        chain = _joined(graph, Partition(known, (), node.outputs), ()).chains.get(node.index)
        if chain is not None:
            return partition_of(graph, [graph.node(index) for index in chain.nodes])
    return partition_of(graph, [node])


def partition_of(graph: Graph, nodes: Sequence[Node]) -> Partition:
    """``nodes``, in execution order, of which the last one's result is wanted."""
    written = {tensor for node in nodes for tensor in node.outputs}
    read = dict.fromkeys(t for node in nodes for t in _computed(graph, node) if t not in written)
    return Partition(tuple(node.index for node in nodes), tuple(read), nodes[-1].outputs)


def _computed(graph: Graph, node: Node) -> tuple[int, ...]:
    found = (t for t in node.inputs if t >= 0 and graph.tensor(t).constant is None)
    return tuple(dict.fromkeys(found))


class _Joiner:
    """Chains by their last node, from the nearest tensor in memory where that is the only source,
    else from the first one.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], needed: set[int]) -> None:
        self._graph = graph
        self._nodes = [node for node in nodes if record_of(graph, node).function is not None]
        self._order = {node.index: place for place, node in enumerate(self._nodes)}
        self._needed = needed
        self.chains: dict[int, Chain] = {}

    @property
    def needed_chains(self) -> dict[int, Chain]:
        """Return the chains whose results somebody needs."""
        return {
            index: chain
            for index, chain in self.chains.items()
            if self._graph.node(index).outputs[0] in self._needed
        }

    def join(self) -> bool:
        """Makes all chains; whether more tensors are needed than before, so that some change."""
        before = len(self._needed)
        self.chains = {}
        near: dict[int, Chain] = {}
        far: dict[int, Chain] = {}
        for node in self._nodes:
            result = node.outputs[0]
            chain = self._chain(node, near, cut=True) or self._chain(node, far, cut=False)
            if chain is None:
                self._needed.update(node.inputs)
                continue
            self.chains[node.index] = near[result] = chain
            far[result] = self._chain(node, far, cut=False) or chain
        return len(self._needed) > before

    def _chain(self, node: Node, chains: Mapping[int, Chain], cut: bool) -> Chain | None:
        """``cut``: at tensors that are in memory."""
        sources, found = set(), {node.index}
        for tensor in record_of(self._graph, node).feature_inputs(node):
            constant = self._graph.tensor(tensor).constant
            if constant is not None:
                if constant.size != 1:
                    return None
                continue
            if tensor in chains and len(chains[tensor].nodes) >= MOST_NODES:
                self._needed.add(tensor)
                is_start = True
            else:
                is_start = tensor not in chains or (cut and tensor in self._needed)
            chain = Chain(tensor) if is_start else chains[tensor]
            sources.add(chain.source)
            found.update(chain.nodes)
        if len(sources) != 1:
            return None
        return Chain(sources.pop(), tuple(sorted(found, key=self._order.__getitem__)))


def table_of(graph: Graph, chain: Chain) -> bytes:
    """Results for the device's values in ascending order. Raises UndefinedResultError."""
    low, high = TYPE_RANGES[graph.tensor(chain.source).dtype]
    values: dict[int, Values] = {chain.source: np.arange(low, high + 1)}
    for index in chain.nodes:
        node = graph.node(index)
        operator = record_of(graph, node)
        assert operator.function is not None
        operands = [
            values[t] if t in values else _constant(graph, t) for t in operator.feature_inputs(node)
        ]
        limits = TYPE_RANGES[graph.tensor(node.outputs[0]).dtype]
        results = operator.function(graph, node, operands)
        values[node.outputs[0]] = np.broadcast_to(np.clip(results, *limits), (high - low + 1,))
    result = graph.tensor(graph.node(chain.nodes[-1]).outputs[0])
    offset = result.dtype.element.offset
    return (values[result.index] - offset).astype(np.int8).tobytes()


def _constant(graph: Graph, index: int) -> Values:
    constant = graph.tensor(index).constant
    assert constant is not None
    return constant.astype(np.int64).ravel()
