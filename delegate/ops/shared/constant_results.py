"""Compute nodes of 8 bits whose operands are all constants, as recurrent layers compute from their
first state: what they give is a constant, see ``Graph.folded``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import ABSENT, Graph, Node, read_only
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts, Movement, Operator
from delegate.ops.shared.common import FEATURE_TYPES, TYPE_RANGES
from delegate.ops.shared.fixed_point import UndefinedResultError
from delegate.ops.shared.reshaping import moved

Results = Mapping[int, npt.NDArray[Any]]

_OF_TASKS: Final = ("features_computed", "one_operand_computed", "operands_broadcast")
"""Rules that only tasks need."""


def constant_results(facts: GraphFacts, node: Node) -> Results:
    """Return the results of ``node`` by tensor, equal to the reference kernels'; none where an
    operand is no constant, or what they compute is not known.
    """
    operator = OPERATORS.get(node.op)
    tensors = [facts.graph.tensor(t) for t in node.inputs if t != ABSENT]
    results = [facts.graph.tensor(t) for t in node.outputs if t != ABSENT]
    if operator is None or any(tensor.constant is None for tensor in tensors):
        return {}
    if not results or any(tensor.dtype not in FEATURE_TYPES for tensor in results):
        return {}
    read = (facts.graph.tensor(t) for t in operator.feature_inputs(node))
    if any(tensor.dtype not in FEATURE_TYPES for tensor in read):
        return {}
    if operator.movement is Movement.CUT:
        return _parts(facts.graph, node, operator)
    if operator.of_constants is None and operator.function is None:
        return {}
    rules = (rule for rule in operator.rules if rule.name not in _OF_TASKS)
    if any(rule.violation(facts, node) for rule in rules):
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


def _parts(graph: Graph, node: Node, operator: Operator) -> Results:
    """Return the parts that ``node`` cuts a constant into."""
    assert operator.maps is not None
    (source,) = (graph.tensor(t) for t in operator.feature_inputs(node))
    assert source.constant is not None
    found: dict[int, npt.NDArray[Any]] = {}
    try:
        shapes, maps = operator.output_shapes(graph, node), operator.maps(graph, node)
        for index, shape, part in zip(node.outputs, shapes or (), maps, strict=True):
            result = graph.tensor(index)
            is_same = (source.dtype, source.quantization) == (result.dtype, result.quantization)
            if not is_same or source.constant.shape != source.shape:
                return {}
            found[index] = read_only(moved(source.constant, part).reshape(shape))
    except ValueError:
        return {}
    return found
