"""MUL: of two feature maps, or one and a constant, in the DPU; a function of one value, as SiLU is,
is a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegate.lower.legalize import exact_product, is_known, ties_away
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.multiplication import requantize_product
from delegate.lower.numerics.pipeline import INT8_MAX, INT8_MIN, EwOperation, Pipeline
from delegate.lower.numerics.tflite import activation_range
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.tables import clamped_behind
from delegate.lower.task import TaskKind
from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Operator, Role, Values
from delegate.ops.shared import half_records
from delegate.ops.shared.fixed_point import multiplier_of, multiply
from delegate.ops.shared.functions import activated, product_factor, scale_of
from delegate.ops.shared.two_values import RULES, plan_pair


@dataclass(frozen=True, slots=True)
class MulOptions(Options):
    UNION_TYPE = 21

    activation: Activation = option(FieldKind.ACTIVATION, slot=0, offset=0)


def plan(planning: Planning, operation: Operation) -> Plan:
    graph, node, chip = planning.graph, operation.node, planning.chip
    result = planning.tensor(operation.result)
    activation = node.known_options(MulOptions).activation
    ends = activation_range(activation, result.scale, result.zero_point)
    is_one = is_known(chip, TaskKind.ALONE, exact_product())

    def requantize(
        operands: Sequence[DeviceTensor], target: DeviceTensor, is_swapped: bool
    ) -> Pipeline:
        main, other = operands
        return requantize_product(
            node.index,
            product_factor(graph, node),
            (main.zero_point, other.zero_point, target.zero_point),
            ends if is_one else (INT8_MIN, INT8_MAX),
            has_ties_away=ties_away(chip, TaskKind.ALONE, exact_product()),
            rounds_in_bn=is_one,
        ).pipeline

    found = plan_pair(planning, operation, requantize)
    return found if is_one else clamped_behind(planning, found, ends)


def product(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    options = node.known_options(MulOptions)
    zero_points = [scale_of(graph, t)[1] for t in (*node.inputs, node.outputs[0])]
    factors = (operands[0] - zero_points[0]) * (operands[1] - zero_points[1])
    multiplier = multiplier_of(product_factor(graph, node))
    return activated(
        graph, node, multiply(factors, multiplier) + zero_points[2], options.activation
    )


OPERATOR = Operator(
    name="MUL",
    options=MulOptions,
    inputs=(Role.OPERAND, Role.OPERAND),
    plan=plan,
    function=product,
    rules=RULES,
    half=half_records.pair(EwOperation.MULTIPLY),
)
