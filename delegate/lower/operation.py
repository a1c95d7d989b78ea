"""The input of lowering: operations, which an operator's record made of nodes, and how each is
planned and then lowered.

A plan says what its tasks will touch before any tensor has a place; with places it becomes a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from delegate.chip.chip import Chip
from delegate.lower.constants import ConstantPool
from delegate.lower.lowered import Affine, Fold, Layer, Spread
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.placement import WorkArea
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import DeviceTensor, View, unplaced
from delegate.lower.numerics.pipeline import Int64Array
from delegate.lower.task import Task
from delegate.model.graph import Graph, Node
from delegate.model.partition import Partition


@dataclass(frozen=True, slots=True)
class Planning:
    """The facts that plans are made from. ``folds``: inputs of the partition that the host folds.
    ``joined``: where tensors lie beside others in one piece of memory. ``writes_groups``: nodes
    whose results have readers of the surfaces that complete their last group, see
    ``Footprint.unwritten``.
    """

    chip: Chip
    graph: Graph
    folds: Mapping[int, tuple[View, Fold]]
    joined: Mapping[int, Place] = field(default_factory=dict)
    writes_groups: Collection[int] = ()

    def tensor(self, index: int) -> DeviceTensor:
        """A tensor as the device will see it, without its place."""
        return unplaced(self.graph, index, self.folds.get(index))

    def has_whole_surfaces(self, index: int) -> bool:
        """Whether a surface of the tensor begins where the one before it ends, wherever it lies:
        there is nothing of another tensor before or behind an image's pixels.
        """
        if index not in self.joined:
            return True
        group, pixels = self.joined[index].group, self.tensor(index).view.pixels
        return all(
            place.pixel == 0 and self.tensor(tensor).view.pixels == pixels
            for tensor, place in self.joined.items()
            if place.group == group
        )


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Where tensors lie, what layers add constants to, and the memory that one has for itself."""

    tensors: Mapping[int, DeviceTensor]
    constants: ConstantPool
    work: WorkArea


class Plan(Protocol):
    """An operation whose tasks are known, but for addresses."""

    @property
    def footprint(self) -> Footprint: ...

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""


@runtime_checkable
class Follower(Plan, Protocol):
    """A plan that computes a function of one value, element by element."""

    @property
    def operation(self) -> Operation: ...

    @property
    def results(self) -> Int64Array:
        """The function's results, as int8, for -128 to 127."""


@runtime_checkable
class Leader(Plan, Protocol):
    """A plan whose tasks can compute more behind their own result."""

    def followed_by(self, planning: Planning, plan: Follower) -> Plan | None:
        """Both in one; the result between them vanishes. None: not within the bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation that becomes one layer: ``node``, and others that are part of it (``nodes``, in
    execution order).

    ``operands``: the feature maps it reads, those of an addition may be constants. ``padding``:
    rows above and columns left of the image that a PAD before it gives. ``fold``: the view that the
    host may give the first operand, if nothing else reads that.
    """

    node: Node
    nodes: tuple[int, ...]
    operands: tuple[int, ...]
    result: int
    plan: Callable[[Planning, Operation], Plan]
    padding: tuple[int, int] | None = None
    fold: Callable[[Chip, Graph, Operation], tuple[View, Fold] | None] | None = None


Channels = tuple[int, int]
"""The first, which begins a surface, and how many."""


@dataclass(frozen=True, slots=True)
class Edge:
    """``outer``: the tensor that the host has for the device's ``inner``, see ``TensorBinding``.
    ``channels``: those of ``inner``; None: all.
    """

    outer: int
    inner: int
    affine: Affine | None = None
    table: bytes = b""
    spread: Spread | None = None
    channels: Channels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A partition of ``graph`` to lower, between its ``inputs`` and ``outputs``: its operations in
    an order in which they can run, its nodes that are aliases, and the places of the tensors that
    those join.
    """

    graph: Graph
    partition: Partition
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    operations: tuple[Operation, ...]
    aliases: tuple[Node, ...]
    places: Mapping[int, Place]


def layer_name(graph: Graph, node: Node) -> str:
    """Return the name of a layer in errors, traces and dumps: the node's index, operator and
    result.
    """
    return f"{node.index} {node.op} {graph.tensor(node.outputs[0]).name}"


def layer_of(
    planning: Planning, operation: Operation, tasks: Iterable[Task], choice: str = ""
) -> Layer:
    """The layer that ``operation`` becomes. Raises what making ``tasks`` does."""
    node = operation.node
    return Layer(layer_name(planning.graph, node), node.op, operation.nodes, tuple(tasks), choice)


def image_by_image(
    operation: Operation,
    memory: Memory,
    tasks: Callable[[DeviceTensor, DeviceTensor], Iterable[Task]],
) -> Iterator[Task]:
    """``tasks`` of every image of the first operand and of the result."""
    source, target = (memory.tensors[t] for t in (operation.operands[0], operation.result))
    for image in range(source.view.images):
        yield from tasks(source.image(image), target.image(image))
