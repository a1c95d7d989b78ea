"""SQUARED_DIFFERENCE of int8: of two feature maps, or one and a constant, distances whose squares
are a table; a function of one value is a table alone. In fp16 a difference and a product.

How SQUARED_DIFFERENCE of two values becomes tasks: see ``delegate.lower.numerics.squares``.

Two differences, the larger one, a table: the first three lie in a work area, none in the result's
place, where the check of memory would take it for the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.binary_elementwise import pair_operands, pair_tasks, with_broadcast
from delegate.lower.legalize import is_known, pair, ties_away
from delegate.lower.lowered import Layer
from delegate.lower.memory.tensors import unplaced
from delegate.lower.numerics import tflite
from delegate.lower.numerics.pipeline import Difference, Ew, EwOperation, Pipeline
from delegate.lower.numerics.prover import Proof
from delegate.lower.numerics.squares import Stages, requantize_squares
from delegate.lower.numerics.tflite import SQUARE_BITS
from delegate.lower.operation import Memory, Operation, Plan, Planning, layer_of
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, FORM_IS_KNOWN
from delegate.lower.tables import function_tasks
from delegate.lower.task import TaskKind
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records, two_values
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.ops.shared.functions import quantizations_of
from delegate.ops.shared.moving import map_between
from delegate.ops.shared.two_values import pair_footprint


def _check_factor(scales: Sequence[float]) -> None:
    """Raise UndefinedResultError where the factor from a squared difference, in units of twice the
    larger scale with the kernel's bits below it, to the result is none of the kernel's.
    """
    twice = 2.0 * max(scales[:2])
    with np.errstate(over="ignore"):
        units = float(np.float32(1 << (2 * SQUARE_BITS)) * np.float32(scales[2]))
    factor = twice * twice / units
    if not 0 < factor < 1:
        problem = f"the kernel asks for a factor below 1 and above 0, which is {factor:.6g}"
        raise UndefinedResultError(problem)


def squared_difference(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    scales, zero_points = quantizations_of(graph, node)
    _check_factor(scales)
    return tflite.squared_difference(operands, scales, zero_points) + zero_points[2]


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    from delegate.lower.legalize import pair
    from delegate.ops.squared_difference import plan_squares

    node, chip = operation.node, planning.chip
    if not is_known(chip, TaskKind.ALONE, pair(EwOperation.MAX)):
        problem = f"no known program of {chip.name} has the larger of two maps, as distances need"
        raise LoweringError(node.index, FORM_IS_KNOWN, problem)
    try:
        _check_factor(quantizations_of(planning.graph, node)[0])
    except UndefinedResultError as error:
        raise LoweringError(node.index, ACCUMULATOR_FITS_INT32, str(error)) from None
    return plan_squares(planning, operation)


OPERATOR = Operator(
    name="SQUARED_DIFFERENCE",
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=squared_difference,
    rules=(*two_values.RULES, int8_features),
    half=half_records.squares,
)


_PAIRS = 1 << 16
_MAPS = 3
"""The number of maps in the work area."""


def plan_squares(planning: Planning, operation: Operation) -> Plan:
    """Return the plan of all tasks, which read the operands in either order."""
    chip, graph, node = planning.chip, planning.graph, operation.node
    result = planning.tensor(operation.result)
    room = map_between(chip, result, result.location).size_bytes

    def emit(memory: Memory) -> Layer:
        target, work = memory.tensors[operation.result], memory.work
        *places, behind = (work.moved(number * room) for number in range(_MAPS + 1))
        before, tensors = with_broadcast(chip, node, target.view, memory, behind)
        operands = pair_operands(chip, graph, node, tensors, target.view, memory.constants)
        order = operands[0].index, operands[1].index
        (above, below, function), proof = _stages(planning, operation, order)
        over, under, larger = (map_between(chip, target, place) for place in places)
        tasks = (
            *before,
            *pair_tasks(chip, operands, over, above),
            *pair_tasks(chip, operands, under, below),
            *pair_tasks(chip, (over, under), larger, Pipeline(ew=Ew(EwOperation.MAX))),
            *function_tasks(chip, larger, target, function),
        )
        layer = layer_of(planning, operation, tasks)
        share = int(proof.wrong[0]) / _PAIRS
        return replace(layer, told=partial(Difference, 1, share)) if share else layer

    footprint = pair_footprint(planning, operation)
    work_bytes = _MAPS * room + footprint.work_bytes
    return Plan(operation, replace(footprint, work_bytes=work_bytes), emit)


def _stages(planning: Planning, operation: Operation, order: Sequence[int]) -> tuple[Stages, Proof]:
    """``order``: the operands, the one that MRDMA reads first."""
    chip = planning.chip
    first, second, result = (unplaced(planning.graph, t) for t in (*order, operation.result))
    return requantize_squares(
        operation.node.index,
        (first.scale, second.scale, result.scale),
        (first.zero_point, second.zero_point, result.zero_point),
        has_ties_away=ties_away(chip, TaskKind.ALONE, pair(EwOperation.ADD)),
    )
