"""What the operations of a partition ask of its tensors: surfaces, live ranges, buffers, places.

In: ``Graph``, ``Partition``, operations in execution order and the places of tensors that share
memory. Out: a ``TensorUse`` per tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from delegate.graph import Graph, Node
from delegate.lower.convolution import programmed_channels
from delegate.lower.first_layer import choose_fold
from delegate.lower.hw import (
    CBUF_BANK_BYTES,
    CBUF_BANKS,
    CHANNELS_PER_SURFACE,
    DENSE_KERNEL_GROUP,
    DEPTHWISE_GROUP,
    align,
)
from delegate.lower.operations import Operation, padding_before
from delegate.lower.task import BufferId, Fold
from delegate.lower.tensors import TensorUse, View, default_surfaces, view_of
from delegate.lower.weights import depthwise_channels
from delegate.partition.types import Partition
from delegate.partition.views import Place


def tensor_uses(
    graph: Graph,
    partition: Partition,
    operations: Sequence[Operation],
    places: Mapping[int, Place],
    slack: int = 0,
) -> tuple[TensorUse, ...]:
    """The partition's inputs first, then the others in the order of their first use. ``slack``: for
    how many more operations memory that was read is not used again.
    """
    surfaces: dict[int, int] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}

    def touch(tensor: int, needed: int, when: int) -> None:
        surfaces[tensor] = max(surfaces.get(tensor, 0), needed)
        first.setdefault(tensor, when)
        last[tensor] = when

    for when, operation in enumerate(operations):
        for tensor in operation.operands:
            if graph.tensor(tensor).constant is not None:
                continue
            touch(tensor, surfaces_read(graph, operation, tensor), when)
        touch(operation.result, surfaces_written(graph, operation), when)
    for tensor in (*partition.inputs, *partition.outputs):
        if tensor in places and tensor not in first:  # only its parts, or the whole, are touched
            touch(tensor, _surfaces(view_of(graph.tensor(tensor).shape).channels), 0)
    folds = _folds(graph, partition, operations, places)
    buffers = _buffers(partition, places)
    uses = []
    for tensor in (*partition.inputs, *(t for t in first if t not in partition.inputs)):
        folded = folds.get(tensor)
        if folded is not None:
            surfaces[tensor] = _surfaces(folded[0].channels)
        place = places.get(tensor)
        buffer = buffers.get((place is not None, tensor if place is None else place.group))
        uses.append(
            TensorUse(
                tensor,
                surfaces[tensor],
                first[tensor],
                last[tensor] + slack,
                BufferId.SCRATCH if buffer is None else buffer,
                folded,
                place,
            )
        )
    return tuple(uses)


def _buffers(
    partition: Partition, places: Mapping[int, Place]
) -> Mapping[tuple[bool, int], BufferId]:
    """Where tensors, and groups of tensors (True, group), lie that the host converts."""
    found: dict[tuple[bool, int], BufferId] = {}
    for tensors, buffer in (
        (partition.outputs, BufferId.OUTPUT),
        (partition.inputs, BufferId.INPUT),
    ):
        for tensor in tensors:
            place = places.get(tensor)
            found[place is not None, tensor if place is None else place.group] = buffer
    return found


def _surfaces(channels: int) -> int:
    return -(-channels // CHANNELS_PER_SURFACE)


def _folds(
    graph: Graph,
    partition: Partition,
    operations: Sequence[Operation],
    places: Mapping[int, Place],
) -> Mapping[int, tuple[View, Fold]]:
    """Inputs that the host folds for the one convolution that reads them."""
    readers: dict[int, list[Operation]] = {t: [] for t in partition.inputs if t not in places}
    for operation in operations:
        for tensor in operation.operands:
            if tensor in readers:
                readers[tensor].append(operation)
    folds = {}
    for tensor, found in readers.items():
        if len(found) == 1 and found[0].node.op == "CONV_2D" and found[0].source == tensor:
            padding = padding_before(graph, found[0])
            folded = choose_fold(graph, found[0].node, tensor, padding)
            if folded is not None:
                folds[tensor] = folded
    return folds


def surfaces_read(graph: Graph, operation: Operation, tensor: int) -> int:
    """Surfaces that an operation reads of ``tensor``, some beyond its channels."""
    channels = view_of(graph.tensor(tensor).shape).channels
    depthwise = operation.node.op == "ADD" or _is_depthwise(graph, operation.node)
    return programmed_channels(channels, depthwise) // CHANNELS_PER_SURFACE


def surfaces_written(graph: Graph, operation: Operation) -> int:
    """Surfaces of its result that an operation writes: whole groups, the spare lanes included."""
    channels = view_of(graph.tensor(operation.result).shape).channels
    if operation.node.op == "ADD":
        return depthwise_channels(channels) // CHANNELS_PER_SURFACE
    if _is_depthwise(graph, operation.node):
        return align(channels, DEPTHWISE_GROUP) // CHANNELS_PER_SURFACE
    return default_surfaces(channels) + _spare_surfaces(graph, operation.node)


def _spare_surfaces(graph: Graph, node: Node) -> int:
    """One for kernels so large that the tiler may have to split a group of them, else none."""
    if node.op == "ADD":
        return 0
    inputs = view_of(graph.tensor(node.inputs[0]).shape).channels
    outputs, *taps, lanes = graph.tensor(node.inputs[1]).shape
    if node.op == "DEPTHWISE_CONV_2D":
        outputs = graph.tensor(node.outputs[0]).shape[3]
    per_kernel = math.prod(taps) * align(max(inputs, lanes), CHANNELS_PER_SURFACE)
    group_bytes = min(outputs, DENSE_KERNEL_GROUP) * per_kernel
    return 1 if 2 * group_bytes > CBUF_BANKS * CBUF_BANK_BYTES else 0


def _is_depthwise(graph: Graph, node: Node) -> bool:
    """Depthwise for the hardware: one kernel per channel."""
    if node.op != "DEPTHWISE_CONV_2D":
        return False
    return graph.tensor(node.inputs[0]).shape[3] == graph.tensor(node.outputs[0]).shape[3]
