"""Estimate what a partition costs on the NPU, and what its nodes would cost on the CPU.

In: a partition, how long its program takes. Out: microseconds, and a rejection for every node of a
partition that is not worth delegating. The figures are orders of magnitude, and all of them speak
for the NPU: the least that its program takes on the driver in question, and a slow CPU. So they
drop what is far from breaking even, tails of reshapes and tiny functions, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delegate.chip.rates import Rates
from delegate.errors import Rejection
from delegate.model.graph import DType, Graph, Node
from delegate.model.partition import Partition
from delegate.ops import OPERATORS
from delegate.partition.partitioner import node_macs, partition_macs
from delegate.partition.rules import PARTITION_FASTER_ON_NPU, refused

# TensorFlow Lite's int8 kernels on one Cortex-A76: about 20 multiply-accumulates per ns and a
# memory stream of 8 bytes per ns. Assumed from published MobileNet timings.
CPU_MACS_PER_US = 20_000.0
CPU_BYTES_PER_US = 8000.0
CPU_NODE_US = 2.0
# Kernels of one element after the other, as most without sums of products are. Assumed.
CPU_ELEMENTS_PER_US = 1000.0

TAIL_SHARE = 0.01
"""A share of the multiplications of the largest partition: what multiplies less is no part of a
network's body. A head that turns distributions into numbers, YOLOv8's behind its SOFTMAX, has
0.0001 of them; halves of a network that a node of the CPU cuts have a tenth or more.
"""


@dataclass(frozen=True, slots=True)
class PartitionCost:
    npu_us: float
    cpu_us: float

    @property
    def is_worth_it(self) -> bool:
        return self.npu_us < self.cpu_us


def partition_cost(
    rates: Rates, graph: Graph, partition: Partition, program_us: float
) -> PartitionCost:
    """Return estimates of both sides. ``program_us``: the partition's program and its submit."""
    npu = program_us + conversion_us(rates, graph, partition)
    nodes = map(graph.node, partition.nodes)
    return PartitionCost(npu, sum(cpu_us(graph, n) for n in nodes if not runs_once(graph, n)))


def conversion_us(rates: Rates, graph: Graph, partition: Partition) -> float:
    """Return how long the host converts what goes into a partition and what comes out."""
    edges = sum(tensor_bytes(graph, tensor) for tensor in (*partition.inputs, *partition.outputs))
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
    if operator is None or operator.folds is None or len(node.inputs) != 1:
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


def tails(graph: Graph, partitions: Sequence[Partition]) -> Sequence[Partition]:
    """Return the partitions that multiply less than a hundredth of what the largest does. The
    largest is never among them: whoever loads a model with the delegate wants it on the NPU, be it
    a single node.
    """
    if not partitions:
        return partitions
    macs = [partition_macs(graph, partition) for partition in partitions]
    largest = macs.index(max(macs))
    limit = TAIL_SHARE * macs[largest]
    return [p for i, p in enumerate(partitions) if macs[i] <= limit and i != largest]


def slower_partitions(
    graph: Graph,
    partitions: Sequence[Partition],
    cost: Callable[[Partition], PartitionCost],
) -> tuple[Rejection, ...]:
    """A rejection for every node of the partitions that the CPU alone runs as fast.

    Leaving one out costs its nodes' CPU time and saves its own, whatever the others do, so the
    decisions are independent: what remains is no slower than the CPU alone, than any one of the
    partitions alone, and than all of them.
    """
    rejections: list[Rejection] = []
    for partition in partitions:
        found = cost(partition)
        if not found.is_worth_it:
            problem = f"this one takes {found.npu_us:.0f} us instead of {found.cpu_us:.0f} us"
            nodes = map(graph.node, partition.nodes)
            rejections += (refused(node, PARTITION_FASTER_ON_NPU, problem) for node in nodes)
    return tuple(rejections)
