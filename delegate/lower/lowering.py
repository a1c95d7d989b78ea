"""Drives lowering: from a partition to placed tensors, packed constants and tiled tasks.

In: ``Graph`` and ``Partition``. Out: ``LoweredPartition``. Raises LoweringError naming the node
that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from delegate.errors import LoweringError
from delegate.graph import Graph
from delegate.lower.add import layer_name, lower_add, surfaces_touched
from delegate.lower.constants import ConstantPool
from delegate.lower.conv2d import resolve_conv2d
from delegate.lower.convolution import PlannedConvolution, lower_convolution, plan_convolution
from delegate.lower.depthwise import resolve_depthwise
from delegate.lower.first_layer import fold_convolution, folded_inputs, host_tensor
from delegate.lower.fully_connected import resolve_fully_connected
from delegate.lower.kick_state import TRUSTED, KickState, keep_only
from delegate.lower.memory.check import check_memory
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.limits import check_sizes
from delegate.lower.memory.placement import MemoryPlan, WorkArea, place_tensors
from delegate.lower.memory.tensors import DeviceTensor, View, binding_of, unplaced, view_of
from delegate.lower.memory.uses import tensor_uses
from delegate.lower.memory.write_order import in_write_order
from delegate.lower.operations import Operation, operations_of, padding_before
from delegate.lower.resolved import Convolution
from delegate.lower.split import Split
from delegate.lower.task import BufferId, BufferSpec, Fold, Layer, LoweredPartition
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
    operations = operations_of(graph, partition)
    folds = folded_inputs(graph, partition, operations, views.places)
    planned = [_plan(graph, operation, folds, split) for operation in operations]
    order = in_write_order(graph, [item.footprint for item in planned], partition, views.places)
    planned = [planned[number] for number in order]
    footprints = [item.footprint for item in planned]
    slack = 0 if split is None else SPLIT_SLACK
    uses = tensor_uses(graph, partition, footprints, views.places, folds, slack)
    memory = place_tensors(graph, uses)
    nodes = [footprint.node for footprint in footprints]
    constants, work = ConstantPool(), WorkArea(memory)
    check_sizes(graph, nodes, _buffers(memory, constants, work))
    layers = tuple(
        keep_only(_lower(graph, item, memory.tensors, constants, work, split), kick_state)
        for item in planned
    )
    buffers = _buffers(memory, constants, work)
    check_sizes(graph, nodes, buffers)
    check_memory(partition, footprints, layers, memory, work, views.places)
    return LoweredPartition(
        name=name,
        layers=layers,
        buffers=buffers,
        inputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.inputs),
        outputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.outputs),
        live_bytes=memory.live_bytes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """An operation and what its tasks will touch; ``conv`` None: it needs no plan."""

    operation: Operation
    footprint: Footprint
    conv: PlannedConvolution | None


def _plan(
    graph: Graph,
    operation: Operation,
    folds: Mapping[int, tuple[View, Fold]],
    split: Split | None,
) -> _Planned:
    node = operation.node
    if node.op == "ADD":
        tensors = [t for t in operation.operands if graph.tensor(t).constant is None]
        reads = tuple((t, surfaces_touched(_channels(graph, t))) for t in tensors)
        writes = surfaces_touched(_channels(graph, operation.result))
        return _Planned(operation, Footprint(node, reads, operation.result, writes), None)
    source = unplaced(graph, operation.source, folds.get(operation.source))
    conv = _resolve(graph, operation, source, unplaced(graph, operation.result))
    planned = plan_convolution(conv, split)
    reads = ((operation.source, planned.surfaces_read),)
    footprint = Footprint(node, reads, operation.result, planned.surfaces_written)
    return _Planned(operation, footprint, planned)


def _channels(graph: Graph, tensor: int) -> int:
    return view_of(graph.tensor(tensor).shape).channels


def _lower(
    graph: Graph,
    planned: _Planned,
    tensors: Mapping[int, DeviceTensor],
    constants: ConstantPool,
    work: WorkArea,
    split: Split | None = None,
) -> Layer:
    operation = planned.operation
    if planned.conv is None:
        return lower_add(graph, operation.node, tensors, constants, split)
    source, target = tensors[operation.source], tensors[operation.result]
    return lower_convolution(planned.conv, source, target, constants, work)


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
