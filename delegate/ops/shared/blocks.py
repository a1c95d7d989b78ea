"""Operators that bring blocks of pixels into channels and back: options and rules."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, constraint, named
from delegate.ops.shared.convolution import most_stride
from delegate.ops.shared.image_rules import image_rank, of_kept_values


@dataclass(frozen=True, slots=True)
class BlockOptions(Options):
    """What both have; each class says its number."""

    block: int = option(FieldKind.INT32, slot=0, offset=0)


def block_of(node: Node, kind: type[BlockOptions]) -> int:
    """Rows, and columns, of a block."""
    return node.known_options(kind).block


@constraint(most=most_stride)
def block_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The block must be 1 to {most} pixels high and wide."""
    options = facts.options(node)
    assert isinstance(options, BlockOptions)
    most = most_stride(facts.chip)
    return None if 1 <= options.block <= most else f"it is {options.block}"


@constraint()
def blocks_fit(facts: GraphFacts, node: Node) -> str | None:
    """Pixels, or channels, must be whole blocks, and the output's shape follow."""
    before, after = facts.features(node)
    try:
        shapes = facts.operator(node).output_shapes(facts.graph, node)
    except ValueError as problem:
        return str(problem)
    if shapes is not None and after.shape == tuple(shapes[0]):
        return None
    return f"{named(before)} is {list(before.shape)}, {named(after)} {list(after.shape)}"


GEOMETRY = (image_rank, block_in_range, blocks_fit)

RULES = of_kept_values(*GEOMETRY)
