"""BATCH_MATMUL: a 1x1 convolution whose pixels are the first operand's rows. Its weights are the
second one: a constant matrix [inputs, outputs], or the other way round where ``adj_y`` says so; or
computed ones, see ``delegate.lower.matrix_products``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.lower.matrix_products import pairs_of
from delegate.lower.memory.tensors import View
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.weights import device_weights
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import (
    RESULT,
    Ends,
    GraphFacts,
    Operator,
    RangeOf,
    Role,
    Shape,
    constraint,
    named,
)
from delegate.ops.shared import common
from delegate.ops.shared.common import other_shape, weights_of
from delegate.ops.shared.computed_products import (
    Factors,
    computed_record,
    half_computed_record,
)
from delegate.ops.shared.convolution import AS_IT_IS, plan_convolution, resolved

LEAST_RANK, MOST_RANK = 2, 4


@dataclass(frozen=True, slots=True)
class BatchMatMulOptions(Options):
    UNION_TYPE = 101

    adj_x: bool = option(FieldKind.BOOL, slot=0, offset=0)
    adj_y: bool = option(FieldKind.BOOL, slot=1, offset=1)
    asymmetric_quantize_inputs: bool = option(FieldKind.BOOL, slot=2, offset=2)


def _inputs_and_outputs(graph: Graph, node: Node) -> tuple[int, int]:
    rows, columns = graph.tensor(node.inputs[1]).shape[-2:]
    return (columns, rows) if node.known_options(BatchMatMulOptions).adj_y else (rows, columns)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The first operand's rows, of as many numbers as the matrix has outputs."""
    source = graph.tensor(node.inputs[0]).shape
    inputs, outputs = _inputs_and_outputs(graph, node)
    if source[-1] != inputs:
        raise ValueError(f"{list(source)} has no rows of {inputs}")
    return ((*source[:-1], outputs),)


@constraint(least=LEAST_RANK, most=MOST_RANK)
def product_ranks(facts: GraphFacts, node: Node) -> str | None:
    """The first operand must have rank {least} to {most}, the second at least {least} and no
    more than the first.
    """
    x, y = (len(tensor.shape) for tensor in facts.inputs(node))
    return None if LEAST_RANK <= y <= x <= MOST_RANK else f"they have {x} and {y}"


@constraint()
def first_operand_as_it_lies(facts: GraphFacts, node: Node) -> str | None:
    """The first operand must not be transposed (adj_x): its rows must lie as pixels."""
    return "it is" if node.known_options(BatchMatMulOptions).adj_x else None


@constraint()
def one_matrix(facts: GraphFacts, node: Node) -> str | None:
    """The second operand must be one matrix for all batches."""
    matrix = weights_of(facts, node)
    is_one = math.prod(matrix.shape[:-2]) == 1
    return None if is_one else f"{named(matrix)} has the shape {list(matrix.shape)}"


@constraint()
def product_shape_follows(facts: GraphFacts, node: Node) -> str | None:
    """The output's shape must follow from the operands'."""
    return other_shape(facts, node)


@constraint()
def matrix_has_one_scale(facts: GraphFacts, node: Node) -> str | None:
    """The second operand must have one scale and one zero point."""
    quantization = weights_of(facts, node).quantization
    is_one = quantization is None or not quantization.is_per_channel
    return None if is_one else f"{named(weights_of(facts, node))} has others"


