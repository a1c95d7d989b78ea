"""Operators that join or cut tensors: their records, and the tasks that do so where parts cannot
lie inside one another.

Besides: options and rules of operators that bring blocks of pixels into channels and back, and the
plans of operations that read feature maps and write a result, with what they touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import surfaces_of
from delegate.errors import LoweringError
from delegate.lower.binary_elementwise import constant_operand
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, view_of, whole_channels
from delegate.lower.moves import cut, plan_join
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.selection import Move, Moving, Selection
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import (
    Constraint,
    GraphFacts,
    Maps,
    Movement,
    Operator,
    Role,
    Shapes,
    constraint,
)
from delegate.ops.shared import half_records, parts
from delegate.ops.shared.common import MOST_TENSORS, other_shape
from delegate.ops.shared.convolution import most_stride
from delegate.ops.shared.image_rules import image_rank, of_kept_values
from delegate.ops.shared.parts import part_requantized


def joining(
    name: str,
    maps: Maps,
    shapes: Shapes,
    options: type[Options],
    rules: tuple[Constraint, ...] = parts.JOINS,
) -> Operator:
    """Return the record of an operator whose inputs become parts of its output, as its map says."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph = planning.graph
        found = parts.direct_parts(planning.chip, graph, record, operation.node)
        direct = [part for part in found if part is not None]
        if not direct:
            return _plan_moved_parts(planning, operation, record)
        functions = tuple(part_requantized(part.part, part.whole) for part in direct)
        total = whole_channels(graph.tensor(operation.result))
        source_of = partial(_source_of, planning)
        return plan_join(planning, operation, direct, functions, total, source_of)

    record = Operator(
        name=name,
        options=options,
        inputs=(Role.OPERAND,),
        repeats=True,
        needed=1,
        movement=Movement.JOIN,
        maps=maps,
        plan=plan,
        shapes=shapes,
        rules=(*parts.FIRST, *rules),
        half=half_records.alias(parts.HALF),
    )
    return record


def cutting(
    name: str,
    maps: Maps,
    shapes: Shapes,
    *inputs: Role,
    options: type[Options] | None = None,
    most_outputs: int = MOST_TENSORS,
) -> Operator:
    """Return the record of an operator whose outputs are parts of an input, as their maps say."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        result = planning.graph.tensor(operation.result)
        found = parts.direct_parts(planning.chip, planning.graph, record, operation.node)
        part = found[operation.node.outputs.index(operation.result)]
        if part is None:
            return _plan_moved_parts(planning, operation, record)
        move = cut(planning.chip, part, whole_channels(result))
        return move_plan(planning, operation, move)

    record = Operator(
        name=name,
        options=options,
        inputs=inputs,
        most_outputs=most_outputs,
        movement=Movement.CUT,
        maps=maps,
        plan=plan,
        shapes=shapes,
        rules=(*parts.FIRST, *parts.CUTS),
        half=half_records.alias(parts.HALF),
    )
    return record


def _source_of(planning: Planning, memory: Memory, operand: int) -> DeviceTensor:
    """Return an operand, a constant among those of the program."""
    tensor = planning.graph.tensor(operand)
    if tensor.constant is None:
        return memory.tensors[operand]
    return constant_operand(planning.chip, tensor, view_of(tensor.shape), memory.constants)


def _plan_moved_parts(planning: Planning, operation: Operation, record: Operator) -> Plan:
    """Plan the elements that the result has in common with each operand, one after the other.
    Raises LoweringError.
    """
    graph, node = planning.graph, operation.node
    found: list[tuple[int, Move]] = []
    given = planning.chip, graph, record, node, (operation.result,)
    for operand, _, move in parts.part_moves(*given, is_known=True):
        if move is None:
            problem = f"it moves {list(graph.tensor(operand).shape)}"
            raise LoweringError(node.index, FORM_IS_KNOWN, problem)
        found.append((operand, move))
    return _moves_plan(planning, operation, found)


def plan_rearranged(
    planning: Planning,
    operation: Operation,
    weights: npt.NDArray[np.int8],
    selection: Selection,
) -> Plan:
    """Plan a dense convolution with ``weights`` (OHWI), 0 but for one of each kernel: every element
    of the result is one of the operand's.
    """
    chip = planning.chip
    outputs, kh, kw, inputs = weights.shape

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterable[Task]:
        wide = np.zeros((target.view.channels, kh, kw, source.view.channels), np.int8)
        wide[:outputs, :, :, :inputs] = weights
        return moving.move(source, target, wide, selection)

    read = chip.groups.dense_lanes(inputs)
    written = chip.groups.surfaces_written(outputs, is_depthwise=False)
    return move_plan(planning, operation, Move(tasks, surfaces_of(read), written))


@dataclass(frozen=True, slots=True)
class BlockOptions(Options):
    """The options that both operators have; each class says its number."""

    block: int = option(FieldKind.INT32, slot=0, offset=0)


def block_of(node: Node, kind: type[BlockOptions]) -> int:
    """Return the rows, and columns, of a block."""
    return node.known_options(kind).block


@constraint(most=most_stride)
def block_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The block must be 1 to {most} pixels high and wide."""
    options = facts.options(node)
    assert isinstance(options, BlockOptions)
    most = most_stride(facts.chip)
    return None if 1 <= options.block <= most else f"it is {options.block}"


