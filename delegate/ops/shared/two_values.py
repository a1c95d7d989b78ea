"""Operators of two feature maps, or one and a constant: what their records share.

Two 8-bit operands make 65,536 pairs. The stages are chosen from the quantisation alone, and proved
for every pair when the node is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.lower.binary_elementwise import (
    Requantize,
    broadcast,
    known_repeats,
    met_views,
    pair_operands,
    pair_tasks,
    repeats,
    whole_constant,
    with_broadcast,
)
from delegate.lower.legalize import is_known, pair, ties_away
from delegate.lower.lowered import Layer
from delegate.lower.max_pool_sums import max_via_add
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, view_of
from delegate.lower.numerics.addition import requantize_sum
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, Ew, EwOperation, Pipeline
from delegate.lower.numerics.tflite import SUM_BITS, activation_range
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.selection import map_bytes
from delegate.lower.tables import clamped_behind
from delegate.lower.task import ElementwiseTask, Task, TaskKind
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Activation, Graph, Node, Tensor
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared import common, half_records
from delegate.ops.shared.functions import activated, weighted_sum
from delegate.ops.shared.image_rules import RANK


@dataclass(frozen=True, slots=True)
class SumOptions(Options):
    """The options of ADD and SUB."""

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


@constraint(most=MOST_TASKS)
def operands_broadcast(facts: GraphFacts, node: Node) -> str | None:
    """Operands must broadcast to the output's shape, computed pixels by at most {most}
    convolutions.
    """
    output, operands = facts.outputs(node)[0], facts.inputs(node)
    if all(tensor.shape == output.shape for tensor in operands):
        return None
    operands = [t if t.constant is None else whole_constant(t, output) for t in operands]
    if not _broadcast_as_seen(operands, output):
        return ", ".join(str(list(tensor.shape)) for tensor in (*operands, output))
    computed = [t for t in operands if t.constant is None]
    views = [view_of(t.shape) for t in computed]
    met = met_views(facts.chip, views, view_of(output.shape))
    for tensor, view, wanted in zip(computed, views, met, strict=True):
        stretched = replace(view, channels=wanted.channels)
        if stretched != wanted and repeats(facts.chip, stretched, wanted) is None:
            return f"{named(tensor)} is {list(tensor.shape)}, {named(output)} {list(output.shape)}"
    return None


def _broadcast_as_seen(operands: Iterable[Tensor], output: Tensor) -> bool:
    """Return whether operands broadcast to the output's shape, and so do the four dimensions that
    the device sees of each.
    """
    shapes = [tensor.shape for tensor in (*operands, output)]
    rank = max(RANK, *map(len, shapes))
    wide = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    views = [view_of(shape) for shape in shapes]
    if views != [view_of(shape) for shape in wide]:
        return False
    try:
        *given, whole = zip(wide, map(astuple, views), strict=True)
        return all(
            np.broadcast_shapes(*some) == end
            for some, end in zip(zip(*given, strict=True), whole, strict=True)
        )
    except ValueError:
        return False


RULES = (
    *common.FIRST,
    common.quantization_in_range,
    common.rank_in_range,
    operands_broadcast,
)


@constraint()
def sum_scales_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The output's scale must be above 2^-19 of the larger operand's, where the runtime's kernels
    abort.
    """
    tensors = (*facts.inputs(node), facts.outputs(node)[0])
    *scales, output = (np.float32(t.quantization.scale) for t in tensors if t.quantization)
    with np.errstate(over="ignore"):
        factor = float(np.float32(2) * max(scales)) / float(np.float32(1 << SUM_BITS) * output)
    return None if 0 < factor < 1 else f"they are {scales[0]:g}, {scales[1]:g} and {output:g}"


def pair_footprint(planning: Planning, operation: Operation) -> Footprint:
    """Return the footprint of tasks that read two operands, of which one may be constant. Raises
    LoweringError.
    """
    graph, chip, node = planning.graph, planning.chip, operation.node
    output = planning.tensor(operation.result).view
    computed = dict.fromkeys(t for t in operation.operands if graph.tensor(t).constant is None)
    tensors = [planning.tensor(t) for t in computed]
    reads, work = [], 0
    views = met_views(chip, [tensor.view for tensor in tensors], output)
    for tensor, view in zip(tensors, views, strict=True):
        surfaces = surfaces_touched(chip, tensor.view.channels)
        if tensor.view != view:
            made = broadcast(chip, node, tensor, view, tensor.location)
            work += sum(one.size_bytes for one in made)
            if tensor.view.channels == view.channels:
                surfaces = known_repeats(chip, node, tensor.view, view).reads
        reads.append((tensor.index, surfaces))
    written = surfaces_touched(chip, output.channels)
    return Footprint(node, tuple(reads), operation.result, written, work_bytes=work)


