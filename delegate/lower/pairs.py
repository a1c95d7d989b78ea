"""Operators of two feature maps as tasks of their own: the DPU alone ("flying"), one operand
through MRDMA and BS, the other through ERDMA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.chip.limits import ATOM_BYTES
from delegate.lower.constants import ConstantPool
from delegate.lower.lowered import Layer
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import EwOperation, Pipeline
from delegate.lower.operands import (
    Operand,
    computed_operand,
    constant_operand,
    require_dense,
)
from delegate.lower.operation import Memory, Planning, layer_name
from delegate.lower.selection import Moving
from delegate.lower.stretched import stretched, stretching_tasks
from delegate.lower.task import (
    BnStage,
    BsStage,
    ElementwiseTask,
    EwStage,
    OutConvert,
    Ref,
    Source,
    Stages,
    Task,
)
from delegate.lower.tiling.element_wise import MapPart, map_parts
from delegate.model.graph import Graph, Node

Requantize = Callable[[Sequence[DeviceTensor], DeviceTensor, bool], Pipeline]
"""Stages from the operands, the one that MRDMA reads first, and the result; whether those are in
the other order than the node's."""


def lower_pair(planning: Planning, node: Node, requantize: Requantize, memory: Memory) -> Layer:
    """Return the layer of a node with two operands. Raises LoweringError."""
    chip, graph = planning.chip, planning.graph
    target = memory.tensors[node.outputs[0]]
    before, tensors = with_stretched(chip, node, target.view, memory, memory.work.place)
    main, other = pair_operands(chip, graph, node, tensors, target.view, memory.constants)
    is_swapped = main.index != node.inputs[0]
    pipeline = requantize((main, other.tensor), target, is_swapped)
    tasks = (*before, *pair_tasks(chip, (main, other), target, pipeline))
    return Layer(name=layer_name(graph, node), op=node.op, nodes=(node.index,), tasks=tasks)


def with_stretched(
    chip: Chip, node: Node, output: View, memory: Memory, place: Ref
) -> tuple[tuple[Task, ...], Mapping[int, DeviceTensor]]:
    """Tasks that stretch an operand to the channels of ``output``, and copy it to its pixels, from
    ``place`` on, and all tensors, with that one where it is then. Raises LoweringError.
    """
    tensors = dict(memory.tensors)
    moving = Moving(chip, node, memory.constants)
    tasks: list[Task] = []
    for index in dict.fromkeys(node.inputs):
        if index not in tensors:
            continue
        made = stretched(chip, tensors[index], output, place)
        if made:
            tasks += stretching_tasks(moving, tensors[index], made)
            tensors[index] = made[-1]
            place = place.moved(sum(tensor.size_bytes for tensor in made))
    return tuple(tasks), tensors


def pair_tasks(
    chip: Chip,
    operands: tuple[DeviceTensor, Operand],
    target: DeviceTensor,
    pipeline: Pipeline,
) -> tuple[ElementwiseTask, ...]:
    """Return the tasks of ``pipeline`` on two operands, the first of which MRDMA reads."""
    main, other = operands
    stages = _stages(other, pipeline)
    parts = map_parts(chip, target.view)
    return tuple(_task(main, other, target, stages, part) for part in parts)


def pair_operands(
    chip: Chip,
    graph: Graph,
    node: Node,
    tensors: Mapping[int, DeviceTensor],
    output: View,
    constants: ConstantPool,
) -> tuple[DeviceTensor, Operand]:
    """The operand MRDMA reads, computed and of the output's shape, and the other one."""
    first, second = node.inputs
    if first not in tensors or tensors[first].view != output:
        first, second = second, first
    if second in tensors:
        operand = computed_operand(tensors[second], output)
        if operand.per_channel:
            require_dense(node, operand.tensor)
        return tensors[first], operand
    return tensors[first], constant_operand(chip, graph.tensor(second), output, constants)


def _stages(other: Operand, pipeline: Pipeline) -> Stages:
    """``pipeline`` with registers for BS and BN, and ``other`` in EW."""
    bs, bn, ew, out = pipeline.bs, pipeline.bn, pipeline.ew, pipeline.out
    assert isinstance(bs.add, int)
    assert isinstance(bs.multiply, int)
    assert isinstance(bn.add, int)
    assert isinstance(bn.multiply, int)
    assert ew is not None
    # Vendor's products have no multiplication in BS, its other operators have one.
    is_product = ew.operation is EwOperation.MULTIPLY
    return Stages(
        BsStage(
            alu=Source.REGISTER,
            alu_operand=bs.add,
            mul=Source.OFF if is_product and bs.multiply == 1 else Source.REGISTER,
            mul_operand=bs.multiply,
        ),
        BnStage(alu_operand=bn.add or None, relu=bn.relu)
        if bn.multiply == 1
        else BnStage(
            alu_operand=bn.add or None,
            mul=Source.REGISTER,
            mul_operand=bn.multiply,
            shift=bn.shift,
            shift_negative=bn.shift,
            relu=bn.relu,
        ),
        EwStage(
            per_channel=other.per_channel,
            surface_stride_bytes=(
                ATOM_BYTES if other.per_channel else other.tensor.surface_stride_bytes
            ),
            operation=ew.operation,
            offset=ew.offset,
            scale=ew.scale,
            truncate=ew.shift,
            relu=ew.relu,
            relux_max=ew.relux,
        ),
        OutConvert(out.scale, out.shift, out.offset, ties_away=out.ties_away),
    )


def _task(
    main: DeviceTensor,
    other: Operand,
    target: DeviceTensor,
    stages: Stages,
    part: MapPart,
) -> ElementwiseTask:
    assert stages.ew is not None
    pixel = 0 if other.is_shared else part.image * other.tensor.view.pixels
    if not other.per_channel:
        pixel += part.chunk.first
    operand = other.tensor.pixel(pixel).moved(part.surfaces.start * stages.ew.surface_stride_bytes)
    ew = replace(stages.ew, operand=operand)
    return part.task(main, target, stages._replace(ew=ew))
