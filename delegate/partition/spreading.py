"""Moves at a partition's edges that the host's conversion does.

Comes from: a partition without what the host does to values. Goes to: ``edges``. Reshapes,
transposes and concatenations there only say where the host finds, or puts, each element, so that
the device keeps the order that costs nothing. Functions of one value before them are computed part
by part: results are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from delegate.lower.lowered import Spread
from delegate.lower.numerics.pipeline import INT8_MIN
from delegate.lower.operation import Channels
from delegate.lower.order import Order
from delegate.model.cached import cached_property
from delegate.model.graph import Graph, Node, Tensor
from delegate.model.partition import Partition
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, Lowering, Movement
from delegate.ops.shared.aliases import are_free
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.ops.shared.links import RANK, Box, Link, four_dimensions
from delegate.ops.shared.requantized_parts import part_requantized
from delegate.ops.shared.reshaping import is_free, is_spread
from delegate.partition.functions import Chain, chains_of, table_of
from delegate.partition.rules import facts_of
from delegate.partition.seen import Seen

MOST_BOXES = 64
"""The most boxes of an output: more than any network has; each is a conversion of its own."""
MOST_STEPS = 32 * MOST_BOXES
"""On the way to the boxes of an output: a CONCATENATION of a tensor with itself doubles them."""
MOST_DEPTH = 100
"""The most moves behind one another: far from the recursion that Python bears."""


@dataclass(frozen=True, slots=True)
class Function:
    """The function of a value that ``nodes``, by index in execution order, compute: the results for
    the device's values -128 to 127, as int8.
    """

    nodes: tuple[int, ...]
    table: bytes

    def behind(self, nodes: Sequence[int], table: bytes) -> Function:
        """Return the function of what another function gives."""
        given = np.frombuffer(table, np.int8).astype(np.int64) - INT8_MIN
        results = np.frombuffer(self.table, np.int8)[given]
        return Function((*nodes, *self.nodes), results.tobytes())


@dataclass(frozen=True, slots=True)
class Applied:
    """``function`` of ``source`` is ``result``, in the same place."""

    function: Function
    source: int
    result: int


@dataclass(frozen=True, slots=True)
class Placed:
    """``channels`` of ``tensor`` (None: all), and where the host has them."""

    tensor: int
    spread: Spread
    channels: Channels | None = None


@dataclass(frozen=True, slots=True)
class SpreadPlan:
    """``inner``: the partition of ``graph`` without what the host does; tensors of ``graph`` beyond
    those given are results of ``functions``. ``inputs`` and ``outputs``: the tensors of ``inner``
    for those that the host has, which are left out where they are the same.
    """

    graph: Graph
    inner: Partition
    inputs: Mapping[int, Placed] = field(default_factory=dict)
    outputs: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    functions: tuple[Applied, ...] = ()


def spread_edges(graph: Graph, partition: Partition) -> SpreadPlan:
    """Return what the host can move, unless nothing else would be left for the device to do."""
    spreader = _Spreader(graph, partition)
    if spreader.facts.disorder is not None:
        return SpreadPlan(graph, partition)
    inputs = spreader.inputs()
    outputs = spreader.outputs([placed.tensor for placed in inputs.values()])
    left = tuple(index for index in partition.nodes if index not in spreader.taken)
    if not any(OPERATORS[graph.node(i).op].lowering is Lowering.TASKS for i in left):
        return SpreadPlan(graph, partition)
    first = [inputs[t].tensor if t in inputs else t for t in partition.inputs]
    last = [
        inner
        for t in partition.outputs
        for inner in ([box.tensor for box in outputs[t]] if t in outputs else [t])
    ]
    inner = Partition(left, tuple(dict.fromkeys(first)), tuple(dict.fromkeys(last)))
    tensors = (*graph.tensors, *spreader.added)
    whole = replace(graph, tensors=tensors) if spreader.added else graph
    return SpreadPlan(whole, inner, inputs, outputs, tuple(spreader.applied.values()))


@dataclass(slots=True)
class _Found:
    """Boxes of tensors, with what is applied to each, and the nodes that need not run.
    ``is_worth_it``: whether one of these would cost tasks.
    """

    boxes: list[tuple[Placed, Function | None]] = field(default_factory=list)
    nodes: set[int] = field(default_factory=set)
    is_worth_it: bool = False

    def add(self, other: _Found) -> None:
        """Boxes of another part."""
        self.boxes += other.boxes
        self.nodes |= other.nodes
        self.is_worth_it |= other.is_worth_it


class _TooManyStepsError(Exception):
    """An output that is not worth looking for its boxes any longer."""


class _Spreader:
    """``taken``: nodes that the host does, by index. ``added``: tensors."""

    def __init__(self, graph: Graph, partition: Partition) -> None:
        self.facts: GraphFacts = facts_of(graph)
        self.taken: set[int] = set()
        self.added: list[Tensor] = []
        self.applied: dict[tuple[int, Function], Applied] = {}
        self._graph, self._partition = graph, partition
        self._members = frozenset(partition.nodes)
        self._edges = frozenset((*partition.inputs, *partition.outputs))
        self._kept: set[int] = set()
        self._steps = 0  # for the output at hand
        self._depth = 0

    @cached_property
    def _chains(self) -> Mapping[int, Chain]:
        return chains_of(self._graph, self._partition)

    def inputs(self) -> dict[int, Placed]:
        """By the host's tensor: the last one of a chain of moves behind it."""
        found: dict[int, Placed] = {}
        for tensor in self._partition.inputs:
            if not is_spread(self._graph.tensor(tensor)):
                continue
            nodes: list[Node] = []
            are_free = True
            last, order = tensor, Order.same(self._graph.tensor(tensor).shape)
            while (step := self._behind(last, order)) is not None:
                node, order = step
                nodes.append(node)
                are_free = are_free and is_free(self.facts, node)
                last = node.outputs[0]
                strides = order.strides(four_dimensions(self._graph.tensor(last).shape))
                spread = None if strides is None else Spread(0, *strides)
                if spread is None or are_free:
                    continue
                found[tensor] = Placed(last, spread)
                self.taken.update(n.index for n in nodes)
        return found

    def _behind(self, tensor: int, order: Order) -> tuple[Node, Order] | None:
        """The only reader of ``tensor``, if it moves elements alone, and their order then."""
        node, *others = self.facts.readers.get(tensor, ()) or (None,)
        if node is None or others or node.index not in self._members:
            return None
        if tensor in self._partition.outputs or node.outputs[0] in self._partition.outputs:
            return None
        follow = self.facts.operator(node).order
        behind = None if follow is None else follow(self._graph, node, order)
        return None if behind is None else (node, behind)

    def outputs(self, given: Collection[int]) -> dict[int, tuple[Placed, ...]]:
        """By the host's tensor: boxes that make it. ``given``: tensors that the host gives."""
        self._kept.update(given)
        while True:
            made = {t: m for t in self._partition.outputs if (m := self._output(t)) is not None}
            taken = {index for found in made.values() for index in found.nodes}
            boxes = {box.tensor for found in made.values() for box, _ in found.boxes}
            kept = {t for index in taken for t in self._needed(index, taken, made, boxes)}
            if not kept:
                break
            if kept <= self._kept:  # inside of a function: nothing is moved
                return {}
            self._kept |= kept
        self.taken |= taken
        return {
            tensor: tuple(
                replace(box, tensor=self._applied(tensor, box.tensor, function))
                for box, function in found.boxes
            )
            for tensor, found in made.items()
        }

    def _output(self, tensor: int) -> _Found | None:
        shape = self._graph.tensor(tensor).shape
        if tensor in self._kept or not is_spread(self._graph.tensor(tensor)):
            return None
        if not self._is_left(tensor, ()):
            return None
        self._steps = self._depth = 0
        try:
            made = self._maker(tensor, Seen.whole(shape), None)
        except _TooManyStepsError:
            return None
        is_possible = made is not None and made.is_worth_it and 0 < len(made.boxes) <= MOST_BOXES
        return made if is_possible else None

    def _needed(
        self, node: int, taken: Collection[int], made: Collection[int], boxes: Collection[int]
    ) -> Sequence[int]:
        """Results of a node, one of which something else needs than the nodes ``taken`` and the
        outputs ``made``, or is one of ``boxes`` of these.
        """
        results = self._graph.node(node).outputs
        for tensor in results:
            is_output = tensor in self._partition.outputs and tensor not in made
            if is_output or tensor in boxes or not self._is_left(tensor, taken):
                return results
        return ()

    def _is_left(self, tensor: int, readers: Collection[int]) -> bool:
        """Whether no other node of the partition than ``readers`` reads ``tensor``."""
        found = {node.index for node in self.facts.readers.get(tensor, ())}
        return not (found & self._members) - set(readers)

    def _boxes(self, tensor: int, seen: Seen, function: Function | None) -> _Found | None:
        """Boxes that make ``tensor``; at last it is one itself. Raises _TooManyStepsError."""
        self._steps += 1
        if self._steps > MOST_STEPS or self._depth >= MOST_DEPTH:
            raise _TooManyStepsError
        self._depth += 1
        found = self._made_or_placed(tensor, seen, function)
        self._depth -= 1
        return found

    def _made_or_placed(self, tensor: int, seen: Seen, function: Function | None) -> _Found | None:
        if tensor not in self._edges and tensor not in self._kept:
            made = self._maker(tensor, seen, function)
            # What is not wanted need not be made.
            is_better = function is not None or not seen.is_whole
            if made is not None and (made.is_worth_it or is_better):
                return made
        placed = self._placed(tensor, seen)
        maker = self.facts.makers.get(tensor)
        is_ours = maker is not None and maker.index in self._members - self.taken
        if placed is None or not is_ours:
            return None
        return _Found([(box, function) for box in placed])

    def _maker(self, tensor: int, seen: Seen, function: Function | None) -> _Found | None:
        """Boxes of the operands of the node that makes ``tensor``; None: it does not only move."""
        node = self.facts.makers.get(tensor)
        if node is None or node.index not in self._members:
            return None
        if not self._kept.isdisjoint(node.outputs):  # it has to run for another of its results
            return None
        operator = self.facts.operator(node)
        if operator.order is not None:
            found = self._reordered(node, seen, function)
        elif operator.movement is Movement.JOIN:
            found = self._joined(node, seen, function)
        elif operator.movement is Movement.CUT:
            found = self._uncut(node, tensor, seen, function)
        elif node.index in self._chains:
            return self._function(self._chains[node.index], seen, function)
        else:
            return None
        if found is not None:
            found.nodes.add(node.index)
        return found

    def _reordered(self, node: Node, seen: Seen, function: Function | None) -> _Found | None:
        source = node.inputs[0]
        shape = self._graph.tensor(source).shape
        reorder = self.facts.operator(node).order
        forth = None if reorder is None else reorder(self._graph, node, Order.same(shape))
        before = None if forth is None else seen.before(forth)
        if before is None:
            return None
        found = self._boxes(source, before, function)
        if found is not None:
            found.is_worth_it |= not is_free(self.facts, node)
        return found

    def _joined(self, node: Node, seen: Seen, function: Function | None) -> _Found | None:
        links = self.facts.links(node)
        found = _Found(is_worth_it=not are_free(self._graph, links))
        for link in links:
            part, whole = self._shapes(link)
            seen_part = seen.box(whole, link.begin, part)
            if seen_part is None or link.steps != (1, 1):
                return None
            if not seen_part.digits and part != (1, 1, 1, 1):
                continue  # nothing of it is wanted
            table = part_requantized(self._graph, link)
            given = function if table is None else _joined_to((node.index,), table, function)
            made = self._boxes(link.part, seen_part, given)
            if made is None:
                return None
            found.add(made)
        return found

    def _uncut(
        self, node: Node, tensor: int, seen: Seen, function: Function | None
    ) -> _Found | None:
        links = self.facts.links(node)
        link = next(link for link in links if link.part == tensor)
        part, whole = self._shapes(link)
        if link.steps != (1, 1):
            return None
        around = seen.around(whole, link.begin, part)
        parts = [around] if around is not None else [
            found.around(whole, link.begin, part) for found in seen.apart(part)
        ]  # fmt: skip
        all_of_it = _Found(is_worth_it=not are_free(self._graph, links))
        for one in parts:
            found = None if one is None else self._boxes(link.whole, one, function)
            if found is None:
                return None
            all_of_it.add(found)
        return all_of_it if parts else None

    def _shapes(self, link: Link) -> tuple[Box, Box]:
        """Return the shapes of part and whole."""
        tensors = self._graph.tensor(link.part), self._graph.tensor(link.whole)
        part, whole = (four_dimensions(tensor.shape) for tensor in tensors)
        return part, whole

    def _function(self, chain: Chain, seen: Seen, behind: Function | None) -> _Found | None:
        """Behind a function alone nothing is saved but by moves before it."""
        results = {t for i in chain.nodes for t in self._graph.node(i).outputs}
        results.remove(self._graph.node(chain.nodes[-1]).outputs[0])
        if any(t in self._edges or not self._is_left(t, chain.nodes) for t in results):
            return None
        if not self._kept.isdisjoint(results):
            return None
        try:
            table = table_of(self._graph, chain)
        except UndefinedResultError:  # the nodes are refused where they are
            return None
        function = _joined_to(chain.nodes, table, behind)
        found = self._boxes(chain.source, seen, function)
        if found is None or not (found.is_worth_it or behind is not None):
            return None
        found.nodes.update(chain.nodes)
        return found

    def _placed(self, tensor: int, seen: Seen) -> list[Placed] | None:
        """None: its pixels and channels do not lie evenly apart there."""
        given = self._graph.tensor(tensor)
        if len(given.shape) > RANK or not is_spread(given):
            return None
        shape = four_dimensions(given.shape)
        boxes = seen.boxes(shape)
        if boxes is None:
            return None
        every = (0, shape[-1])
        return [Placed(tensor, s, None if part == every else part) for s, part in boxes]

    def _applied(self, result: int, source: int, function: Function | None) -> int:
        """The tensor that has what ``function`` makes of ``source``, as ``result`` is quantised."""
        if function is None:
            return source
        key = source, function
        if key not in self.applied:
            shape = self._graph.tensor(source).shape
            index = len(self._graph.tensors) + len(self.added)
            # Of another name than the whole: it is a part.
            name = f"{self._graph.tensor(result).name} of {self._graph.tensor(source).name}"
            made = replace(self._graph.tensor(result), index=index, name=name, shape=shape)
            self.added.append(replace(made, shape_signature=()))
            self.applied[key] = Applied(function, source, index)
        return self.applied[key].result


def _joined_to(nodes: Sequence[int], table: bytes, behind: Function | None) -> Function:
    return Function(tuple(nodes), table) if behind is None else behind.behind(nodes, table)
