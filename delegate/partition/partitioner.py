"""Select the nodes that the NPU computes, with a reason for every node left out.

In: a ``Graph`` and option deny_ops. Out: node indices for ``partitions`` and ``Rejection``s for
reports. Nodes that say one dilated convolution are kept together: all of them run on the NPU, or
none. Nodes that are computed while a graph is compiled (arithmetic over shapes, weights that are
stored in another form) belong to the partitions that read their results; no task is made of them.

Estimate what a partition costs on the NPU, and what its nodes would cost on the CPU.

In: a partition, how long its program takes. Out: microseconds, and a rejection for every node of a
partition that is not faster than the CPU. The figures are orders of magnitude. An inference takes
the sum of its partitions and of the nodes that the CPU keeps, so what remains when each partition
is faster than its nodes on the CPU is the fastest choice among them, and no slower than the CPU
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from delegate.chip.chip import Chip, Rates
from delegate.chip.chips import DEFAULT
from delegate.errors import DelegateError, Rejection
from delegate.model.graph import DType, Graph, Node, Partition
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, named
from delegate.ops.shared.reshaping import SHARING
from delegate.ops.shared.shape_arithmetic import following_from_shapes
from delegate.partition.partitions import execution_order, inner_part
from delegate.partition.rules import (
    MEMORY_IS_KEPT,
    NOT_DENIED,
    PARTITION_FASTER_ON_NPU,
    READERS_TAKEN,
    SAID_TOGETHER,
    check_node,
    refused,
)


def select_nodes(
    graph: Graph, deny_ops: Sequence[str] = (), chip: Chip = DEFAULT
) -> tuple[frozenset[int], tuple[Rejection, ...]]:
    """The indices of nodes that pass all constraints, and a rejection for every other node.

    ``deny_ops``: operator names ("ADD", "CUSTOM" for all custom ones) or node indices ("12").
    """
    facts = GraphFacts(graph, chip)
    denied = {name.upper() for name in deny_ops}
    supported: set[int] = set()
    rejections: list[Rejection] = []
    for node in graph.nodes:
        rejection = _denied(node, denied) if denied else None
        rejection = rejection or check_node(facts, node)
        if rejection is None:
            supported.add(node.index)
        else:
            rejections.append(rejection)
    return frozenset(supported), tuple(rejections)


def _denied(node: Node, denied: Collection[str]) -> Rejection | None:
    family, separator, _ = node.op.partition(":")
    names = [node.op.upper(), str(node.index), *([family] if separator else [])]
    name = next((name for name in names if name in denied), None)
    if name is None:
        return None
    return refused(node, NOT_DENIED, f"it names {name}")


def node_macs(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a convolution or fully connected node, 0 for others; additions count
    none.
    """
    operator = OPERATORS.get(node.op)
    return 0 if operator is None else operator.macs(graph, node)


def incomplete(graph: Graph, supported: Collection[int]) -> list[Rejection]:
    """Return the rejections of ``supported`` nodes that belong to others, not all supported."""
    found = []
    for group in graph.together:
        missing = group.difference(supported)
        if missing:
            other = graph.node(min(missing))
            problem = f"node {other.index} ({other.stored_op}) stays on the CPU"
            nodes = map(graph.node, sorted(group.intersection(supported)))
            found += [refused(node, SAID_TOGETHER, problem) for node in nodes]
    return found


def sharing_chains(graph: Graph, supported: Collection[int]) -> list[Node]:
    """Return the nodes on the CPU that share memory with one before them that does, too."""
    sharing = [n for n in graph.nodes if n.op in SHARING and n.index not in supported]
    made = {n.outputs[0] for n in sharing} - graph.folded
    return [n for n in sharing if n.inputs[0] in made]


def overwritten(graph: Graph, supported: Collection[int]) -> list[Rejection]:
    """Return the rejections of all ``supported`` nodes if the runtime would overwrite a tensor that
    a node reads later.

    Such a tensor lies between two nodes on the CPU that share memory. A kernel that works in place
    behind them takes that memory although others read the tensor: the runtime asks who reads the
    first operand and the last result alone (measured, ai-edge-litert to 2.3). In the model's order
    those may come before; with nodes on the NPU another order holds.
    """
    chained = sharing_chains(graph, supported)
    if not chained:
        return []
    readers = GraphFacts(graph).readers
    order = enumerate(n for group in execution_order(graph, supported) for n in group)
    places = {node: place for place, node in order}
    for node in chained:
        shared = graph.tensor(node.inputs[0])
        others = (places[n.index] for n in readers[shared.index] if n is not node)
        last = max(others, default=-1)
        first = min((places[n.index] for n in _behind(node, readers, supported)), default=last)
        if first < last:
            problem = f"node {node.index} ({node.op}) shares {named(shared)} with others"
            return [refused(graph.node(n), MEMORY_IS_KEPT, problem) for n in sorted(supported)]
    return []


