"""Rules of ADD, which runs in the DPU, alone or inside the convolution that gives one operand."""

from __future__ import annotations

from delegate.graph import Node
from delegate.partition.constraint import GraphFacts, constraint, named
from delegate.partition.constraints import features

MAX_RANK = 4
# DPU cubes hold width, height and channels - 1 in 13 bits; channels count in atoms of 16. The exact
# maximum is avoided.
MAX_SIZE = 8191
MAX_CHANNELS = 8192 - 16


@constraint(most=MAX_RANK)
def operand_rank(facts: GraphFacts, node: Node) -> str | None:
    """Operands must have rank 1 to {most}."""
    for tensor in features(facts, node):
        if not 1 <= len(tensor.shape) <= MAX_RANK:
            return f"{named(tensor)} is {list(tensor.shape)}"
    return None


@constraint()
def same_shapes(facts: GraphFacts, node: Node) -> str | None:
    """Operands and output must have the same shape; broadcasting is not supported yet."""
    shapes = [tensor.shape for tensor in features(facts, node)]
    if len(set(shapes)) == 1:
        return None
    return ", ".join(str(list(shape)) for shape in shapes)


@constraint(size=MAX_SIZE, channels=MAX_CHANNELS)
def cube_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {size}, channels at most {channels}."""
    shape = facts.outputs(node)[0].shape
    if shape[-1] > MAX_CHANNELS or any(size > MAX_SIZE for size in shape[-3:-1]):
        return f"the shape is {list(shape)}"
    return None
