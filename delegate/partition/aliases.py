"""Concatenations, splits, slices and reshapes by address: which tensors lie in others, and where.

Comes from: the aliases of a partition, which compute nothing. Goes to: the partitioner (a
rejection for every alias that would need a copy) and ``lower.memory``, which gives the tensors
of a group one piece of memory. Free is what whole surfaces of 16 bytes, consecutive pixels
or images of a larger tensor make; both tensors have the same quantisation, so results are exactly
the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from delegate.lower.memory.places import Place
from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition
from delegate.ops.operator import GraphFacts, Movement
from delegate.ops.shared.aliases import are_free
from delegate.ops.shared.links import Position, extent, position
from delegate.ops.shared.reshaping import is_free
from delegate.partition.rules import ALIAS_IS_FREE, Refusal, facts_of

# More tensors in one piece of memory than any network has; their pairs are compared.
MAX_GROUP = 256
ORIGIN = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class AliasPlan:
    """A place for every tensor that shares memory; the nodes that are free, and those that
    stay on the CPU. All others that move data need tasks.
    """

    places: Mapping[int, Place]
    refusals: tuple[Refusal, ...]
    aliases: tuple[Node, ...] = ()


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
    tasks if it can, else it is refused, as is one that is not worth it.
    """
    facts = facts_of(graph)
    moving = [graph.node(i) for i in partition.nodes if facts.movement(graph.node(i)) is not None]
    if not moving:
        return AliasPlan({}, ())
    if len(moving) == len(partition.nodes):
        reason = "no operator of its partition computes anything"
        return AliasPlan({}, tuple(Refusal(node, ALIAS_IS_FREE, reason) for node in moving))
    copied: set[int] = {
        node.index for node in moving if _can_copy(facts, node) and not _is_free(facts, node)
    }
    while True:
        planner = _Planner(facts, partition, copied)
        refusals, more = [], set()
        for node in moving:
            problem = None if node.index in copied else planner.join(node)
            if problem is None:
                continue
            if _can_copy(facts, node) and not planner.is_at_edges(node):
                more.add(node.index)
                continue
            refusals.append(Refusal(node, ALIAS_IS_FREE, problem))
        if not more:
            break
        copied |= more
    refusals += planner.wasteful_slices()
    aliases = tuple(node for node in moving if node.index not in copied)
    return AliasPlan(planner.places(), tuple(refusals), aliases)


def _can_copy(facts: GraphFacts, node: Node) -> bool:
    operator = facts.operator(node)
    return operator.plan is not None or operator.order is not None


def _is_free(facts: GraphFacts, node: Node) -> bool:
    """As far as a node can tell."""
    if facts.operator(node).order is not None:
        return is_free(facts, node)
    return are_free(facts.graph, facts.links(node))


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
        for link in self._facts.links(node):
            for tensor, wanted in (
                (link.whole, ORIGIN),
                (link.part, position(self._graph, link)),
            ):
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
        """Whether it only brings from the CPU what goes back there: not worth tasks."""
        tensors = {t for link in self._facts.links(node) for t in (link.whole, link.part)}
        return bool(tensors & self._inputs) and tensors <= self._inputs | self._outputs

    def wasteful_slices(self) -> list[Refusal]:
        """Slices of tensors from the CPU of which less than half is read: the host would convert
        more than the slices take on the CPU.
        """
        refusals = []
        for tensor in sorted(self._inputs & self._groups.keys()):
            readers = self._readers.get(tensor, [])
            if any(self._facts.movement(node) is not Movement.CUT for node in readers):
                continue
            used = sum(self._elements(t) for node in readers for t in node.outputs)
            if 2 * used < self._elements(tensor):
                problem = f"{used} of {self._elements(tensor)} elements from the CPU are used"
                refusals += [Refusal(node, ALIAS_IS_FREE, problem) for node in readers]
        return refusals

    def _elements(self, tensor: int) -> int:
        return math.prod(self._graph.tensor(tensor).shape)

    def places(self) -> dict[int, Place]:
        """Every tensor's place, the groups' origins moved to zero."""
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
