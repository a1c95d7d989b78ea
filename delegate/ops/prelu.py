"""PRELU: a table with one slope, two tasks with several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.binary_elementwise import constant_operand, pair_tasks
from delegate.lower.legalize import exact_product, is_known, ties_away
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import unplaced
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.operation import Memory, Operation, Plan, Planning
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, FORM_IS_KNOWN
from delegate.lower.selection import Moving
from delegate.lower.task import Task, TaskKind
from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Operator, Role, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.fixed_point import (
    UndefinedResultError,
    float32_product,
    multiplier_of,
    multiply,
)
from delegate.ops.shared.functions import plan_function, product_factor, requantized, scale_of
from delegate.ops.shared.moving import map_between, task_plan


@constraint()
def slopes_constant(facts: GraphFacts, node: Node) -> str | None:
    """The slope must be a constant that is broadcast to the input, which is none and has the
    output's shape.
    """
    (feature, slope), output = facts.inputs(node), facts.outputs(node)[0]
    if feature.constant is not None or slope.constant is None:
        return f"{named(slope)} is computed, or the input is constant"
    rank = len(feature.shape)
    is_broadcast = len(slope.shape) <= rank and all(
        size in (1, of) for size, of in zip(slope.shape[::-1], feature.shape[::-1], strict=False)
    )
    if is_broadcast and feature.shape == output.shape:
        return None
    return f"{list(feature.shape)} and {list(slope.shape)} give {list(output.shape)}"


def prelu(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    (_, source_zero), (_, slope_zero) = (scale_of(graph, t) for t in node.inputs)
    target_zero = scale_of(graph, node.outputs[0])[1]
    values = operands[0] - source_zero
    products = np.minimum(values, 0) * (operands[1] - slope_zero)
    below = multiply(products, multiplier_of(product_factor(graph, node))) + target_zero
    return np.where(values >= 0, requantized(graph, node, np.maximum(values, 0)), below)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan PRELU with several slopes, all of which may be the same. Raises LoweringError."""
    graph, node = planning.graph, operation.node
    dtype, slopes = graph.tensor(node.inputs[0]).dtype, graph.tensor(node.inputs[1]).constant
    assert slopes is not None
    used = np.unique(slopes.astype(np.int64))
    alone = replace(operation, operands=operation.operands[:1])
    low, high = TYPE_RANGES[dtype]
    is_above = scale_of(graph, node.inputs[0])[1] == low
    try:
        if used.size > 1 and not is_above:
            return _several(planning, alone, used - dtype.element.offset)
        results = prelu(graph, node, (np.arange(low, high + 1), used[:1]))
    except UndefinedResultError as error:
        raise LoweringError(node.index, ACCUMULATOR_FITS_INT32, str(error)) from None
    table = np.clip(results, low, high) - dtype.element.offset
    return plan_function(planning, alone, table.astype(np.int8).tobytes())


def _several(planning: Planning, operation: Operation, slopes: Values) -> Plan:
    """``slopes``: the constant's values in the device's int8, each once."""
    from delegate.lower.numerics.looked_up import requantize_slopes
    from delegate.lower.numerics.tflite import INT8_VALUES, PairTarget

    graph, node, chip = planning.graph, operation.node, planning.chip
    if not is_known(chip, TaskKind.ALONE, exact_product()):
        raise LoweringError(node.index, FORM_IS_KNOWN, f"the slopes have {slopes.size} values")
    tensors = (*node.inputs, node.outputs[0])
    source, slope, result = (unplaced(graph, tensor) for tensor in tensors)
    offset = graph.tensor(result.index).dtype.element.offset
    every = prelu(graph, node, (INT8_VALUES[:, np.newaxis] + offset, slopes + offset)) - offset
    found = requantize_slopes(
        node.index,
        PairTarget(np.clip(every, INT8_VALUES[0], INT8_VALUES[-1]), slopes),
        (float32_product(source.scale, over=result.scale), product_factor(graph, node)),
        (source.zero_point, slope.zero_point, result.zero_point),
        has_ties_away=ties_away(chip, TaskKind.ALONE, exact_product()),
    )
    return plan_slopes(planning, operation, node.inputs[1], found)


def half(operator: Operator) -> Operator:
    """One slope, or one per channel, in fp16."""
    from delegate.ops.shared.half_maps import constant_slopes, slope_per_channel, slopes_record

    return slopes_record(operator, constant_slopes, (slope_per_channel,))


OPERATOR = Operator(
    name="PRELU",
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=prelu,
    rules=(*common.FIRST, common.quantization_in_range, common.rank_in_range, slopes_constant),
    half=half,
)


def plan_slopes(
    planning: Planning, operation: Operation, slopes: int, pipelines: tuple[Pipeline, Pipeline]
) -> Plan:
    """Return the plan of the ``pipelines`` below and above. ``operation`` has the input as its only
    operand, ``slopes`` is the constant.
    """
    below, above = pipelines
    chip, (source,), result = planning.chip, operation.operands, operation.result
    given = planning.tensor(result)
    room = map_between(chip, given, given.location)
    footprint = Footprint(
        operation.node,
        ((source, room.surfaces),),
        result,
        room.surfaces,
        work_bytes=room.size_bytes,
    )

    def tasks(memory: Memory, _: Moving) -> Iterable[Task]:
        main, target = memory.tensors[source], memory.tensors[result]
        constant = planning.graph.tensor(slopes)
        operand = constant_operand(chip, constant, target.view, memory.constants)
        between = map_between(chip, target, memory.work)
        yield from pair_tasks(chip, (main, operand), between, below)
        yield from pair_tasks(chip, (main, between), target, above)

    return task_plan(planning, operation, footprint, tasks)
