"""Moves at a partition's edges that the host's conversion does.

Comes from: a partition without what the host does to values. Goes to: ``edges``. Reshapes,
transposes and concatenations there only say where the host finds, or puts, each element, so that
the device keeps the order that costs nothing. Functions of one value before them are computed part
by part: results are the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from delegate.lower.lowered import Spread
from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.pipeline import INT8_MIN
from delegate.lower.operation import Channels
from delegate.model.cached import cached_property
from delegate.model.graph import Graph, Node, Partition, Tensor
from delegate.model.index_map import IndexMap, MapError, identity
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, Movement
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.ops.shared.parts import RANK, is_free, is_spread, part_requantized
from delegate.partition.aliases import Chain, chains_of, table_of
from delegate.partition.host_boxes import MOST_BOXES, boxes_of

MOST_STEPS = 32 * MOST_BOXES
"""The most steps on the way to the boxes of an output: a CONCATENATION of a tensor with itself
doubles them.
"""
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
class HostLayout:
    """``inner``: the partition of ``graph`` without what the host does; tensors of ``graph`` beyond
    those given are results of ``functions``. ``inputs`` and ``outputs``: the tensors of ``inner``
    for those that the host has, which are left out where they are the same.
    """

    graph: Graph
    inner: Partition
    inputs: Mapping[int, Placed] = field(default_factory=dict)
    outputs: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    functions: tuple[Applied, ...] = ()


def host_layout_of(facts: GraphFacts, partition: Partition) -> HostLayout:
    """Return what the host can move, unless nothing else would be left for the device to do."""
    graph, search = facts.graph, _Search(facts, partition)
    if search.facts.disorder is not None:
        return HostLayout(graph, partition)
    inputs = search.inputs()
    outputs = search.outputs([placed.tensor for placed in inputs.values()])
    left = tuple(index for index in partition.nodes if index not in search.taken)
    if not any(OPERATORS[graph.node(index).op].has_tasks for index in left):
        return HostLayout(graph, partition)
    first = [inputs[t].tensor if t in inputs else t for t in partition.inputs]
    last = [
        inner
        for t in partition.outputs
        for inner in ([box.tensor for box in outputs[t]] if t in outputs else [t])
    ]
    inner = Partition(left, tuple(dict.fromkeys(first)), tuple(dict.fromkeys(last)))
    tensors = (*graph.tensors, *search.added)
    whole = replace(graph, tensors=tensors) if search.added else graph
    return HostLayout(whole, inner, inputs, outputs, tuple(search.applied.values()))


@dataclass(slots=True)
class _Found:
    """Boxes of tensors, with what is applied to each, and the nodes that need not run.
    ``is_worth_it``: whether one of these would cost tasks.
    """

    boxes: list[tuple[Placed, Function | None]] = field(default_factory=list)
    nodes: set[int] = field(default_factory=set)
    is_worth_it: bool = False

    def add(self, other: _Found) -> None:
        """Add the boxes of another part."""
        self.boxes += other.boxes
        self.nodes |= other.nodes
        self.is_worth_it |= other.is_worth_it


class _TooManyStepsError(Exception):
    """An output that is not worth looking for its boxes any longer."""


class _Search:
    """``taken``: nodes that the host does, by index. ``added``: tensors."""

    def __init__(self, facts: GraphFacts, partition: Partition) -> None:
        self.facts = facts
        self.taken: set[int] = set()
        self.added: list[Tensor] = []
        self.applied: dict[tuple[int, Function], Applied] = {}
        self._graph, self._partition = facts.graph, partition
        self._members = frozenset(partition.nodes)
        self._edges = frozenset((*partition.inputs, *partition.outputs))
        self._kept: set[int] = set()
        self._steps = 0  # for the output at hand
        self._depth = 0

    @cached_property
    def _chains(self) -> Mapping[int, Chain]:
        return chains_of(self._graph, self._partition)

    def inputs(self) -> dict[int, Placed]:
        """Return, by the host's tensor, the last one of a chain of moves behind it."""
        found: dict[int, Placed] = {}
        for tensor in self._partition.inputs:
            if not is_spread(self._graph.tensor(tensor)):
                continue
            nodes: list[Node] = []
            are_free = True
            last, moved = tensor, identity(self._graph.tensor(tensor).shape)
            while (step := self._behind(last, moved)) is not None:
                node, moved = step
                nodes.append(node)
                are_free = are_free and is_free(self.facts, node)
                last = node.outputs[0]
                boxes = self._placed(last, moved)
                if boxes is None or len(boxes) > 1 or are_free:
                    continue
                found[tensor] = boxes[0]
                self.taken.update(n.index for n in nodes)
        return found

    def _behind(self, tensor: int, moved: IndexMap) -> tuple[Node, IndexMap] | None:
        """Return the only reader of ``tensor`` in the partition, if it gives elements alone another
        order, and their map then.
        """
        found = self.facts.readers.get(tensor, ())
        readers = [node for node in found if node.index in self._members]
        if len(readers) != 1:
            return None
        (node,) = readers
        if tensor in self._partition.outputs or node.outputs[0] in self._partition.outputs:
            return None
        if self.facts.movement(node) is not Movement.KEEP:
            return None
        try:
            (step,) = self.facts.maps(node)
            is_order = step.is_order(math.prod(self._graph.tensor(tensor).shape))
            return (node, step.compose(moved)) if is_order else None
        except MapError:
            return None

    def outputs(self, given: Collection[int]) -> dict[int, tuple[Placed, ...]]:
        """Return, by the host's tensor, boxes that make it. ``given``: tensors that the host
        gives.
        """
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
            made = self._maker(tensor, identity(shape), None)
        except _TooManyStepsError:
            return None
        is_possible = made is not None and made.is_worth_it and 0 < len(made.boxes) <= MOST_BOXES
        return made if is_possible else None

    def _needed(
        self, node: int, taken: Collection[int], made: Collection[int], boxes: Collection[int]
    ) -> Sequence[int]:
        """Return the results of a node, if something else needs one of them than the nodes
        ``taken`` and the outputs ``made``, or if one is among ``boxes`` of these.
        """
        results = self._graph.node(node).outputs
        for tensor in results:
            is_output = tensor in self._partition.outputs and tensor not in made
            if is_output or tensor in boxes or not self._is_left(tensor, taken):
                return results
        return ()

    def _is_left(self, tensor: int, readers: Collection[int]) -> bool:
        """Return whether no other node of the partition than ``readers`` reads ``tensor``."""
        found = {node.index for node in self.facts.readers.get(tensor, ())}
        return not (found & self._members) - set(readers)

    def _boxes(self, tensor: int, seen: IndexMap, function: Function | None) -> _Found | None:
        """Return boxes that make ``tensor``; at last it is one itself. Raises
        _TooManyStepsError.
        """
        self._steps += 1
        if self._steps > MOST_STEPS or self._depth >= MOST_DEPTH:
            raise _TooManyStepsError
        self._depth += 1
        found = self._made_or_placed(tensor, seen, function)
        self._depth -= 1
        return found

    def _made_or_placed(
        self, tensor: int, seen: IndexMap, function: Function | None
    ) -> _Found | None:
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

    def _maker(self, tensor: int, seen: IndexMap, function: Function | None) -> _Found | None:
        """Return boxes of the operands of the node that makes ``tensor``; None: it does not only
        move.
        """
        node = self.facts.makers.get(tensor)
        if node is None or node.index not in self._members:
            return None
        if not self._kept.isdisjoint(node.outputs):  # it has to run for another of its results
            return None
        if self.facts.movement(node) is not None:
            return self._moved(node, tensor, seen, function)
        if node.index in self._chains:
            return self._function(self._chains[node.index], seen, function)
        return None

    def _moved(
        self, node: Node, tensor: int, seen: IndexMap, function: Function | None
    ) -> _Found | None:
        found = _Found(nodes={node.index}, is_worth_it=not is_free(self.facts, node))
        operands = self.facts.operator(node).feature_inputs(node)
        moved = self.facts.maps(node)[node.outputs.index(tensor)]
        for number, operand in enumerate(operands):
            part, whole = self._graph.tensor(operand), self._graph.tensor(tensor)
            if part.constant is not None:
                return None
            try:
                back = moved.invert(number, math.prod(part.shape))
                before = None if back is None else back.compose(seen)
            except MapError:
                return None
            if before is None or len(before.pieces) > MOST_BOXES:  # each is a box at least
                return None
            if not before.pieces:  # nothing of it is wanted
                continue
            table = part_requantized(part, whole)
            given = function if table is None else _joined_to((node.index,), table, function)
            made = self._boxes(operand, before, given)
            if made is None:
                return None
            found.add(made)
        return found

    def _function(self, chain: Chain, seen: IndexMap, behind: Function | None) -> _Found | None:
        """Return boxes of what a function reads, if moves before it are saved, or another one
        follows.
        """
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

    def _placed(self, tensor: int, seen: IndexMap) -> list[Placed] | None:
        """Return the boxes of ``tensor``; None: pixels and channels do not lie evenly apart
        there.
        """
        given = self._graph.tensor(tensor)
        if len(given.shape) > RANK or not is_spread(given):
            return None
        shape = dataclasses.astuple(view_of(given.shape))
        try:
            boxes = boxes_of(seen, shape)
        except MapError:
            return None
        if boxes is None:
            return None
        every = (0, shape[-1])
        return [Placed(tensor, s, None if part == every else part) for s, part in boxes]

    def _applied(self, result: int, source: int, function: Function | None) -> int:
        """Return the tensor that has what ``function`` makes of ``source``, as ``result`` is
        quantised.
        """
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
