"""Drives lowering: from a partition to placed tensors, packed constants and tiled tasks.

In: ``Graph`` and ``Partition``. Out: ``LoweredPartition``. Raises LoweringError naming the node
that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from delegate.errors import LoweringError
from delegate.graph import Graph
from delegate.lower.add import layer_name, lower_add
from delegate.lower.constants import ConstantPool
from delegate.lower.conv2d import resolve_conv2d
from delegate.lower.convolution import lower_convolution
from delegate.lower.depthwise import resolve_depthwise
from delegate.lower.first_layer import fold_convolution, host_tensor
from delegate.lower.fully_connected import resolve_fully_connected
from delegate.lower.kick_state import TRUSTED, KickState, keep_only
from delegate.lower.memory_limits import check_sizes
from delegate.lower.operations import Operation, operations_of, padding_before
from delegate.lower.resolved import Convolution
from delegate.lower.split import Split
from delegate.lower.task import BufferId, BufferSpec, Layer, LoweredPartition
from delegate.lower.tensor_uses import tensor_uses
from delegate.lower.tensors import (
    DeviceTensor,
    MemoryPlan,
    binding_of,
    place_tensors,
)
from delegate.lower.work_area import WorkArea
from delegate.lower.write_order import in_write_order
from delegate.partition.types import Partition
from delegate.partition.views import place_views

SPLIT_SLACK = 2
"""A core that is a layer ahead of another would have to wait before it may overwrite what that one
still reads."""


def lower_partition(
    graph: Graph,
    partition: Partition,
    name: str,
    split: Split | None = None,
    kick_state: KickState = TRUSTED,
) -> LoweredPartition:
    """Lowers every node of ``partition``, for several cores if ``split`` is given, relying on no
    more than ``kick_state`` between the kicks of a job. Raises LoweringError for a node that does
    not fit the hardware.
    """
    if not partition.outputs:
        raise LoweringError(
            partition.nodes[0], "result_used", "nothing reads the results of these nodes"
        )
    views = place_views(graph, partition)
    for rejection in views.rejections:
        raise LoweringError(rejection.node, rejection.rule, rejection.detail)
    operations = in_write_order(graph, operations_of(graph, partition), partition, views.places)
    slack = 0 if split is None else SPLIT_SLACK
    memory = place_tensors(graph, tensor_uses(graph, partition, operations, views.places, slack))
    nodes = [operation.node for operation in operations]
    check_sizes(graph, nodes, _buffers(memory, ConstantPool(), _work_area(memory)))
    constants, work = ConstantPool(), _work_area(memory)
    layers = tuple(
        keep_only(_lower(graph, op, memory.tensors, constants, work, split), kick_state)
        for op in operations
    )
    buffers = _buffers(memory, constants, work)
    check_sizes(graph, nodes, buffers)
    return LoweredPartition(
        name=name,
        layers=layers,
        buffers=buffers,
        inputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.inputs),
        outputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.outputs),
        live_bytes=memory.live_bytes,
    )


def _work_area(memory: MemoryPlan) -> WorkArea:
    return WorkArea(memory.sizes_bytes[BufferId.SCRATCH])


def _lower(
    graph: Graph,
    operation: Operation,
    tensors: Mapping[int, DeviceTensor],
    constants: ConstantPool,
    work: WorkArea,
    split: Split | None = None,
) -> Layer:
    node = operation.node
    if node.op == "ADD":
        return lower_add(graph, node, tensors, constants, split)
    source, target = tensors[operation.source], tensors[operation.result]
    conv = _resolve(graph, operation, source, target)
    return lower_convolution(conv, constants, work, split)


def _resolve(
    graph: Graph, operation: Operation, source: DeviceTensor, target: DeviceTensor
) -> Convolution:
    node = operation.node
    name = layer_name(graph, node)
    if node.op == "FULLY_CONNECTED":
        return resolve_fully_connected(graph, node, name, source, target)
    seen = source if source.fold is None else host_tensor(source)
    if node.op == "DEPTHWISE_CONV_2D":
        conv = resolve_depthwise(graph, node, name, seen, target)
    else:
        assert node.op == "CONV_2D", node.op
        conv = resolve_conv2d(graph, node, name, seen, target)
    padding = padding_before(graph, operation)
    if padding is not None:
        conv = replace(conv, nodes=operation.nodes, pad_top=padding[0], pad_left=padding[1])
    return conv if source.fold is None else fold_convolution(conv, source)


def _buffers(memory: MemoryPlan, constants: ConstantPool, work: WorkArea) -> tuple[BufferSpec, ...]:
    content = constants.content()
    sizes = memory.sizes_bytes
    return (
        BufferSpec(BufferId.CONSTANTS, len(content), content),
        BufferSpec(BufferId.SCRATCH, work.end),
        BufferSpec(BufferId.INPUT, sizes[BufferId.INPUT]),
        BufferSpec(BufferId.OUTPUT, sizes[BufferId.OUTPUT]),
    )
