"""Concatenations, splits, slices and reshapes by address: which tensors lie in others, and where.

Comes from: the aliases of a partition, which compute nothing. Goes to: the partitioner (a
rejection for every alias that would need a copy) and ``lower.memory``, which gives the tensors
of a group one piece of memory. Free is what whole surfaces of 16 bytes, consecutive pixels
or images of a larger tensor make; both tensors have the same quantisation, so results are exactly
the same.

Which nodes of a partition are functions of one value, and the 256 results of each.

Comes from: the records that have a ``function``. Goes to: ``workload``, which makes an operation of
every function whose result somebody needs. Values in between, that nobody else reads, vanish.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.lower.memory.tensors import Place
from delegate.model.graph import Graph, Node, Partition
from delegate.ops.operator import GraphFacts, Movement, Values, known_record, record_of
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.ops.shared.parts import ORIGIN, Position, extent, is_free, shifts
from delegate.ops.shared.reshaping import swallowed
from delegate.partition.rules import (
    ALIAS_IS_FREE,
    OF_ONE_VALUE,
    RESULTS_DEFINED,
    Refusal,
)

# More tensors in one piece of memory than any network has; their pairs are compared.
MAX_GROUP = 256


@dataclass(frozen=True, slots=True)
class AliasPlan:
    """A place for every tensor that shares memory; the nodes that are free, and those that
    stay on the CPU. All others that move data need tasks.
    """

    places: Mapping[int, Place]
    refusals: tuple[Refusal, ...]
    aliases: tuple[Node, ...] = ()


NOTHING_JOINED = AliasPlan({}, ())


@dataclass(slots=True)
class _Group:
    """Tensors in one piece of memory and where each begins, from any common origin."""

    begins: dict[int, Position] = field(default_factory=dict)

    def shifted(self, by: Sequence[int]) -> dict[int, Position]:
        return {tensor: _sum(begin, by) for tensor, begin in self.begins.items()}


def _sum(a: Sequence[int], b: Sequence[int]) -> Position:
    images, pixels, channels = (x + y for x, y in zip(a, b, strict=True))
    return images, pixels, channels


def _difference(a: Sequence[int], b: Sequence[int]) -> Position:
    return _sum(a, [-y for y in b])


def place_aliases(graph: Graph, partition: Partition) -> AliasPlan:
    """Joins the tensors of every alias in turn. A node that contradicts the ones before it becomes
    tasks, or is refused where it is not worth them.
    """
    facts = GraphFacts(graph)
    moving = [graph.node(i) for i in partition.nodes if facts.movement(graph.node(i)) is not None]
    if len(moving) == len(partition.nodes) > 0:
        reason = "no operator of its partition computes anything"
        return AliasPlan({}, tuple(Refusal(node, ALIAS_IS_FREE, reason) for node in moving))
    apart = [node for node in moving if not is_free(facts, node)]
    copied: set[int] = {node.index for node in apart}
    members = {node.index for node in moving}
    moved = [node for node in apart if facts.movement(node) is Movement.KEEP]
    if moved:
        copied |= swallowed(facts, moved, members, partition.outputs)
    while True:
        planner = _Planner(facts, partition, copied)
        refusals, more = [], set()
        for node in moving:
            problem = None if node.index in copied else planner.join(node)
            if problem is None:
                continue
            if planner.is_at_edges(node):
                refusals.append(Refusal(node, ALIAS_IS_FREE, problem))
            else:
                more.add(node.index)
        if not more:
            break
        copied |= more
    refusals += planner.wasteful_slices()
    aliases = tuple(node for node in moving if node.index not in copied)
    return AliasPlan(planner.places(), tuple(refusals), aliases)


class _Planner:
    """``copied``: nodes that become tasks, by index."""

    def __init__(self, facts: GraphFacts, partition: Partition, copied: Collection[int]) -> None:
        graph = facts.graph
        self._facts, self._graph = facts, graph
        self._inputs = frozenset(partition.inputs)
        self._outputs = frozenset(partition.outputs)
        self._groups: dict[int, _Group] = {}
        self._written = self._inputs | {
            tensor
            for index in partition.nodes
            if facts.movement(graph.node(index)) is None or index in copied
            for tensor in graph.node(index).outputs
        }
        self._readers: dict[int, list[Node]] = {}
        for index in partition.nodes:
            for tensor in graph.node(index).inputs:
                self._readers.setdefault(tensor, []).append(graph.node(index))

    def join(self, node: Node) -> str | None:
        """Puts the tensors of ``node`` into one group, or says why that cannot be."""
        joined: dict[int, Position] = {}
        for operand, result, shift in shifts(self._facts, node):
            assert shift is not None, node.op
            is_join = self._facts.movement(node) is Movement.JOIN
            part, outer = (operand, result) if is_join else (result, operand)
            begin = _difference(ORIGIN, shift) if is_join else shift
            for tensor, wanted in ((outer, ORIGIN), (part, begin)):
                if tensor in joined:
                    if joined[tensor] != wanted:
                        return f"tensor {tensor} is needed in two places"
                    continue
                group = self._groups.get(tensor) or _Group({tensor: ORIGIN})
                if len(joined) + len(group.begins) > MAX_GROUP:
                    return f"more than {MAX_GROUP} tensors share memory"
                added = group.shifted(_difference(wanted, group.begins[tensor]))
                problem = self._meeting(joined, added)
                if problem is not None:
                    return problem
                joined.update(added)
        problem = self._buffers(joined)
        if problem is not None:
            return problem
        whole = _Group(joined)
        self._groups.update(dict.fromkeys(joined, whole))
        return None

    def _meeting(self, joined: Mapping[int, Position], added: Mapping[int, Position]) -> str | None:
        for tensor in joined.keys() & added.keys():
            return f"tensor {tensor} is needed in two places"
        for one in joined.keys() & self._written:
            for other in added.keys() & self._written:
                if self._overlap(one, joined[one], other, added[other]):
                    return f"tensors {one} and {other} are needed in the same place"
        return None

    def _overlap(self, one: int, first: Position, other: int, second: Position) -> bool:
        sizes = (extent(self._graph.tensor(t)) for t in (one, other))
        return all(
            a < b + size_b and b < a + size_a
            for a, b, size_a, size_b in zip(first, second, *sizes, strict=True)
        )

    def _buffers(self, tensors: Mapping[int, Position]) -> str | None:
        inputs = tensors.keys() & self._inputs
        if inputs and tensors.keys() & self._outputs:
            return f"tensor {min(inputs)} comes from the CPU and a part of it goes back there"
        return None

    def is_at_edges(self, node: Node) -> bool:
        """Return whether ``node`` only brings from the CPU what goes back there: not worth
        tasks.
        """
        tensors = {*self._facts.operator(node).feature_inputs(node), *node.outputs}
        return bool(tensors & self._inputs) and tensors <= self._inputs | self._outputs

    def wasteful_slices(self) -> list[Refusal]:
        """Return slices of tensors from the CPU of which less than half is read: the host would
        convert more than the slices take on the CPU.
        """
        refusals = []
        for tensor in sorted(self._inputs & self._groups.keys()):
            readers = self._readers.get(tensor, [])
            moves = (self._facts.movement(node) for node in readers)
            if any(move is None or move is Movement.JOIN for move in moves):
                continue
            used = sum(self._elements(t) for node in readers for t in node.outputs)
            if 2 * used < self._elements(tensor):
                problem = f"{used} of {self._elements(tensor)} elements from the CPU are used"
                refusals += [Refusal(node, ALIAS_IS_FREE, problem) for node in readers]
        return refusals

    def _elements(self, tensor: int) -> int:
        return math.prod(self._graph.tensor(tensor).shape)

    def places(self) -> dict[int, Place]:
        """Return every tensor's place, the groups' origins moved to zero."""
        places: dict[int, Place] = {}
        for tensor in self._groups:
            if tensor in places:
                continue
            begins = self._groups[tensor].begins
            origin = tuple(map(min, zip(*begins.values(), strict=True)))
            for member in sorted(begins):
                image, pixel, channel = _difference(begins[member], origin)
                places[member] = Place(min(begins), image, pixel, channel)
        return places


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


NO_FUNCTIONS = FunctionPlan({}, {}, frozenset(), ())


def plan_functions(
    graph: Graph, partition: Partition, wanted: Collection[int] = ()
) -> FunctionPlan:
    """Join nodes to functions; ``wanted``: tensors that are needed though no node reads them. A
    refusal of nodes that could only be part of one, and are not in this partition, or whose results
    the reference kernels leave undefined.
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
    for index in partition.nodes:
        node = graph.node(index)
        record = record_of(graph, node)
        if record.function and record.plan is None and index not in joiner.chains:
            sources = f"it reads tensors {', '.join(map(str, _computed(graph, node)))}"
            refusals[index] = Refusal(node, OF_ONE_VALUE, sources)
    within = frozenset(index for chain in joiner.chains.values() for index in chain.nodes)
    return FunctionPlan(chains, tables, within, tuple(refusals.values()))


def chains_of(graph: Graph, partition: Partition) -> Mapping[int, Chain]:
    """Return the functions of ``partition`` whose results are needed, by the last node of each."""
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
    """Return ``node`` by itself, or with what it needs to be a function of one value."""
    if len(_computed(graph, node)) > 1:
        known = tuple(n.index for n in graph.nodes if known_record(graph, n) is not None)
        chain = _joined(graph, Partition(known, (), node.outputs), ()).chains.get(node.index)
        if chain is not None:
            return partition_of(graph, [graph.node(index) for index in chain.nodes])
    return partition_of(graph, [node])


def partition_of(graph: Graph, nodes: Sequence[Node]) -> Partition:
    """Return a partition of ``nodes``, in execution order, of which the last one's result is
    wanted.
    """
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
        """Make all chains; whether more tensors are needed than before, so that some change."""
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
        """Return the chain that ends with ``node``. ``cut``: at tensors that are in memory."""
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
    """Return results for the device's values in ascending order. Raises UndefinedResultError."""
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
