"""Functions of float32 that quantisers leave between DEQUANTIZE and QUANTIZE, where an operator has
no kernel of 8 bits: all that lies between 8-bit tensors is one function of them.

``softplus`` is five such nodes, with truth values among them. The runtime's kernels compute float32
one element at a time, so that what they give is computed here for every value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import ABSENT, DType, Graph, Node
from delegate.model.operator_options import Options
from delegate.ops.operator import GraphFacts, Operator, Real, Role, Values, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import FEATURE_TYPES, TYPE_RANGES
from delegate.ops.shared.fixed_point import in_units
from delegate.ops.shared.functions import same_shapes, scale_of

Reals = npt.NDArray[Any]

ENTERS, LEAVES = "DEQUANTIZE", "QUANTIZE"
_BETWEEN: Final = (DType.FLOAT32, DType.BOOL)
"""The types of tensors inside such a function."""
MOST_NODES: Final = 64
"""The most nodes of one: more than any activation has."""


@dataclass(frozen=True, slots=True)
class RealChain(Options):
    """Say that a node stands for ``nodes``, in an order in which they can run, of which it is the
    last; its inputs are all the 8-bit tensors that they read.
    """

    UNION_TYPE = -1

    nodes: tuple[Node, ...] = ()


def chain_results(graph: Graph, node: Node, operands: Sequence[Values]) -> Values:
    """Return the results of a node that stands for a chain, from raw values of its inputs."""
    values: dict[int, Reals] = dict(zip(node.inputs, operands, strict=True))
    results = operands[0]
    assert isinstance(node.options, RealChain)
    for one in node.options.nodes:
        given = [values[t] if t in values else _constant(graph, t) for t in one.inputs]
        values[one.outputs[0]] = results = _result(graph, one, given)
    return results


def _constant(graph: Graph, index: int) -> Reals:
    constant = graph.tensor(index).constant
    assert constant is not None
    return constant.ravel()  # of one value, with any dimensions


def _result(graph: Graph, node: Node, given: Sequence[Reals]) -> Reals:
    from delegate.ops.operator import record_of

    if node.op == ENTERS:
        scale, zero_point = scale_of(graph, node.inputs[0])
        return np.float32(scale) * (given[0] - zero_point).astype(np.float32)
    if node.op == LEAVES:
        target, zero_point = scale_of(graph, node.outputs[0])
        steps = in_units(given[0] / np.float32(target), zero_point)
        return np.clip(steps, *TYPE_RANGES[graph.tensor(node.outputs[0]).dtype])
    real = record_of(graph, node).real
    assert real is not None
    with np.errstate(all="ignore"):
        return real(node, given)


def chain_to(
    facts: GraphFacts, end: Node, members: Collection[int]
) -> tuple[Node, tuple[int, ...]] | None:
    """Return the node that stands for ``end``, which gives 8 bits of float32 or truth values, and
    all that it needs, nodes of ``members``, with these in order; None: some are others, or it
    reads no such tensor.
    """
    graph = facts.graph
    nodes, leaves, waiting = {end.index: end}, dict[int, None](), [*end.inputs]
    while waiting:
        index = waiting.pop(0)
        tensor = graph.tensor(index)
        if tensor.constant is not None:
            continue
        if tensor.dtype in FEATURE_TYPES:
            leaves[index] = None
            continue
        maker = facts.makers.get(index)
        if maker is None or maker.index not in members or not _is_inside(facts, maker):
            return None
        if maker.index not in nodes:
            nodes[maker.index] = maker
            waiting += maker.inputs
    if len(nodes) == 1 or not leaves:
        return None
    order = [node for node in graph.nodes if node.index in nodes]
    made = replace(end, inputs=tuple(leaves), options=RealChain(tuple(order)))
    return made, tuple(node.index for node in order)


def _is_inside(facts: GraphFacts, node: Node) -> bool:
    """Return whether ``node`` gives float32 or truth values inside such a function."""
    operator = facts.known_operator(node)
    return node.op == ENTERS or (operator is not None and operator.real is not None)


def is_end(facts: GraphFacts, node: Node) -> bool:
    """Return whether ``node`` gives 8 bits of float32 or truth values."""
    if len(node.outputs) != 1 or facts.graph.tensor(node.outputs[0]).dtype not in FEATURE_TYPES:
        return False
    operator = facts.known_operator(node)
    is_known = node.op == LEAVES or (operator is not None and operator.real is not None)
    return is_known and any(True for _ in _between(facts.graph, node.inputs))


def _between(graph: Graph, tensors: Sequence[int]) -> Iterator[int]:
    for index in tensors:
        tensor = graph.tensor(index) if index != ABSENT else None
        if tensor is not None and tensor.constant is None and tensor.dtype in _BETWEEN:
            yield index


@constraint(most=MOST_NODES)
def between_eight_bits(facts: GraphFacts, node: Node) -> str | None:
    """Functions of float32 must lie between 8-bit tensors, up to {most} of them alone; convert the
    model with full integer quantisation.
    """
    graph = facts.graph
    if graph.half:
        return "the model is computed in fp16"
    found, waiting = {node.index}, [*_between(graph, (*node.inputs, *node.outputs))]
    if not waiting:
        return "all of its tensors have 8 bits"
    if not facts.has_eight_bits:
        tensors = [graph.tensor(index) for index in waiting]
        real = next((t for t in tensors if t.dtype is DType.FLOAT32), tensors[0])
        return f"{named(real)} is {real.dtype.name}"
    seen: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        if index in graph.outputs:
            return f"{named(graph.tensor(index))} is an output of the model"
        maker, readers = facts.makers.get(index), facts.readers.get(index, ())
        if maker is None or not _has_ends(facts, maker) or not readers:
            return f"{named(graph.tensor(index))} comes from elsewhere"
        wrong = next((one for one in readers if not _has_ends(facts, one)), None)
        if wrong is not None:
            return f"node {wrong.index} ({wrong.op}) reads {named(graph.tensor(index))}"
        for one in (maker, *readers):
            if one.index not in found:
                found.add(one.index)
                waiting += _between(graph, (*one.inputs, *one.outputs))
        if len(found) > MOST_NODES:
            return "they are more"
    return None


def _has_ends(facts: GraphFacts, node: Node) -> bool:
    """Return whether ``node`` is of such a function: inside, or where it begins or ends."""
    graph = facts.graph
    ends = [graph.tensor(t) for t in (*node.inputs[:1], *node.outputs[:1]) if t != ABSENT]
    if node.op == ENTERS:
        return len(ends) == 2 and ends[0].dtype in FEATURE_TYPES and ends[0].constant is None
    return _is_inside(facts, node) or is_end(facts, node)


@constraint()
def constants_of_one_value(facts: GraphFacts, node: Node) -> str | None:
    """A constant inside a function of float32 must have one value, the same for all elements."""
    for tensor in facts.inputs(node):
        if tensor.constant is not None and tensor.constant.size != 1:
            return f"{named(tensor)} has the shape {list(tensor.shape)}"
    return None


def real_function(
    name: str, function: Real, *others: Role, options: type[Options] | None = None
) -> Operator:
    """Return the record of an operator inside such a function; ``others``: the roles of its inputs
    behind the first. It is computed as a part of the node that stands for all.
    """
    return Operator(
        name=name,
        inputs=(Role.OPERAND, *others),
        options=options,
        real=function,
        shapes=None if others else common.same_shape,
        rules=(
            common.tensors_as_defined,
            common.nodes_in_order,
            between_eight_bits,
            constants_of_one_value,
            *common.BEHIND_TYPES,
            common.rank_in_range,
            same_shapes,
        ),
    )


@constraint()
def compares_float32(facts: GraphFacts, node: Node) -> str | None:
    """Comparisons must be of float32: of 8 bits the kernels compare numbers that they scale."""
    return common.other_type(facts.inputs(node), DType.FLOAT32)


def comparison(name: str, function: Callable[[Reals, Reals], Reals]) -> Operator:
    """Return the record of an operator that gives the truth values of two operands."""
    record = real_function(name, lambda _, given: function(*given), Role.OPERAND)
    return replace(record, rules=(*record.rules, compares_float32))


def choice(name: str) -> Operator:
    """Return the record of an operator that takes elements of its second or third input, as the
    truth values of the first one say.
    """

    def chosen(_: Node, given: Sequence[Reals]) -> Reals:
        condition, first, second = given
        return np.where(condition, first, second)

    record = real_function(name, chosen, Role.OPERAND, Role.OPERAND)
    return replace(record, function=chain_results)


def in_float(function: Real) -> Callable[[Operator], Operator]:
    """Return what makes of an operator's record the one inside such a function."""

    def form(operator: Operator) -> Operator:
        _, *others = operator.inputs
        return real_function(operator.name, function, *others, options=operator.options)

    return form
