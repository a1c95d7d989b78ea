"""SQUARED_DIFFERENCE of int8: of two feature maps, or one and a constant, distances whose squares
are a table; a function of one value is a table alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delegate.errors import LoweringError
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.rules import ACCUMULATOR_FITS_INT32, FORM_IS_KNOWN
from delegate.lower.task import TaskKind
from delegate.model.graph import Graph, Node
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import two_values
from delegate.ops.shared.common import int8_features
from delegate.ops.shared.fixed_point import UndefinedResultError, multiplier_of, multiply
from delegate.ops.shared.functions import scale_of

_BITS = 7
"""The bits that the kernel gives values below the unit."""


def _factor(scales: Sequence[float]) -> float:
    """Return the factor from a squared difference, in units of half the larger scale with the
    kernel's bits below it, to the result.
    """
    twice = 2.0 * max(scales[:2])
    with np.errstate(over="ignore"):
        units = float(np.float32(1 << (2 * _BITS)) * np.float32(scales[2]))
    factor = twice * twice / units
    if not 0 < factor < 1:
        problem = f"the kernel asks for a factor below 1 and above 0, which is {factor:.6g}"
        raise UndefinedResultError(problem)
    return factor


def squared_difference(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    (*sources, (scale, zero_point)) = (scale_of(graph, t) for t in (*node.inputs, *node.outputs))
    scales = [source for source, _ in sources]
    twice = 2.0 * max(scales)
    first, second = (
        multiply((values - zero) << _BITS, multiplier_of(source / twice))
        for values, (source, zero) in zip(operands, sources, strict=True)
    )
    squares = np.square(first - second)
    return multiply(squares, multiplier_of(_factor([*scales, scale]))) + zero_point


def plan(planning: Planning, operation: Operation) -> Plan:
    """Raises LoweringError."""
    from delegate.lower.known_stages import is_known, pair
    from delegate.ops.shared.squares import SquaresPlan

    node, chip = operation.node, planning.chip
    if not is_known(chip, TaskKind.ALONE, pair(EwOperation.MAX)):
        problem = f"no known program of {chip.name} has the larger of two maps, as distances need"
        raise LoweringError(node.index, FORM_IS_KNOWN, problem)
    tensors = (*node.inputs, *node.outputs)
    try:
        _factor([scale_of(planning.graph, tensor)[0] for tensor in tensors])
    except UndefinedResultError as error:
        raise LoweringError(node.index, ACCUMULATOR_FITS_INT32, str(error)) from None
    return SquaresPlan(planning, operation)


OPERATOR = Operator(
    name="SQUARED_DIFFERENCE",
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=squared_difference,
    rules=(*two_values.RULES, int8_features),
)
