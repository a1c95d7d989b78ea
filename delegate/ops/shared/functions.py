"""Operators that are functions of one value: what their records share.

A function of an 8-bit value has 256 results. They are computed by the operator's own integer
arithmetic and looked up by the DPU, so the NPU gives what the reference kernels give. Several
operators in a row, or one of a value and a function of that value, are one function again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics.pipeline import Int64Array
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.tables import table_tasks
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Activation, Graph, Node
from delegate.ops.operator import Function, GraphFacts, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import TYPE_RANGES
from delegate.ops.shared.fixed_point import (
    INT32_MAX,
    UndefinedResultError,
    float32_product,
    float_table,
    multiplier_of,
    multiply,
    round_half_away,
)
from delegate.ops.shared.image_rules import rank_in_range


@constraint()
def same_shapes(facts: GraphFacts, node: Node) -> str | None:
    """Every operand must have the output's shape or be a constant of one value."""
    output = facts.outputs(node)[0]
    for tensor in facts.features(node)[:-1]:
        is_one = tensor.constant is not None and tensor.constant.size == 1
        if not is_one and tensor.shape != output.shape:
            return f"{named(tensor)} is {list(tensor.shape)}, the output {list(output.shape)}"
    return None


def scale_of(graph: Graph, tensor: int) -> tuple[float, int]:
    """Scale and zero point, the latter as the runtime has it."""
    quantization = graph.tensor(tensor).quantization
    assert quantization is not None
    return quantization.scale, quantization.zero_point


def scales_of(graph: Graph, node: Node) -> tuple[tuple[float, int], tuple[float, int]]:
    """Those of the first input, and those of the output."""
    return scale_of(graph, node.inputs[0]), scale_of(graph, node.outputs[0])


def product_factor(graph: Graph, node: Node) -> float:
    """From a product of both inputs, without zero points, to the output."""
    first, second, result = (scale_of(graph, t)[0] for t in (*node.inputs, node.outputs[0]))
    return float32_product(first, second, over=result)


_BOUNDS = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def activated(graph: Graph, node: Node, results: Values, activation: Activation) -> Values:
    """Results within the bounds of a fused activation."""
    return bounded(graph, node, results, *_BOUNDS[activation])


def bounded(
    graph: Graph, node: Node, results: Values, low: float | None, high: float | None
) -> Values:
    """Results no less than ``low`` and no more than ``high`` in units of the output, in float32."""
    scale, zero_point = scale_of(graph, node.outputs[0])
    lowest, highest = TYPE_RANGES[graph.tensor(node.outputs[0]).dtype]
    if low is not None:
        lowest = max(lowest, zero_point + _quantized(low, scale))
    if high is not None:
        highest = min(highest, zero_point + _quantized(high, scale))
    return np.minimum(np.maximum(results, lowest), highest)


def _quantized(value: float, scale: float) -> int:
    steps = round_half_away(np.array(np.float32(value) / np.float32(scale)))
    if not abs(steps) <= INT32_MAX:
        raise UndefinedResultError(f"{value} is no int32 in units of the output's scale {scale}")
    return int(steps)


def float_function(function: Callable[[float], float]) -> Function:
    """Of an operator that the kernels run through a table of their own, made in float32."""

    def results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        return float_table(operands[0], *scales_of(graph, node), function)

    return results


def requantized(graph: Graph, node: Node, values: Values) -> Values:
    """Values without zero point in units of the input, as values of the output, in the way of
    operators that divide the scales as float32.
    """
    (source, _), (target, zero_point) = scales_of(graph, node)
    return multiply(values, multiplier_of(float32_product(source, over=target))) + zero_point


SUM_BITS = 20
"""Bits that the kernels of sums give both operands below the unit."""


def weighted_sum(
    graph: Graph, node: Node, operands: Sequence[Values], signs: tuple[int, int]
) -> Values:
    """Both operands in units of twice the larger scale, with 20 bits more; then their sum, or
    difference, in units of the output. Not bounded by the activation.
    """
    scales = [scale_of(graph, t) for t in node.inputs]
    twice = 2 * max(scale for scale, _ in scales)
    total = np.zeros((), np.int64)
    for values, (scale, zero_point), sign in zip(operands, scales, signs, strict=True):
        wide = (values - zero_point) << SUM_BITS
        total = total + sign * multiply(wide, multiplier_of(scale / twice))
    scale, zero_point = scale_of(graph, node.outputs[0])
    return multiply(total, multiplier_of(twice / ((1 << SUM_BITS) * scale))) + zero_point


def clamped_function(low: float, high: float | None) -> Function:
    """Of a RELU: requantised, and no less than ``low`` and no more than ``high``."""

    def results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        values = operands[0] - scale_of(graph, node.inputs[0])[1]
        return bounded(graph, node, requantized(graph, node, values), low, high)

    return results


RULES = (*common.FIRST, *common.QUANTIZATION, rank_in_range, same_shapes)
"""Of an operator with one feature map."""


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """``function``: the results for -128 to 127 of the operation's operand, as int8."""

    planning: Planning
    operation: Operation
    function: bytes

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        view = view_of(self.planning.graph.tensor(operation.result).shape)
        touched = surfaces_touched(self.planning.chip, view.channels)
        reads = ((operation.operands[0], touched),)
        return Footprint(operation.node, reads, operation.result, touched, byte_by_byte=True)

    @property
    def results(self) -> Int64Array:
        """The function's results, as int8, for -128 to 127."""
        return np.frombuffer(self.function, np.int8).astype(np.int64)

    def lower(self, memory: Memory) -> Layer:
        operation = self.operation
        source, target = (memory.tensors[t] for t in (operation.operands[0], operation.result))
        tasks = table_tasks(self.planning.chip, source, target, self.function)
        return layer_of(self.planning, operation, tasks)
