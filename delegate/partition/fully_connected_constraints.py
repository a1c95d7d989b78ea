"""Rules of FULLY_CONNECTED, which runs as a 1x1 convolution over single pixels."""

from __future__ import annotations

import math

from delegate.graph import FullyConnectedOptions, Node
from delegate.partition.constraint import GraphFacts, constraint, named
from delegate.partition.constraints import INPUT, weights_of

RANK = 2
MAX_FEATURE_RANK = 4


@constraint()
def weights_not_shuffled(facts: GraphFacts, node: Node) -> str | None:
    """Weights must be in the default format, not shuffled."""
    options = node.options
    is_shuffled = isinstance(options, FullyConnectedOptions) and options.is_shuffled
    return "they are shuffled" if is_shuffled else None


@constraint(rank=RANK)
def weights_rank(facts: GraphFacts, node: Node) -> str | None:
    """Weights must have rank {rank}: outputs, inputs."""
    weights = weights_of(facts, node)
    return None if len(weights.shape) == RANK else f"{named(weights)} is {list(weights.shape)}"


@constraint(most=MAX_FEATURE_RANK)
def feature_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank 1 to {most}."""
    for tensor in (facts.graph.tensor(node.inputs[INPUT]), *facts.outputs(node)):
        if not 1 <= len(tensor.shape) <= MAX_FEATURE_RANK:
            return f"{named(tensor)} is {list(tensor.shape)}"
    return None


@constraint()
def rows_divide_input(facts: GraphFacts, node: Node) -> str | None:
    """The input must hold a whole number of weight rows, and the output one value per row and
    output.
    """
    x = facts.graph.tensor(node.inputs[INPUT])
    y = facts.outputs(node)[0]
    outputs, inputs = weights_of(facts, node).shape
    batch, rest = divmod(math.prod(x.shape), inputs)
    if rest or y.shape[-1] != outputs or math.prod(y.shape) != batch * outputs:
        return f"{list(x.shape)} to {list(y.shape)} with weights {[outputs, inputs]}"
    return None
