"""The input of lowering: operations, which an operator's record made of nodes, and how each is
planned and then lowered.

A plan says what its tasks will touch before any tensor has a place; with places it becomes a layer.

The constants buffer of a program: packed weights and operands, in order of use, aligned for
DMA.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from delegate.chip.chip import Chip
from delegate.chip.element import DMA_ALIGN_BYTES, align
from delegate.lower.lowered import Affine, Fold, HalfBound, Layer, Spread
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, Place, View, unplaced
from delegate.lower.numerics.pipeline import Int64Array
from delegate.lower.packed_weights import PackedMatrices
from delegate.lower.task import BufferId, Ref, Task
from delegate.model.graph import Graph, Node, Partition


@dataclass(frozen=True, slots=True)
class Planning:
    """The facts that plans are made from. ``folds``: inputs of the partition that the host folds.
    ``joined``: where tensors lie beside others in one piece of memory.
    """

    chip: Chip
    graph: Graph
    folds: Mapping[int, tuple[View, Fold]]
    joined: Mapping[int, Place] = field(default_factory=dict)

    def tensor(self, index: int) -> DeviceTensor:
        """A tensor as the device will see it, without its place."""
        return unplaced(self.graph, index, self.folds.get(index))

    def has_whole_surfaces(self, index: int) -> bool:
        """Return whether a surface of the tensor begins where the one before it ends, wherever it
        lies: there is nothing of another tensor before or behind an image's pixels.
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
    """The places of tensors, the pool that layers add constants to, and a layer's own work area."""

    tensors: Mapping[int, DeviceTensor]
    constants: ConstantPool
    work: Ref


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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One operation whose tasks are known, but for addresses.

    ``footprint``: what its tasks will touch. ``emit`` gives the layer once tensors have places, and
    raises LoweringError. ``results``: of an operation that computes a function of one value,
    element by element, for -128 to 127, as int8. ``summands``: of an operation that adds two maps
    of its result's shape, and does nothing else. ``followed_by``: of one whose tasks can compute
    such a function behind their own result, or add the other map to it; it gives the plan of both,
    or None where the result would not be within the bound. ``completed``: of one that leaves a part
    of its last group unwritten; it gives the plan that writes whole groups. ``packed``: an operand
    that the host packs as weights, and how.
    """

    operation: Operation
    footprint: Footprint
    emit: Callable[[Memory], Layer]
    results: Int64Array | None = None
    summands: tuple[int, ...] = ()
    followed_by: Callable[[Planning, Plan], Plan | None] | None = None
    completed: Callable[[], Plan] | None = None
    packed: tuple[int, PackedMatrices] | None = None

    def within(self, bound: HalfBound | None) -> Plan:
        """Return the plan whose results are within ``bound``."""
        return replace(self, emit=lambda memory: self.emit(memory).within(bound))


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
    an order in which they can run, and the places of tensors that lie in one another.
    """

    graph: Graph
    partition: Partition
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    operations: tuple[Operation, ...]
    places: Mapping[int, Place]


def with_tasks_behind(
    planning: Planning,
    plan: Plan,
    writes: int,
    tasks_of: Callable[[DeviceTensor, DeviceTensor], Iterable[Task]],
) -> Plan:
    """Return ``plan``, whose result is made in scratch, with tasks that make the result of that.
    They alone write its ``writes`` surfaces, and read none of it: that they ran shows there.
    """
    given = plan.footprint
    behind = align(given.work_bytes, DMA_ALIGN_BYTES)  # what the plan itself works with

    def apart(result: DeviceTensor, place: Ref) -> DeviceTensor:
        return result.via_scratch(place, given.writes, given.surface_pixels)

    def emit(memory: Memory) -> Layer:
        result = memory.tensors[given.result]
        made = apart(result, memory.work.moved(behind))
        layer = plan.emit(replace(memory, tensors={**memory.tensors, given.result: made}))
        return replace(layer, tasks=(*layer.tasks, *tasks_of(made, result)))

    result = planning.tensor(given.result)
    size = align(apart(result, result.location).size_bytes, DMA_ALIGN_BYTES)
    footprint = replace(
        given,
        writes=writes,
        byte_by_byte=False,
        work_bytes=behind + size,
        surface_pixels=1,
    )
    return replace(plan, footprint=footprint, emit=emit, followed_by=None, completed=None)


def layer_of(
    planning: Planning, operation: Operation, tasks: Iterable[Task], choice: str = ""
) -> Layer:
    """The layer that ``operation`` becomes, named for errors, traces and dumps by the node's index,
    operator and result. Raises what making ``tasks`` does.
    """
    node = operation.node
    name = f"{node.index} {node.op} {planning.graph.tensor(node.outputs[0]).name}"
    return Layer(name, node.op, operation.nodes, tuple(tasks), choice)


def plan_of(
    planning: Planning,
    operation: Operation,
    footprint: Footprint,
    tasks: Callable[[Memory], Iterable[Task]],
) -> Plan:
    """Return the plan of an operation that becomes ``tasks``."""

    def emit(memory: Memory) -> Layer:
        return layer_of(planning, operation, tasks(memory))

    return Plan(operation, footprint, emit)


@dataclass(slots=True, eq=False)
class ConstantPool:
    """Collects packed constants; equal contents are stored once."""

    # What is written is what content() gives, without a copy between: weights are the most of a
    # process's memory.
    _content: io.BytesIO = field(default_factory=io.BytesIO)
    _known: dict[bytes, Ref] = field(default_factory=dict)

    def add(self, content: bytes) -> Ref:
        """Store ``content`` and say where it will lie."""
        key = hashlib.sha256(content).digest()
        known = self._known.get(key)
        if known is not None:
            return known
        ref = Ref(BufferId.CONSTANTS, self._content.tell())
        self._content.write(content)
        self._content.write(bytes(align(len(content), DMA_ALIGN_BYTES) - len(content)))
        self._known[key] = ref
        return ref

    def content(self) -> bytes:
        return self._content.getvalue()