def _behind(
    node: Node, readers: Mapping[int, Sequence[Node]], supported: Collection[int]
) -> Iterator[Node]:
    """Yield the nodes on the CPU that read the memory of ``node`` and may write it."""
    for reader in readers.get(node.outputs[0], ()):
        if reader.op in SHARING and reader.index not in supported:
            yield from _behind(reader, readers, supported)
        elif reader.index not in supported:
            yield reader


class Computed:
    """The nodes of ``graph`` that are computed while it is compiled, and belong to the partition
    that reads their results. ``rejections``: of nodes that the NPU does not take; those that the
    user denied stay where they are.
    """

    def __init__(self, graph: Graph, rejections: Sequence[Rejection]) -> None:
        denied = {r.node for r in rejections if r.rule == NOT_DENIED.name}
        self._graph = graph
        self._facts = GraphFacts(graph)
        self._shapes = following_from_shapes(graph)
        inner = graph.folded.difference(graph.outputs)
        self._nodes = [
            node
            for node in graph.nodes
            if node.index not in denied and inner.issuperset(node.outputs)
        ]

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
                inner_part(self._graph, partition, set(partition.nodes) - computed)
                for partition in partitions_of(frozenset(supported) | computed)
            ]
            wrong = {node for one in found for node in self._reaching_out(one)}
            if not wrong:
                return found
            left |= wrong

    def explained(
        self, rejections: Sequence[Rejection], partitions: Sequence[Partition]
    ) -> tuple[Rejection, ...]:
        """Return ``rejections`` of the nodes that are in none of ``partitions``; of those that
        could be computed, with that reason.
        """
        done = {node for partition in partitions for node in partition.computed}
        mine = {node.index: node for node in self._nodes if node.index in self._shapes}
        return tuple(
            refused(mine[one.node], READERS_TAKEN, "others do") if one.node in mine else one
            for one in rejections
            if one.node not in done
        )

    def _read_by(self, supported: Collection[int], left: set[int]) -> frozenset[int]:
        """Return those whose results only ``supported`` nodes, or one another, read."""
        taken: set[int] = set()
        for node in reversed(self._nodes):
            readers = {one.index for t in node.outputs for one in self._facts.readers.get(t, ())}
            if node.index not in left and readers and readers <= taken.union(supported):
                taken.add(node.index)
        return frozenset(taken)

    def _reaching_out(self, one: Partition) -> list[int]:
        """Return the nodes computed for ``one`` whose results are read elsewhere, or that read what
        the others do not, so that the runtime would have another idea of its edges; or that read
        what follows from shapes elsewhere, which may be those of another batch.
        """
        if not one.nodes:
            return list(one.computed)
        given = {t for node in one.delegated for t in self._graph.node(node).outputs}
        given.update(one.inputs)
        found = []
        for node in map(self._graph.node, one.computed):
            read = (t for t in node.inputs if t >= 0 and self._varies(t))
            if not given.issuperset(read) or not set(one.outputs).isdisjoint(node.outputs):
                found.append(node.index)
        return found

    def _varies(self, tensor: int) -> bool:
        maker = self._facts.makers.get(tensor)
        is_shaped = maker is not None and maker.index in self._shapes
        return is_shaped or self._graph.tensor(tensor).constant is None


def read_while_running(graph: Graph, partition: Partition) -> list[Rejection]:
    """Return the rejections of delegated nodes whose shape a node on the CPU, or of another
    partition, computes: the runtime then knows what they write while it runs, and not before.
    """
    makers = {t: node for node in graph.nodes for t in node.outputs}
    shapes = following_from_shapes(graph)
    found = []
    for node in map(graph.node, partition.nodes):
        for tensor in graph.folded.intersection(node.inputs):
            maker = makers.get(tensor)
            if maker is None or maker.index in partition.delegated:
                continue
            if maker.index in shapes:
                maker_text = f"node {maker.index} ({maker.stored_op}), which gives its shape,"
                problem = f"{maker_text} is in no partition with it"
                found.append(refused(node, READERS_TAKEN, problem))
    return found