def computed_shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Rows of the first operand times columns of the second, for all matrices that meet."""
    factors = _factors(graph, node)
    first, second = (graph.tensor(t).shape[:-2] for t in node.inputs)
    return ((*np.broadcast_shapes(first, second), factors.rows, factors.outputs),)


def _factors(graph: Graph, node: Node) -> Factors:
    """Raises ValueError where the operands do not fit."""
    options = node.known_options(BatchMatMulOptions)
    x, y = (graph.tensor(t).shape for t in node.inputs)
    rows, inputs = x[:-3:-1] if options.adj_x else x[-2:]
    found, outputs = y[:-3:-1] if options.adj_y else y[-2:]
    if found != inputs:
        raise ValueError(f"rows of {inputs} and columns of {found}")
    pairs = pairs_of(x[:-2], y[:-2])
    return Factors(rows, inputs, outputs, pairs, (options.adj_x, not options.adj_y))


@constraint(least=LEAST_RANK, most=MOST_RANK)
def computed_product_ranks(facts: GraphFacts, node: Node) -> str | None:
    """Both operands, neither of them constant, must have rank {least} to {most}."""
    ranks = [len(tensor.shape) for tensor in facts.inputs(node)]
    fits = all(LEAST_RANK <= rank <= MOST_RANK for rank in ranks)
    return None if fits else f"they have {ranks[0]} and {ranks[1]}"


@constraint()
def turned_product_meets_its_own(facts: GraphFacts, node: Node) -> str | None:
    """The leading dimensions must be equal, or all 1, if the first of two computed operands is
    transposed (adj_x): runtimes take the wrong matrices of a second one that is broadcast.
    """
    x, y = (list(tensor.shape[:-2]) for tensor in facts.inputs(node))
    is_one = math.prod(x) == math.prod(y) == 1
    is_alone = not node.known_options(BatchMatMulOptions).adj_x or x == y or is_one
    return None if is_alone else f"they are {x} and {y}"


_PRODUCT = (
    product_ranks,
    first_operand_as_it_lies,
    one_matrix,
    product_shape_follows,
)


def macs(graph: Graph, node: Node) -> int:
    """One per output element and input of the matrix."""
    inputs, _ = _inputs_and_outputs(graph, node)
    return math.prod(graph.tensor(node.outputs[0]).shape) * inputs


def _filters(graph: Graph, node: Node, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The matrix as OHWI filters."""
    matrix = values.reshape(values.shape[-2:])
    if not node.known_options(BatchMatMulOptions).adj_y:
        matrix = matrix.T
    return np.ascontiguousarray(matrix)[:, np.newaxis, np.newaxis, :]


def _result(planning: Planning, operation: Operation) -> View:
    _, outputs = _inputs_and_outputs(planning.graph, operation.node)
    return replace(planning.tensor(operation.operands[0]).elements, channels=outputs)


def plan(planning: Planning, operation: Operation) -> Plan:
    """The kernel multiplies both scales in float32. Raises LoweringError."""
    graph, node = planning.graph, operation.node
    _, outputs = _inputs_and_outputs(graph, node)
    given = device_weights(graph, node, outputs, graph.tensor(node.inputs[1]).shape)
    conv = resolved(
        *(planning, operation, AS_IT_IS),
        replace(given, values=_filters(graph, node, given.values)),
        output_view=_result(planning, operation),
        scales_in_float32=True,
    )
    return plan_convolution(planning, operation, conv)


def exchange(node: Node, place: int) -> Node:
    """Return the product that takes the operand at ``place`` with rows and columns exchanged, or
    gives its result so: the product of both operands, exchanged, in the other order.
    """
    options = node.known_options(BatchMatMulOptions)
    x, y = options.adj_x, options.adj_y
    if place == RESULT:
        turned = replace(options, adj_x=not y, adj_y=not x)
        return replace(node, inputs=node.inputs[::-1], options=turned)
    return replace(node, options=replace(options, adj_x=x != (place == 0), adj_y=y != (place == 1)))


_COMPUTED = (
    computed_product_ranks,
    product_shape_follows,
    turned_product_meets_its_own,
)


def _computed(operator: Operator) -> Operator:
    found = computed_record(operator, _factors, *_COMPUTED)
    return replace(found, shapes=computed_shapes, exchange=exchange)


def _half_computed(operator: Operator) -> Operator:
    found = half_computed_record(operator, _factors, *_COMPUTED)
    return replace(found, shapes=computed_shapes, exchange=exchange)


def half(operator: Operator) -> Operator:
    """The same in fp16."""
    from delegate.ops.shared import half, half_ranges

    def ranges(graph: Graph, node: Node, range_of: RangeOf) -> Ends:
        outputs_axis = -2 if node.known_options(BatchMatMulOptions).adj_y else -1
        return half_ranges.of_sums(0, outputs_axis)(graph, node, range_of)

    rules = (*half.FIRST, *_PRODUCT, half.float_weights)
    found = half.half_record(operator, plan, rules, ranges)
    return replace(found, computed=_half_computed)


OPERATOR = Operator(
    name="BATCH_MATMUL",
    options=BatchMatMulOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS),
    shapes=shapes,
    macs=macs,
    plan=plan,
    half=half,
    computed=_computed,
    rules=(
        *common.FIRST,
        common.int8_features,
        *_PRODUCT,
        common.weights_type,
        common.quantization_in_range,
        matrix_has_one_scale,
    ),
)
