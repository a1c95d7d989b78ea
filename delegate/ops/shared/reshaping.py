"""Operators that give the same values another shape, free where pixels stay what they are: whole
channels, one after the other.
"""

from __future__ import annotations

from delegate.model.graph import Graph, Node
from delegate.ops.operator import (
    GraphFacts,
    Lowering,
    Movement,
    Operator,
    Role,
    Shapes,
    constraint,
    named,
)
from delegate.ops.shared import aliases, common
from delegate.ops.shared.links import Link, extent

ORIGIN = (0, 0, 0, 0)


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    return (Link(node.inputs[0], node.outputs[0], ORIGIN),)


@constraint()
def reshape_keeps_pixels(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have as many images, pixels and channels: the last dimension stays, of
    rank 4 the first one, too.
    """
    before, after = facts.graph.tensor(node.inputs[0]), facts.outputs(node)[0]
    if extent(before.shape) == extent(after.shape):
        return None
    return f"{named(before)} is {list(before.shape)}, {named(after)} {list(after.shape)}"


@constraint()
def new_shape_constant(facts: GraphFacts, node: Node) -> str | None:
    """The new shape, axis or axes must be constant."""
    wrong = next((t for t in facts.inputs(node)[1:] if t.constant is None), None)
    return None if wrong is None else f"{named(wrong)} is computed while running"


def reshaping(name: str, shapes: Shapes, *numbers: Role) -> Operator:
    """The record of such an operator; ``numbers``: its inputs beside the feature map."""
    return Operator(
        name=name,
        inputs=(Role.FEATURE, *numbers),
        needed=1,
        lowering=Lowering.ALIAS,
        movement=Movement.KEEP,
        links=links,
        shapes=shapes,
        rules=(
            *common.FIRST,
            *common.QUANTIZATION,
            aliases.alias_rank,
            aliases.alias_keeps_quantization,
            new_shape_constant,
            reshape_keeps_pixels,
        ),
    )
