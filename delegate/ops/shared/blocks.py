"""Operators that bring blocks of pixels into channels and back: options and rules."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, constraint
from delegate.ops.shared.convolution import most_stride
from delegate.ops.shared.image_rules import image_rank, of_kept_values, other_shape


@dataclass(frozen=True, slots=True)
class BlockOptions(Options):
    """The options that both operators have; each class says its number."""

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
    return other_shape(facts, node)


GEOMETRY = (image_rank, block_in_range, blocks_fit)

RULES = of_kept_values(*GEOMETRY)
