"""Compute nodes of 8 bits whose operands are all constants, as recurrent layers compute from their
first state, and the masks of shifted windows: what they give is a constant, see ``Graph.folded``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import ABSENT, Activation, DType, Graph, Node, Tensor, read_only
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, Operator
from delegate.ops.shared.common import FEATURE_TYPES, TYPE_RANGES, activation_of
from delegate.ops.shared.fixed_point import UndefinedResultError, multiplier_of, multiply
from delegate.ops.shared.maps import moved

Results = Mapping[int, npt.NDArray[Any]]

_MOST_VALUES: Final = 1 << 22
"""The most elements of a result: masks and states have far fewer, and files may ask for any."""
_BITS_BELOW: Final = 8
"""The bits below the unit with which the kernels compare."""
_KINDS: Final = {*FEATURE_TYPES, DType.FLOAT32}
"""The types of maps, and of masks."""
_FINITE: Final = np.finfo(np.float32).min, np.finfo(np.float32).max
_OF_TASKS: Final = ("features_computed", "operands_broadcast")
"""Rules that only tasks need."""


def constant_results(facts: GraphFacts, node: Node) -> Results:
    """Return the results of ``node`` by tensor, equal to the reference kernels'; none where an
    operand is no constant, or what they compute is not known.
    """
    tensors = [facts.graph.tensor(t) for t in node.inputs if t != ABSENT]
    results = [facts.graph.tensor(t) for t in node.outputs if t != ABSENT]
    if not results or any(tensor.constant is None for tensor in tensors):
        return {}
    if any(math.prod(tensor.shape) > _MOST_VALUES for tensor in results):
        return {}
    operator, choose = OPERATORS.get(node.op), _CHOICES.get(node.op)
    is_plain = operator is None or activation_of(operator, node) is Activation.NONE
    chosen = choose(tensors, results[0]) if choose is not None and is_plain else None
    if chosen is not None:
        return {node.outputs[0]: read_only(chosen)}
    if operator is None:
        return {}
    read = [facts.graph.tensor(t) for t in operator.feature_inputs(node)]
    kinds = {tensor.dtype for tensor in (*read, *results)}
    if operator.maps is not None and kinds <= _KINDS:
        return _moved(facts.graph, node, operator)
    if not kinds.issubset(FEATURE_TYPES):
        return {}
    if operator.of_constants is None and operator.function is None:
        return {}
    rules = (rule for rule in operator.rules if rule.name not in _OF_TASKS)
    if any(rule.check(facts, node) is not None for rule in rules):
        return {}
    if operator.of_constants is not None:
        found = operator.of_constants(facts.graph, node)
        return {} if found is None else {node.outputs[0]: found}
    return _of_function(facts.graph, node, operator)


def _of_function(graph: Graph, node: Node, operator: Operator) -> Results:
    result = graph.tensor(node.outputs[0])
    operands = [graph.tensor(t).constant for t in operator.feature_inputs(node)]
    given = [values.astype(np.int64) for values in operands if values is not None]
    assert operator.function is not None
    try:
        found = np.clip(operator.function(graph, node, given), *TYPE_RANGES[result.dtype])
    except (UndefinedResultError, ValueError):  # also shapes that do not broadcast
        return {}
    return {result.index: read_only(found.astype(NUMPY_TYPES[result.dtype]))}


def _moved(graph: Graph, node: Node, operator: Operator) -> Results:
    """Return what ``node`` moves, joins, cuts or borders."""
    assert operator.maps is not None
    sources = [graph.tensor(t) for t in operator.feature_inputs(node)]
    values = [source.constant for source in sources if source.constant is not None]
    found: dict[int, npt.NDArray[Any]] = {}
    try:
        shapes, maps = operator.output_shapes(graph, node), operator.maps(graph, node)
        for index, shape, one in zip(node.outputs, shapes or (), maps, strict=True):
            result = graph.tensor(index)
            kinds = {(tensor.dtype, tensor.quantization) for tensor in (*sources, result)}
            is_whole = all(s.constant is not None and s.constant.shape == s.shape for s in sources)
            if len(kinds) > 1 or not is_whole or one.size > _MOST_VALUES:
                return {}
            found[index] = read_only(moved(one, *values).reshape(shape))
    except ValueError:
        return {}
    return found


def _chosen(operands: Sequence[Tensor], result: Tensor) -> npt.NDArray[Any] | None:
    """Return what SELECT gives, which copies values as they are."""
    arrays = [tensor.constant for tensor in operands if tensor.constant is not None]
    kinds = {tensor.dtype for tensor in (*operands[1:], result)}
    if len(arrays) != 3 or arrays[0].dtype != np.bool_ or len(kinds) > 1 or not kinds <= _KINDS:
        return None
    condition, first, second = arrays
    try:
        return np.where(condition, first, second)
    except ValueError:
        return None


def _chosen_alike(operands: Sequence[Tensor], result: Tensor) -> npt.NDArray[Any] | None:
    """The same of operands of one shape: SELECT takes a condition of fewer ranks for rows."""
    is_alike = all(tensor.shape == result.shape for tensor in operands)
    return _chosen(operands, result) if is_alike else None


def _equal(operands: Sequence[Tensor], _: Tensor) -> npt.NDArray[np.bool_] | None:
    """Return where two operands of 8 bits stand for the same, as the kernels find it: with 8 bits
    below the unit, times each scale, which must be below 1; of float32 as they are.
    """
    found: list[npt.NDArray[Any]] = []
    for tensor in operands:
        if tensor.dtype is DType.FLOAT32 and tensor.constant is not None:
            found.append(tensor.constant)
            continue
        scaling, values = tensor.quantization, tensor.constant
        is_one = scaling is not None and len(scaling.scales) == 1 and 0 < scaling.scale < 1
        if tensor.dtype not in FEATURE_TYPES or scaling is None or values is None or not is_one:
            return None
        wide = (values.astype(np.int64) - scaling.zero_point) << _BITS_BELOW
        found.append(multiply(wide, multiplier_of(scaling.scale)))
    try:
        return found[0] == found[1] if len(found) == 2 else None
    except ValueError:
        return None


def _less(operands: Sequence[Tensor], result: Tensor) -> npt.NDArray[Any] | None:
    """Return the difference of two operands of float32, which the kernel keeps finite."""
    if {tensor.dtype for tensor in (*operands, result)} != {DType.FLOAT32}:
        return None
    try:
        first, second = (np.asarray(tensor.constant, np.float32) for tensor in operands)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.clip(first - second, *_FINITE)
    except ValueError:
        return None


def _different(operands: Sequence[Tensor], result: Tensor) -> npt.NDArray[np.bool_] | None:
    found = _equal(operands, result)
    return None if found is None else ~found


_CHOICES: Final[Mapping[str, Callable[[Sequence[Tensor], Tensor], npt.NDArray[Any] | None]]] = {
    "SELECT": _chosen_alike,
    "SELECT_V2": _chosen,
    "EQUAL": _equal,
    "NOT_EQUAL": _different,
    "SUB": _less,
}
"""Operators that the NPU does not have, and that masks are made with."""