def parted(graph: Graph, partition: Partition) -> list[Rejection]:
    """Return the rejections of nodes whose tensors only the NPU can have, where the runtime reads
    one, or gives it.
    """
    edges = {t for t in (*partition.inputs, *partition.outputs) if graph.tensor(t).is_inner}
    if not edges:
        return []
    nodes = [node for node in map(graph.node, partition.nodes)
             if not edges.isdisjoint((*node.inputs, *node.outputs))]  # fmt: skip
    problem = f"tensor {min(edges)} is read elsewhere"
    return [refused(node, SAID_TOGETHER, problem) for node in nodes]


# TensorFlow Lite's int8 kernels on one Cortex-A76: about 20 multiply-accumulates per ns and a
# memory stream of 8 bytes per ns. Assumed from published MobileNet timings.
CPU_MACS_PER_US = 20_000.0
CPU_BYTES_PER_US = 8000.0
CPU_NODE_US = 2.0
# Kernels of one element after the other, as most without sums of products are. Assumed.
CPU_ELEMENTS_PER_US = 1000.0


@dataclass(frozen=True, slots=True)
class PartitionCost:
    npu_us: float
    cpu_us: float

    @property
    def is_faster(self) -> bool:
        """Return whether the NPU is faster."""
        return self.npu_us < self.cpu_us


class SlowerError(DelegateError):
    """``nodes`` of a partition that the CPU runs as fast; ``cost`` says by what."""

    def __init__(self, nodes: tuple[int, ...], cost: PartitionCost) -> None:
        self.nodes, self.cost = nodes, cost
        super().__init__(f"at least {cost.npu_us:.0f} us instead of {cost.cpu_us:.0f} us")


def partition_cost(
    rates: Rates, graph: Graph, partition: Partition, program_us: float
) -> PartitionCost:
    """Return estimates of both sides. ``program_us``: the partition's program and its submit."""
    converted = conversion_us(rates, graph, (*partition.inputs, *partition.outputs))
    return nodes_cost(graph, partition.delegated, program_us + converted)


def nodes_cost(graph: Graph, nodes: Iterable[int], npu_us: float) -> PartitionCost:
    """Return what ``nodes`` cost, of which it is known what they take on the NPU."""
    on_cpu = (node for node in map(graph.node, nodes) if not runs_once(graph, node))
    return PartitionCost(npu_us, sum(cpu_us(graph, node) for node in on_cpu))


def conversion_us(rates: Rates, graph: Graph, tensors: Iterable[int]) -> float:
    """Return how long the host converts ``tensors``, which go into a partition or come out."""
    edges = sum(tensor_bytes(graph, tensor) for tensor in tensors)
    return rates.microseconds(edges // rates.host_bytes_per_cycle)


def cpu_us(graph: Graph, node: Node) -> float:
    """Return what one run takes: arithmetic or memory, whichever is longer, and some overhead."""
    tensors = [tensor for tensor in (*node.inputs, *node.outputs) if tensor >= 0]
    moved = sum(tensor_bytes(graph, tensor) for tensor in tensors)
    work = max(node_macs(graph, node) / CPU_MACS_PER_US, moved / CPU_BYTES_PER_US)
    operator = OPERATORS.get(node.op)
    if operator is None or operator.movement is None:
        results = sum(elements(graph, tensor) for tensor in node.outputs if tensor >= 0)
        work = max(work, results / CPU_ELEMENTS_PER_US)
    return work + CPU_NODE_US


def runs_once(graph: Graph, node: Node) -> bool:
    """Return whether the runtime computes ``node`` in the first inference alone: kernels that fold
    constants keep what they make of one. What such a kernel made is none for the next (measured
    with tflite-runtime 2.14: DEQUANTIZE behind DENSIFY runs each time).
    """
    operator = OPERATORS.get(node.op)
    if operator is None or not operator.folds_once or len(node.inputs) != 1:
        return False
    (source,) = node.inputs
    return graph.tensor(source).constant is not None and source not in graph.folded


def elements(graph: Graph, tensor: int) -> int:
    """Return the elements of a tensor with its dynamic dimensions taken as 1."""
    return math.prod(max(size, 1) for size in graph.tensor(tensor).shape)


def tensor_bytes(graph: Graph, tensor: int) -> int:
    """Return the bytes of a tensor with its dynamic dimensions taken as 1; four per element unless
    it has 8 bits.
    """
    wide = graph.tensor(tensor).dtype not in (DType.INT8, DType.UINT8)
    return elements(graph, tensor) * (4 if wide else 1)


def slower(graph: Graph, found: SlowerError) -> list[Rejection]:
    """Return a rejection for every node of a partition that the CPU runs as fast."""
    nodes = map(graph.node, found.nodes)
    return [refused(node, PARTITION_FASTER_ON_NPU, f"these take {found}") for node in nodes]