def plan_pair(planning: Planning, operation: Operation, requantize: Requantize) -> Plan:
    """Return the plan of two operands, from which ``requantize`` gives the stages."""

    chip, graph, node = planning.chip, planning.graph, operation.node
    footprint = pair_footprint(planning, operation)

    def tasks(memory: Memory) -> Iterable[Task]:
        before: tuple[Task, ...] = ()
        target, tensors = memory.tensors[operation.result], memory.tensors
        if footprint.work_bytes:
            before, tensors = with_broadcast(chip, node, target.view, memory, memory.work)
        operands = pair_operands(chip, graph, node, tensors, target.view, memory.constants)
        pipeline = requantize(operands, target, operands[0].index != node.inputs[0])
        return (*before, *pair_tasks(chip, operands, target, pipeline))

    return plan_of(planning, operation, footprint, tasks)


def _via_add(planning: Planning, operation: Operation, pair: Plan) -> Plan:
    """Return the plan of a maximum or minimum where EW is only known to add."""
    view = view_of(planning.graph.tensor(operation.result).shape)
    room = map_bytes(planning.chip, view.pixels, view.channels)

    def emit(memory: Memory) -> Layer:
        work = memory.work
        layer = pair.emit(replace(memory, work=work.moved(room)))
        tasks: list[Task] = []
        for task in layer.tasks:
            if isinstance(task, ElementwiseTask):
                tasks += max_via_add(task, work)
            else:
                tasks.append(task)
        return replace(layer, tasks=tuple(tasks))

    footprint = pair.footprint
    return Plan(operation, replace(footprint, work_bytes=room + footprint.work_bytes), emit)


def extremum(
    name: str, which: EwOperation, function: Callable[..., npt.NDArray[np.int64]]
) -> Operator:
    """Return the record of MAX or MIN of the raw values, as the kernels take it, unscaled."""

    def requantize(_: Sequence[DeviceTensor], __: DeviceTensor, ___: bool) -> Pipeline:
        return Pipeline(ew=Ew(which))

    def plan(planning: Planning, operation: Operation) -> Plan:
        found = plan_pair(planning, operation, requantize)
        known = is_known(planning.chip, TaskKind.ALONE, pair(which))
        return found if known else _via_add(planning, operation, found)

    return Operator(
        name=name,
        inputs=(Role.OPERAND, Role.OPERAND),
        plan=plan,
        function=lambda graph, node, operands: function(*operands),
        rules=RULES,
        half=half_records.pair(which),
    )


def _summands(planning: Planning, operation: Operation, activation: Activation) -> tuple[int, ...]:
    """Return the operands if nothing but their values is added, pixel by pixel."""
    graph, result = planning.graph, planning.tensor(operation.result)
    if activation_range(activation, result.scale, result.zero_point) != (INT8_MIN, INT8_MAX):
        return ()
    is_plain = all(
        graph.tensor(t).constant is None and planning.tensor(t).view == result.view
        for t in operation.operands
    )
    return operation.operands if is_plain and len(set(operation.operands)) > 1 else ()


def weighted(
    name: str, options: type[SumOptions], which: EwOperation, signs: tuple[int, int]
) -> Operator:
    """Return the record of ADD or SUB, whose operands count with ``signs``."""

    def plan(planning: Planning, operation: Operation) -> Plan:
        node, chip, result = operation.node, planning.chip, planning.tensor(operation.result)
        activation = node.known_options(options).activation
        is_pixel = any(planning.tensor(t).view.pixels == 1 for t in operation.operands)
        is_per_channel = is_pixel and result.view.pixels > 1
        clamps = pair(EwOperation.ADD, relu=True, per_channel=is_per_channel)
        is_one = is_known(chip, TaskKind.ALONE, clamps)

        def requantize(
            operands: Sequence[DeviceTensor], target: DeviceTensor, is_swapped: bool
        ) -> Pipeline:
            main, other = operands
            return requantize_sum(
                node.index,
                (main.scale, other.scale, target.scale),
                (main.zero_point, other.zero_point, target.zero_point),
                activation if is_one else Activation.NONE,
                (signs[1], signs[0]) if is_swapped else signs,
                has_ties_away=ties_away(chip, TaskKind.ALONE, pair(EwOperation.ADD)),
            ).pipeline

        found = plan_pair(planning, operation, requantize)
        if not is_one:
            ends = activation_range(activation, result.scale, result.zero_point)
            found = clamped_behind(planning, found, ends)
        summands = _summands(planning, operation, activation) if signs == (1, 1) else ()
        return replace(found, summands=summands)

    def function(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        """Return what the kernels give for a value with a constant or a function of it."""
        total = weighted_sum(graph, node, operands, signs)
        return activated(graph, node, total, node.known_options(options).activation)

    return Operator(
        name=name,
        options=options,
        inputs=(Role.OPERAND, Role.OPERAND),
        plan=plan,
        function=function,
        rules=(*RULES, sum_scales_in_range),
        half=half_records.pair(which),
    )
