"""Drives lowering: from a partition to placed tensors, packed constants and tiled tasks.

In: ``Graph`` and ``Partition``. Out: ``LoweredPartition``. Raises LoweringError naming the node
that does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from delegate.errors import LoweringError
from delegate.graph import AddOptions, Graph, Node
from delegate.lower.add import layer_name, lower_add
from delegate.lower.constants import ConstantPool
from delegate.lower.conv2d import resolve_conv2d
from delegate.lower.convolution import lower_convolution, programmed_channels
from delegate.lower.depthwise import resolve_depthwise
from delegate.lower.first_layer import choose_fold, fold_convolution, host_tensor
from delegate.lower.fully_connected import resolve_fully_connected
from delegate.lower.fused_add import FusedAdd
from delegate.lower.hw import (
    CBUF_BANK_BYTES,
    CBUF_BANKS,
    CHANNELS_PER_SURFACE,
    DENSE_KERNEL_GROUP,
    DEPTHWISE_GROUP,
    align,
)
from delegate.lower.resolved import Convolution, FusionNotExactError
from delegate.lower.task import BufferId, BufferSpec, Fold, Layer, LoweredPartition
from delegate.lower.tensors import (
    DeviceTensor,
    MemoryPlan,
    TensorUse,
    View,
    binding_of,
    default_surfaces,
    device_zero_point,
    place_tensors,
    view_of,
)
from delegate.lower.work_area import WorkArea
from delegate.partition.fusion import additions_to_fuse
from delegate.partition.pad_constraints import pad_amounts
from delegate.partition.types import Partition


@dataclass(frozen=True, slots=True)
class Operation:
    """A node to lower, with the addition and the PAD folded into it, if any."""

    node: Node
    addition: Node | None = None
    padding: Node | None = None

    @property
    def result(self) -> int:
        return (self.addition or self.node).outputs[0]

    @property
    def operands(self) -> tuple[int, ...]:
        """Feature maps it reads from memory; those of an addition may be constants."""
        if self.node.op == "ADD":
            return self.node.inputs
        if self.addition is None:
            return (self.source,)
        return (self.source, self.other_operand)

    @property
    def source(self) -> int:
        """The feature map a convolution reads: what PAD reads, if one is folded."""
        return (self.padding or self.node).inputs[0]

    @property
    def nodes(self) -> tuple[int, ...]:
        """All TFLite nodes it computes, in execution order."""
        members = (self.padding, self.node, self.addition)
        return tuple(node.index for node in members if node is not None)

    @property
    def other_operand(self) -> int:
        """The operand of the folded addition that the convolution does not produce."""
        assert self.addition is not None
        first, second = self.addition.inputs
        return second if first == self.node.outputs[0] else first


def lower_partition(graph: Graph, partition: Partition, name: str) -> LoweredPartition:
    """Lowers every node of ``partition``. Raises LoweringError for a node that does not fit the
    hardware.

    Additions are folded into convolutions where graph and numbers allow it; where the numbers do
    not, both nodes get tasks of their own.
    """
    if not partition.outputs:
        raise LoweringError(
            partition.nodes[0], "result_used", "nothing reads the results of these nodes"
        )
    fusions = dict(additions_to_fuse(graph, partition))
    while True:
        operations = _operations(graph, partition, fusions)
        memory = place_tensors(graph, _tensor_uses(graph, partition, operations))
        constants, work = ConstantPool(), WorkArea(memory.sizes_bytes[BufferId.SCRATCH])
        try:
            layers = tuple(_lower(graph, op, memory.tensors, constants, work) for op in operations)
        except FusionNotExactError as error:
            fusions = {add: conv for add, conv in fusions.items() if conv != error.node}
            continue
        return LoweredPartition(
            name=name,
            layers=layers,
            buffers=_buffers(memory, constants, work),
            inputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.inputs),
            outputs=tuple(binding_of(graph, memory.tensors[t]) for t in partition.outputs),
            live_bytes=memory.live_bytes,
        )


def _operations(
    graph: Graph, partition: Partition, fusions: Mapping[int, int]
) -> tuple[Operation, ...]:
    """Execution order; a fused pair runs at the addition's place, where both operands exist."""
    folded = set(fusions.values())
    pads = _pads(graph, partition)
    operations = []
    for index in partition.nodes:
        node = graph.node(index)
        if node.op == "PAD":
            continue
        if index in fusions:
            conv = graph.node(fusions[index])
            operations.append(Operation(conv, node, pads.get(conv.inputs[0])))
        elif index not in folded:
            operations.append(Operation(node, None, pads.get(node.inputs[0])))
    return tuple(operations)


def _pads(graph: Graph, partition: Partition) -> Mapping[int, Node]:
    """PAD nodes by their result, which no one may read but the convolutions of this partition."""
    pads = {}
    for index in partition.nodes:
        node = graph.node(index)
        if node.op != "PAD":
            continue
        if node.outputs[0] in partition.outputs:
            raise LoweringError(
                index, "pad_result_hidden", "a node outside the partition reads the padded image"
            )
        pads[node.outputs[0]] = node
    return pads


