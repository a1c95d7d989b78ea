"""Records of products whose second operand is computed, too: weights that the host packs where
they enter a partition (``delegate.lower.packed_weights``), or, once a board has proved that, that
an earlier task writes (``delegate.lower.matrix_products``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Primitive
from delegate.lower.conv_spec import Convolution
from delegate.lower.legalize import computes_weights
from delegate.lower.matrix_products import packed_product, planned_product
from delegate.lower.memory.tensors import View
from delegate.lower.numerics.pipeline import EwOperation
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.weights import real_ratios
from delegate.model.graph import ABSENT, Graph, Node
from delegate.ops.operator import (
    Constraint,
    Ends,
    GraphFacts,
    Operator,
    RangeOf,
    Role,
)
from delegate.ops.shared import common
from delegate.ops.shared.convolution import AS_IT_IS, convolution_of


class Factors(NamedTuple):
    """``rows`` x ``inputs`` times ``inputs`` x ``outputs``, for each of the result's matrices those
    that ``pairs`` number. ``turned``: the first, and the second operand have the inputs as pixels.
    """

    rows: int
    inputs: int
    outputs: int
    pairs: tuple[tuple[int, int], ...]
    turned: tuple[bool, bool]


FactorsOf = Callable[[Graph, Node], Factors]


def computed_record(operator: Operator, factors_of: FactorsOf, *rules: Constraint) -> Operator:
    """Return the record of ``operator`` for two computed matrices of int8; ``factors_of``: how it
    sees them, and ``rules``: its own, in fp16 as well, see ``half_computed_record``. A bias is
    constant.
    """

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        factors = factors_of(graph, node)
        x, y, output = (graph.tensor(t) for t in (*node.inputs[:2], operation.result))
        rounds_once = operator.follows_runtime and graph.rounds_once
        conv = replace(
            _of_one(planning, operation, operator, factors, np.int64),
            weight_zero_point=planning.tensor(operation.operands[1]).zero_point,
            ratios=real_ratios(x, y, output, factors.outputs, in_float32=not rounds_once),
            rounds_once=rounds_once,
        )
        return _planned(planning, operation, factors, conv)

    def macs(graph: Graph, node: Node) -> int:
        factors = factors_of(graph, node)
        return len(factors.pairs) * factors.rows * factors.inputs * factors.outputs

    behind = (*rules, _ARE_KNOWN, common.quantization_in_range)
    return replace(
        operator,
        inputs=(Role.FEATURE, Role.MATRIX, *operator.inputs[2:]),
        macs=macs,
        plan=plan,
        half=None,
        computed=None,
        of_constants=None,
        is_dear=True,
        rules=(*common.FIRST, common.int8_features, *behind),
    )


def half_computed_record(operator: Operator, factors_of: FactorsOf, *rules: Constraint) -> Operator:
    """Return the record of ``operator`` for two computed matrices in fp16."""
    from delegate.lower.half.stages import sum_bound
    from delegate.ops.shared import half, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        factors = factors_of(planning.graph, operation.node)
        conv = _of_one(planning, operation, operator, factors, np.float32)
        found = _planned(planning, operation, factors, conv)
        groups = -(-factors.inputs // planning.chip.groups.input_lanes)
        return found.within(sum_bound(groups))

    product = half_ranges.of_pair(EwOperation.MULTIPLY)

    def ranges(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        low, high = product(graph, replace(node, inputs=node.inputs[:2]), range_of)
        factors = factors_of(graph, node)
        bias = _bias(graph, node, factors, np.float32)
        return low * factors.inputs + bias.min(), high * factors.inputs + bias.max()

    record = computed_record(operator, factors_of, *rules)
    return half.half_record(record, plan, (*half.FIRST, *rules, _ARE_KNOWN), ranges)


def _bias(
    graph: Graph, node: Node, factors: Factors, kind: type[np.generic]
) -> npt.NDArray[np.generic]:
    for index in node.inputs[2:]:
        constant = None if index == ABSENT else graph.tensor(index).constant
        if constant is not None:
            return constant.reshape(-1).astype(kind)
    return np.zeros(factors.outputs, kind)


def _of_one(
    planning: Planning,
    operation: Operation,
    operator: Operator,
    factors: Factors,
    kind: type[np.generic],
) -> Convolution:
    """One product, with weights of no value and sums in ``kind``."""
    node, result = operation.node, View(1, factors.rows, 1, factors.outputs)
    weights = np.zeros((), np.float16 if kind is np.float32 else np.int8)
    filters = np.broadcast_to(weights, (factors.outputs, 1, 1, factors.inputs))
    bias = _bias(planning.graph, node, factors, kind)
    options = replace(AS_IT_IS, activation=common.activation_of(operator, node))
    conv = convolution_of(planning, operation, options, filters, bias, result)
    return replace(conv, input_view=replace(result, channels=factors.inputs))


def _why_unknown(facts: GraphFacts, node: Node) -> str | None:
    if computes_weights(facts.chip) or Primitive.UNEQUAL_SIDES not in facts.chip.lacks:
        return None
    return f"nobody has run a task of {facts.chip.name} whose weights another one computed"


_ARE_KNOWN: Final = Constraint(FORM_IS_KNOWN.name, FORM_IS_KNOWN.sentence, _why_unknown, {})


def _planned(planning: Planning, operation: Operation, factors: Factors, conv: Convolution) -> Plan:
    """Return the plan with weights that a task writes, where one may, or that the host packs."""
    made = planned_product if computes_weights(planning.chip) else packed_product
    return made(planning, operation, factors.pairs, factors.turned, conv)
