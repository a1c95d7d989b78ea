"""Operators that join or cut tensors: their records, and the tasks that do so where parts cannot
lie inside one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from delegate.chip.limits import surfaces_of
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, device_element, memory_view, whole_channels
from delegate.lower.moves import Cut, Join, Part
from delegate.lower.operation import Memory, Operation, Plan, Planning
from delegate.lower.selection import Moving, Selection
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import Options
from delegate.ops.operator import Constraint, Lowering, Movement, Operator, Role, Shapes
from delegate.ops.shared import aliases, half_records
from delegate.ops.shared.common import MOST_TENSORS
from delegate.ops.shared.links import Link
from delegate.ops.shared.requantized_parts import part_requantized
from delegate.ops.shared.task_plans import TaskPlan, move_plan

Links = Callable[[Graph, Node], tuple[Link, ...]]


def _join_plan(planning: Planning, operation: Operation, join: Join) -> TaskPlan:
    """``join`` makes the result of the operation's operands."""
    operands, result = operation.operands, operation.result
    touched = (surfaces_touched(planning.chip, channels) for channels in join.channels)
    footprint = Footprint(
        operation.node,
        tuple(dict(zip(operands, touched, strict=True)).items()),
        result,
        join.surfaces_written,
        work_bytes=join.work_bytes(planning.tensor(result).as_bytes),
    )

    def tasks(memory: Memory, moving: Moving) -> Iterable[Task]:
        sources = [memory.tensors[tensor].as_bytes for tensor in operands]
        return join.tasks(moving, sources, memory.tensors[result].as_bytes, memory.work.place)

    return TaskPlan(planning, operation, footprint, tasks)


def joining(
    name: str,
    links: Links,
    shapes: Shapes,
    options: type[Options],
    rules: tuple[Constraint, ...] = aliases.JOINS,
) -> Operator:
    """The record of an operator whose inputs become parts of its output, as ``links`` say in their
    order.
    """

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, found = planning.graph, links(planning.graph, operation.node)
        parts = tuple(_part(graph, link, part_requantized(graph, link)) for link in found)
        channels = tuple(memory_view(graph.tensor(link.part)).channels for link in found)
        total = whole_channels(graph.tensor(operation.result))
        return _join_plan(planning, operation, Join(planning.chip, parts, channels, total))

    return Operator(
        name=name,
        options=options,
        inputs=(Role.FEATURE,),
        repeats=True,
        needed=1,
        lowering=Lowering.ALIAS,
        movement=Movement.JOIN,
        links=links,
        plan=plan,
        shapes=shapes,
        rules=(*aliases.FIRST, *rules),
        half=half_records.alias(aliases.HALF_JOINS),
    )


def cutting(
    name: str,
    links: Links,
    shapes: Shapes,
    *inputs: Role,
    options: type[Options] | None = None,
    most_outputs: int = MOST_TENSORS,
) -> Operator:
    """The record of an operator whose outputs are parts of an input, as ``links`` say."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, found = planning.graph, links(planning.graph, operation.node)
        link = next(link for link in found if link.part == operation.result)
        result = graph.tensor(operation.result)
        channels, written = memory_view(result).channels, whole_channels(result)
        cut = Cut(planning.chip, _part(graph, link), channels, written)
        return move_plan(
            planning,
            operation,
            lambda moving, source, target, _: cut.tasks(moving, source, target),
            reads=cut.surfaces_read,
            writes=cut.surfaces_written,
        )

    return Operator(
        name=name,
        options=options,
        inputs=inputs,
        most_outputs=most_outputs,
        lowering=Lowering.ALIAS,
        movement=Movement.CUT,
        links=links,
        plan=plan,
        shapes=shapes,
        rules=(*aliases.FIRST, *aliases.CUTS),
        half=half_records.alias(aliases.HALF_CUTS),
    )


def _part(graph: Graph, link: Link, function: bytes | None = None) -> Part:
    """As memory has it: channels of one byte."""
    image, row, column, channel = link.begin
    size = device_element(graph.tensor(link.whole)).bytes
    return Part((image, row, column, channel * size), link.steps, function)


def plan_rearranged(
    planning: Planning,
    operation: Operation,
    weights: npt.NDArray[np.int8],
    selection: Selection,
) -> Plan:
    """Every element of the result is one of the operand's, by a dense convolution with ``weights``
    (OHWI) that are 0 but for one of each kernel.
    """
    chip = planning.chip
    outputs, kh, kw, inputs = weights.shape

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterable[Task]:
        wide = np.zeros((target.view.channels, kh, kw, source.view.channels), np.int8)
        wide[:outputs, :, :, :inputs] = weights
        return moving.move(source, target, wide, selection)

    read = depthwise_channels(inputs, chip.groups) if chip.forms.whole_kernel_groups else inputs
    written = chip.groups.surfaces_written(outputs, is_depthwise=False)
    return move_plan(planning, operation, tasks, reads=surfaces_of(read), writes=written)