def _tensor_uses(
    graph: Graph, partition: Partition, operations: Sequence[Operation]
) -> tuple[TensorUse, ...]:
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
            touch(tensor, _surfaces_read(graph, operation, tensor), when)
        touch(operation.result, _surfaces_written(graph, operation), when)
    folds = _folds(graph, partition, operations)
    uses = []
    for tensor in (*partition.inputs, *(t for t in first if t not in partition.inputs)):
        buffer = BufferId.SCRATCH
        if tensor in partition.inputs:
            buffer = BufferId.INPUT
        elif tensor in partition.outputs:
            buffer = BufferId.OUTPUT
        folded = folds.get(tensor)
        if folded is not None:
            surfaces[tensor] = -(-folded[0].channels // CHANNELS_PER_SURFACE)
        uses.append(
            TensorUse(tensor, surfaces[tensor], first[tensor], last[tensor], buffer, folded)
        )
    return tuple(uses)


def _folds(
    graph: Graph, partition: Partition, operations: Sequence[Operation]
) -> Mapping[int, tuple[View, Fold]]:
    """Inputs that the host folds for the one convolution that reads them."""
    readers: dict[int, list[Operation]] = {tensor: [] for tensor in partition.inputs}
    for operation in operations:
        for tensor in operation.operands:
            if tensor in readers:
                readers[tensor].append(operation)
    folds = {}
    for tensor, found in readers.items():
        if len(found) == 1 and found[0].node.op == "CONV_2D" and found[0].source == tensor:
            padding = _padding_before(graph, found[0])
            folded = choose_fold(graph, found[0].node, tensor, padding)
            if folded is not None:
                folds[tensor] = folded
    return folds


def _surfaces_read(graph: Graph, operation: Operation, tensor: int) -> int:
    channels = view_of(graph.tensor(tensor).shape).channels
    if operation.node.op == "ADD" or (operation.addition and tensor == operation.other_operand):
        return default_surfaces(channels)
    depthwise = _is_depthwise(graph, operation.node)
    return programmed_channels(channels, depthwise) // CHANNELS_PER_SURFACE


def _surfaces_written(graph: Graph, operation: Operation) -> int:
    channels = view_of(graph.tensor(operation.result).shape).channels
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


def _lower(
    graph: Graph,
    operation: Operation,
    tensors: Mapping[int, DeviceTensor],
    constants: ConstantPool,
    work: WorkArea,
) -> Layer:
    node = operation.node
    if node.op == "ADD":
        return lower_add(graph, node, tensors, constants)
    source, target = tensors[operation.source], tensors[operation.result]
    return lower_convolution(_resolve(graph, operation, source, target, tensors), constants, work)


def _resolve(
    graph: Graph,
    operation: Operation,
    source: DeviceTensor,
    target: DeviceTensor,
    tensors: Mapping[int, DeviceTensor],
) -> Convolution:
    node = operation.node
    name = layer_name(graph, operation.addition or node)
    if node.op == "FULLY_CONNECTED":
        return resolve_fully_connected(graph, node, name, source, target)
    seen = source if source.fold is None else host_tensor(source)
    if node.op == "DEPTHWISE_CONV_2D":
        conv = resolve_depthwise(graph, node, name, seen, target)
    else:
        assert node.op == "CONV_2D", node.op
        fused = _fused(graph, operation, tensors)
        conv = resolve_conv2d(graph, node, name, seen, target, fused)
    padding = _padding_before(graph, operation)
    if padding is not None:
        conv = replace(conv, nodes=operation.nodes, pad_top=padding[0], pad_left=padding[1])
    return conv if source.fold is None else fold_convolution(conv, source)


def _padding_before(graph: Graph, operation: Operation) -> tuple[int, int] | None:
    """Rows above and columns left of the image that a folded PAD adds."""
    if operation.padding is None:
        return None
    _, (top, _), (left, _), _ = pad_amounts(graph, operation.padding)
    return top, left


def _fused(
    graph: Graph, operation: Operation, tensors: Mapping[int, DeviceTensor]
) -> FusedAdd | None:
    if operation.addition is None:
        return None
    assert isinstance(operation.addition.options, AddOptions)
    intermediate = graph.tensor(operation.node.outputs[0])
    assert intermediate.quantization is not None
    result = tensors[operation.result]
    return FusedAdd(
        node=operation.addition.index,
        operand=tensors[operation.other_operand],
        intermediate_scale=intermediate.quantization.scale,
        intermediate_zero_point=device_zero_point(intermediate),
        output_scale=result.scale,
        output_zero_point=result.zero_point,
        activation=operation.addition.options.activation,
    )


def _buffers(memory: MemoryPlan, constants: ConstantPool, work: WorkArea) -> tuple[BufferSpec, ...]:
    content = constants.content()
    sizes = memory.sizes_bytes
    return (
        BufferSpec(BufferId.CONSTANTS, len(content), content),
        BufferSpec(BufferId.SCRATCH, work.end),
        BufferSpec(BufferId.INPUT, sizes[BufferId.INPUT]),
        BufferSpec(BufferId.OUTPUT, sizes[BufferId.OUTPUT]),
    )