@constraint()
def blocks_fit(facts: GraphFacts, node: Node) -> str | None:
    """Pixels, or channels, must be whole blocks, and the output's shape follow."""
    return other_shape(facts, node)


GEOMETRY = (image_rank, block_in_range, blocks_fit)

RULES = of_kept_values(*GEOMETRY)


def task_plan(
    planning: Planning,
    operation: Operation,
    footprint: Footprint,
    tasks: Callable[[Memory, Moving], Iterable[Task]],
) -> Plan:
    """Return the plan of an operation that becomes ``tasks``."""

    def made(memory: Memory) -> Iterable[Task]:
        return tasks(memory, Moving(planning.chip, operation.node, memory.constants))

    return plan_of(planning, operation, footprint, made)


def map_between(chip: Chip, like: DeviceTensor, place: Ref) -> DeviceTensor:
    """A map like ``like`` at ``place``, of as many surfaces as tasks of the DPU touch."""
    touched = surfaces_touched(chip, like.view.channels)
    return replace(like.alone(like.view, place), surfaces=touched)


def move_plan(
    planning: Planning,
    operation: Operation,
    move: Move,
    *,
    by_image: bool = False,
    as_bytes: bool = True,
) -> Plan:
    """Return the plan of ``move`` from the operand to the result, or from every image of the one to
    that of the other if ``by_image``, as the tensors of bytes that they are unless ``as_bytes`` is
    False.
    """
    moves = [(operation.operands[0], move)]
    return _moves_plan(planning, operation, moves, by_image=by_image, as_bytes=as_bytes)


def _moves_plan(
    planning: Planning,
    operation: Operation,
    moves: Sequence[tuple[int, Move]],
    *,
    by_image: bool = False,
    as_bytes: bool = True,
) -> Plan:
    """Return the plan of ``moves``, one after the other, each of an operand; see ``move_plan``."""
    reads: dict[int, int] = {}
    for operand, move in moves:
        if planning.graph.tensor(operand).constant is None:
            reads[operand] = max(move.reads, reads.get(operand, 0))
    footprint = Footprint(
        operation.node,
        tuple(reads.items()),
        operation.result,
        writes=max(move.writes for _, move in moves),
        work_bytes=max(move.work_bytes for _, move in moves),
        surface_pixels=max(move.surface_pixels for _, move in moves),
    )

    def made(memory: Memory, moving: Moving) -> Iterator[Task]:
        for operand, move in moves:
            ends = _source_of(planning, memory, operand), memory.tensors[operation.result]
            source, target = (end.as_bytes for end in ends) if as_bytes else ends
            images = range(source.view.images) if by_image else ()
            pairs = [(source.image(image), target.image(image)) for image in images]
            for pair in pairs or [(source, target)]:
                yield from move.tasks(moving, *pair, memory.work)

    return task_plan(planning, operation, footprint, made)
