"""Rules of operators that move no data: the tensors of a partition lie inside one another.

A part of a tensor is free where it begins at a surface of 16 channels, or is consecutive pixels or
whole images.
Whether the parts of several nodes can all be had at once is decided per partition, in
``partition.aliases``.
"""

from __future__ import annotations

from delegate.model.graph import Node
from delegate.ops.operator import GraphFacts, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.links import RANK, LinkError, four_dimensions

SURFACE_CHANNELS = 16


@constraint(most=RANK)
def alias_rank(facts: GraphFacts, node: Node) -> str | None:
    """Tensors must have rank 1 to {most}."""
    for tensor in facts.features(node):
        if not 1 <= len(tensor.shape) <= RANK:
            return f"{named(tensor)} has the shape {list(tensor.shape)}"
    return None


@constraint()
def alias_keeps_quantization(facts: GraphFacts, node: Node) -> str | None:
    """All tensors must have the same scale and zero point."""
    first, *others = facts.features(node)
    other = next((t for t in others if t.quantization != first.quantization), None)
    return None if other is None else f"{named(first)} and {named(other)} differ"


@constraint()
def alias_position_known(facts: GraphFacts, node: Node) -> str | None:
    """Axis, begin and sizes must be constant and inside the tensor, strides 1, the rank kept."""
    try:
        facts.links(node)
    except LinkError as error:
        return str(error)
    return None


@constraint(channels=SURFACE_CHANNELS)
def alias_begins_at_surface(facts: GraphFacts, node: Node) -> str | None:
    """Every part must be consecutive pixels and begin at a multiple of {channels} channels."""
    for link in facts.links(node):
        part, whole = facts.graph.tensor(link.part), facts.graph.tensor(link.whole)
        _, height, width, _ = four_dimensions(part.shape)
        if height > 1 and width != four_dimensions(whole.shape)[2]:
            return f"{named(part)} takes a part of the rows of {named(whole)}"
        if link.begin[3] % SURFACE_CHANNELS:
            return f"{named(part)} begins at channel {link.begin[3]} of {named(whole)}"
    return None


@constraint()
def alias_parts_differ(facts: GraphFacts, node: Node) -> str | None:
    """No tensor may be a part twice."""
    parts = [link.part for link in facts.links(node)]
    if len(set(parts)) == len(parts):
        return None
    twice = next(part for part in parts if parts.count(part) > 1)
    return f"{named(facts.graph.tensor(twice))} is"


# Operators without a task: what they join or cut are parts of one tensor in memory.
ALIAS = (
    *common.QUANTIZATION,
    alias_rank,
    alias_keeps_quantization,
    alias_position_known,
    alias_begins_at_surface,
    alias_parts_differ,
)
FIRST = tuple(
    common.no_activation if rule is common.activation_supported else rule for rule in common.FIRST
)
