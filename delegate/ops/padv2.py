"""PADV2: a border of any value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import GraphFacts, Operator, Role, constraint, named
from delegate.ops.shared.maps import bordered
from delegate.ops.shared.padding import (
    GEOMETRY,
    RULES,
    dimension_amounts,
    plan_border,
    shapes,
)

VALUE = 2


@constraint()
def pad_value_constant(facts: GraphFacts, node: Node) -> str | None:
    """The value must be one constant of the output's type, scale and zero point, as the runtime
    demands.
    """
    value, output = facts.graph.tensor(node.inputs[VALUE]), facts.outputs(node)[0]
    if value.constant is None or value.constant.size != 1:
        return f"{named(value)} is {list(value.shape)}"
    if (value.dtype, value.quantization) != (output.dtype, output.quantization):
        return f"{named(value)} and {named(output)} differ"
    return None


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    """Raises MapError for a border of float32 that is no whole number, which maps do not hold."""
    value = graph.tensor(node.inputs[VALUE]).constant
    assert value is not None
    number = value.reshape(()).item()
    if not float(number).is_integer():
        raise MapError(f"the border is {number}")
    shape = graph.tensor(node.inputs[0]).shape
    return (bordered(shape, dimension_amounts(graph, node), int(number)),)


def plan(planning: Planning, operation: Operation) -> Plan:
    value = planning.graph.tensor(operation.node.inputs[VALUE])
    assert value.constant is not None
    raw = int(value.constant.reshape(()))
    return plan_border(planning, operation, raw - value.dtype.element.offset)


@constraint()
def half_pad_value(facts: GraphFacts, node: Node) -> str | None:
    """The value in fp16 must be a constant 0."""
    value = facts.graph.tensor(node.inputs[VALUE])
    if value.constant is None or value.constant.size != 1:
        return f"{named(value)} is {list(value.shape)}"
    number = value.constant.reshape(-1)[0]
    return None if number.astype(np.float16).tobytes() == bytes(2) else f"it is {number}"


def half(operator: Operator) -> Operator:
    """Return the record of the same bytes."""
    from delegate.ops.shared import half_ranges
    from delegate.ops.shared.half import exactly, moving_record

    def plan(planning: Planning, operation: Operation) -> Plan:
        return plan_border(planning, operation, 0)

    record = moving_record(operator, (*GEOMETRY, half_pad_value), half_ranges.of_padded)
    return replace(record, plan=exactly(plan))


OPERATOR = Operator(
    name="PADV2",
    inputs=(Role.FEATURE, Role.NUMBERS, Role.NUMBERS),
    maps=maps,
    plan=plan,
    shapes=shapes,
    rules=(*RULES, pad_value_constant),
    half=half,
)
