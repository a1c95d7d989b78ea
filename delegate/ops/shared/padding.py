"""The common part of PAD, PADV2 and MIRROR_PAD: amounts, rules, and how they become tasks."""

from __future__ import annotations

import numpy as np

from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import Side, border
from delegate.model.graph import Graph, Node
from delegate.ops.operator import GraphFacts, Shape, constraint, named
from delegate.ops.shared.common import other_rank, other_shape
from delegate.ops.shared.image_rules import RANK, of_kept_values, output_sides_in_range
from delegate.ops.shared.moving import move_plan

AMOUNTS = 1


def pad_amounts(graph: Graph, node: Node) -> tuple[Side, ...]:
    """Return (before, after) for each of the four dimensions that the device sees, nothing where
    the tensors have fewer; the rules have checked that they exist.
    """
    amounts = dimension_amounts(graph, node)
    return ((0, 0),) * (RANK - len(amounts)) + amounts


def dimension_amounts(graph: Graph, node: Node) -> tuple[Side, ...]:
    """Return (before, after) for each dimension that the tensors have."""
    constant = graph.tensor(node.inputs[AMOUNTS]).constant
    assert constant is not None
    return tuple((int(a), int(b)) for a, b in np.asarray(constant).reshape(-1, 2))


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    source = graph.tensor(node.inputs[0]).shape
    amounts = dimension_amounts(graph, node)
    return (tuple(d + sum(added) for d, added in zip(source, amounts, strict=True)),)


@constraint()
def pad_amounts_known(facts: GraphFacts, node: Node) -> str | None:
    """Padding must be constant, not of images of a batch, not negative, and give the output's
    shape.
    """
    tensor = facts.graph.tensor(node.inputs[AMOUNTS])
    rank = len(facts.features(node)[0].shape)
    if tensor.constant is None or tensor.constant.size != 2 * rank:
        return f"{named(tensor)} does not hold two constants per dimension"
    if not np.issubdtype(tensor.constant.dtype, np.integer):
        return f"{named(tensor)} is {tensor.dtype.name}"
    batch, *sides = pad_amounts(facts.graph, node)
    if any(batch) or min(min(side) for side in sides) < 0:
        return f"it is {[list(batch), *(list(side) for side in sides)]}"
    return other_shape(facts, node)


@constraint(most=RANK)
def padded_rank(facts: GraphFacts, node: Node) -> str | None:
    """Inputs and outputs must have rank 1 to {most}."""
    return other_rank(facts.features(node), 1, RANK)


GEOMETRY = (padded_rank, pad_amounts_known, output_sides_in_range)

RULES = of_kept_values(*GEOMETRY)


def plan_border(planning: Planning, operation: Operation, value: int) -> Plan:
    """Plan a border of ``value``, image by image."""
    _, rows, columns, channels = pad_amounts(planning.graph, operation.node)
    source = planning.tensor(operation.operands[0])
    before, after = source.view, planning.tensor(operation.result).view
    lanes = (channels[0] * source.element.bytes, channels[1] * source.element.bytes)
    move = border(planning.chip, (rows, columns, lanes), value, before, after)
    return move_plan(planning, operation, move, by_image=True)
