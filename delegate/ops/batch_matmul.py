"""BATCH_MATMUL with a constant second operand: a 1x1 convolution whose pixels are the first one's
rows. The matrix is [inputs, outputs], or the other way round where ``adj_y`` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.lower.memory.tensors import View
from delegate.lower.model_weights import device_weights
from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import (
    GraphFacts,
    Operator,
    RangeOf,
    Role,
    Shape,
    constraint,
    named,
)
from delegate.ops.shared import common
from delegate.ops.shared.common import weights_of
from delegate.ops.shared.convolution import ConvolutionOptions, plan_convolution

LEAST_RANK, MOST_RANK = 2, 4
_AS_CONVOLUTION = ConvolutionOptions(Padding.VALID, 1, 1, 1, 1, Activation.NONE)


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
def second_operand_constant(facts: GraphFacts, node: Node) -> str | None:
    """The second operand must be a constant: no task here brings a computed one into the order
    that the hardware fetches weights in.
    """
    matrix = weights_of(facts, node)
    return None if matrix.constant is not None else f"{named(matrix)} is computed while running"


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
    x, y = facts.features(node)
    try:
        (shape,) = shapes(facts.graph, node)
    except ValueError as error:
        return str(error)
    is_wrong = tuple(y.shape) != tuple(shape)
    return f"{list(x.shape)} to {list(y.shape)}, not {list(shape)}" if is_wrong else None


@constraint()
def matrix_has_one_scale(facts: GraphFacts, node: Node) -> str | None:
    """The second operand must have one scale and one zero point."""
    quantization = weights_of(facts, node).quantization
    is_one = quantization is None or not quantization.is_per_channel
    return None if is_one else f"{named(weights_of(facts, node))} has others"


_PRODUCT = (
    product_ranks,
    second_operand_constant,
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
    return plan_convolution(
        planning,
        operation,
        _AS_CONVOLUTION,
        replace(given, values=_filters(graph, node, given.values)),
        output_view=_result(planning, operation),
        scales_in_float32=True,
    )


def half(operator: Operator) -> Operator:
    """The same in fp16."""
    from delegate.ops.shared import half, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        weights = _filters(graph, node, half.constant_values(graph, node.inputs[1]))
        view = _result(planning, operation)
        return half.plan_half_convolution(
            planning, operation, _AS_CONVOLUTION, weights, output_view=view
        )

    def ranges(graph: Graph, node: Node, range_of: RangeOf) -> Any:
        adj_y = node.known_options(BatchMatMulOptions).adj_y
        return half_ranges.of_sums(0, -2 if adj_y else -1)(graph, node, range_of)

    rules = (*half.FIRST, *_PRODUCT, half.float_weights)
    return half.half_record(operator, plan, rules, ranges=ranges)


OPERATOR = Operator(
    name="BATCH_MATMUL",
    options=BatchMatMulOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS),
    shapes=shapes,
    macs=macs,
    plan=plan,
    needs=("convolution",),
    half=half,
    rules=(
        *common.FIRST,
        common.int8_features,
        *_PRODUCT,
        common.weights_type,
        *common.QUANTIZATION,
        matrix_has_one_scale,
    ),
)
