"""Operators that are functions of one value: what their records share.

A function of an 8-bit value has 256 results. They are computed by the operator's own integer
arithmetic and looked up by the DPU, so the NPU gives what the reference kernels give. Several
operators in a row, or one of a value and a function of that value, are one function again.

Functions of float32 as the kernels call them: those of this machine's C library, whose last bit
is its own. A result of 8 bits that lies on a tie depends on that bit.

Inputs that are numbers of rows of a table: ids of words for an embedding.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import view_of
from delegate.lower.numerics import tflite
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.tables import function_tasks
from delegate.lower.task import Task
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
    """Return scale and zero point, the latter as the runtime has it."""
    quantization = graph.tensor(tensor).quantization
    assert quantization is not None
    return quantization.scale, quantization.zero_point


def scales_of(graph: Graph, node: Node) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return scale and zero point of the first input, and those of the output."""
    return scale_of(graph, node.inputs[0]), scale_of(graph, node.outputs[0])


def quantizations_of(graph: Graph, node: Node) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the scales, and the zero points, of all inputs and the output."""
    found = [scale_of(graph, tensor) for tensor in (*node.inputs, *node.outputs)]
    return tuple(scale for scale, _ in found), tuple(zero_point for _, zero_point in found)


def product_factor(graph: Graph, node: Node) -> float:
    """Return the factor from a product of both inputs, without zero points, to the output."""
    first, second, result = (scale_of(graph, t)[0] for t in (*node.inputs, node.outputs[0]))
    return float32_product(first, second, over=result)


_BOUNDS = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def activated(graph: Graph, node: Node, results: Values, activation: Activation) -> Values:
    """Return results within the bounds of a fused activation."""
    return bounded(graph, node, results, *_BOUNDS[activation])


def bounded(
    graph: Graph, node: Node, results: Values, low: float | None, high: float | None
) -> Values:
    """Return results no less than ``low`` and no more than ``high`` in units of the output, in
    float32.
    """
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
    """Return the results of an operator that the kernels look up in a table made in float32."""

    def results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        return float_table(operands[0], *scales_of(graph, node), function)

    return results


def requantized(graph: Graph, node: Node, values: Values) -> Values:
    """Return values without zero point in units of the input, as values of the output, in the way
    of operators that divide the scales as float32.
    """
    (source, _), (target, zero_point) = scales_of(graph, node)
    return multiply(values, multiplier_of(float32_product(source, over=target))) + zero_point


def weighted_sum(
    graph: Graph, node: Node, operands: Sequence[Values], signs: tuple[int, int]
) -> Values:
    """Return the sum of both operands, or their difference. Not bounded by the activation."""
    scales, zero_points = quantizations_of(graph, node)
    return tflite.weighted_sum(operands, scales, zero_points, signs) + zero_points[2]


def clamped_function(low: float, high: float | None) -> Function:
    """Return the results of a RELU: requantised, from ``low`` to ``high``."""

    def results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
        values = operands[0] - scale_of(graph, node.inputs[0])[1]
        return bounded(graph, node, requantized(graph, node, values), low, high)

    return results


RULES = (*common.FIRST, common.quantization_in_range, common.rank_in_range, same_shapes)
"""The rules of an operator with one feature map."""


def plan_function(planning: Planning, operation: Operation, function: bytes) -> Plan:
    """Return the plan of ``function``: its results for -128 to 127 of the operand, as int8."""
    source, result = operation.operands[0], operation.result
    view = view_of(planning.graph.tensor(result).shape)
    touched = surfaces_touched(planning.chip, view.channels)
    reads = ((source, touched),)
    footprint = Footprint(operation.node, reads, result, touched, byte_by_byte=True)

    def tasks(memory: Memory) -> Iterable[Task]:
        given, made = memory.tensors[source], memory.tensors[result]
        return function_tasks(planning.chip, given, made, function)

    plan = plan_of(planning, operation, footprint, tasks)
    return replace(plan, results=np.frombuffer(function, np.int8).astype(np.int64))


_LIBRARY = "libm.so.6"
"""glibc's; where it is not, what this process has loaded anyway."""


@functools.cache
def _function(name: str) -> Callable[[float], float]:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        library = ctypes.CDLL(None)
    found = library[name]
    found.argtypes, found.restype = [ctypes.c_float], ctypes.c_float
    return found


def exp(value: float) -> float:
    """Return e to a power, infinite where no float32 holds the result."""
    return _function("expf")(value)


def log(value: float) -> float:
    """Return the natural logarithm; of 0 and less what C says, which is no number of float32."""
    return _function("logf")(value)


def cos(value: float) -> float:
    """Return the cosine."""
    return _function("cosf")(value)


def sin(value: float) -> float:
    """Return the sine."""
    return _function("sinf")(value)


def each(function: Callable[[float], float], values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return ``function`` of every element, in float32."""
    found = [function(float(value)) for value in values.ravel()]
    return np.array(found, np.float32).reshape(values.shape)


def expm1(value: float) -> float:
    """Return e to a power less 1."""
    return _function("expm1f")(value)


def tanh(value: float) -> float:
    """Return the hyperbolic tangent."""
    return _function("tanhf")(value)


def erfc(value: float) -> float:
    """Return 1 less the error function."""
    return _function("erfcf")(value)


_READS: Final = MappingProxyType({"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)})
"""The inputs of each operator that are the table, and that name rows of it."""
_KEEPS: Final = ("CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE")
"""Operators that hand numbers on as they are."""


def table_rows(graph: Graph) -> dict[int, int]:
    """Return the rows of the table that an input of ``graph`` names rows of, by the input's tensor:
    of the smallest, where there are several.
    """
    found: dict[int, int] = {}
    for node in reversed(graph.nodes):
        if node.op in _READS and len(node.inputs) == len(_READS[node.op]):
            table, ids = (node.inputs[position] for position in _READS[node.op])
            rows = graph.tensor(table).shape[:1]
        elif node.op in _KEEPS and node.outputs[0] in found:
            ids, rows = node.inputs[0], (found[node.outputs[0]],)
        else:
            continue
        if rows:
            found[ids] = min(rows[0], found.get(ids, rows[0]))
    return {index: found[index] for index in graph.inputs if index in found}
