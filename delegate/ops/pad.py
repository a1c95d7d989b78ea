"""PAD, which has no task of its own: the convolutions that read it pad by themselves.

The CNA gives every pixel outside the image the padding value, at the top and the left as far as its
fields hold, at the bottom and the right as far as the output reaches.
"""

from __future__ import annotations

import numpy as np

from delegate.model.graph import Graph, Node, Padding
from delegate.ops.operator import (
    ABSENT,
    GraphFacts,
    Lowering,
    Operator,
    Role,
    Shape,
    constraint,
    named,
)
from delegate.ops.shared import common
from delegate.ops.shared.convolution import ConvolutionOptions, kernel_size, most_padding

AMOUNTS = 1
RANK = 4


def pad_amounts(graph: Graph, node: Node) -> tuple[tuple[int, int], ...]:
    """(before, after) for each of the four dimensions; the rules have checked that they exist."""
    constant = graph.tensor(node.inputs[AMOUNTS]).constant
    assert constant is not None
    return tuple((int(a), int(b)) for a, b in np.asarray(constant).reshape(RANK, 2))


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    source = graph.tensor(node.inputs[0]).shape
    amounts = pad_amounts(graph, node)
    return (tuple(d + sum(added) for d, added in zip(source, amounts, strict=True)),)


@constraint(rank=RANK)
def pad_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank {rank}."""
    tensors = (facts.graph.tensor(node.inputs[0]), *facts.outputs(node))
    wrong = next((t for t in tensors if len(t.shape) != RANK), None)
    return None if wrong is None else f"{named(wrong)} has the shape {list(wrong.shape)}"


@constraint(most=most_padding)
def pad_amounts_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Padding must be constant, of height and width only, at most {most} at the top and left, and
    give the output's shape.
    """
    tensor = facts.graph.tensor(node.inputs[AMOUNTS])
    if tensor.constant is None or tensor.constant.size != 2 * RANK:
        return f"{named(tensor)} does not hold two constants per dimension"
    if not np.issubdtype(tensor.constant.dtype, np.integer):
        return f"{named(tensor)} is {tensor.dtype.name}"
    batch, (top, bottom), (left, right), channels = pad_amounts(facts.graph, node)
    if any((*batch, *channels)) or min(top, bottom, left, right) < 0:
        return f"it is {[list(batch), [top, bottom], [left, right], list(channels)]}"
    (padded,) = shapes(facts.graph, node)
    if facts.outputs(node)[0].shape != padded:
        return f"it gives {list(padded)}, the output is {list(facts.outputs(node)[0].shape)}"
    return f"top {top}, left {left}" if max(top, left) > most_padding(facts.chip) else None


@constraint()
def pad_keeps_quantization(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have the same scale and zero point."""
    before, after = facts.graph.tensor(node.inputs[0]), facts.outputs(node)[0]
    if before.quantization == after.quantization:
        return None
    return f"{named(before)} and {named(after)} differ"


@constraint()
def pad_read_by_convolutions(facts: GraphFacts, node: Node) -> str | None:
    """Only convolutions with VALID padding that reach into the image may read the result."""
    output = node.outputs[0]
    if output in facts.graph.outputs:
        return "it is an output of the model"
    readers = [other for other in facts.graph.nodes if output in other.inputs]
    if not readers:
        return "nothing reads it"
    for reader in readers:
        operator = facts.operators.get(reader.op)
        pads = operator is not None and operator.pads_input
        if not pads or reader.inputs[0] != output:
            return f"node {reader.index} ({reader.op}) reads it"
        options = facts.options(reader)
        if not isinstance(options, ConvolutionOptions) or options.padding is not Padding.VALID:
            return f"node {reader.index} ({reader.op}) pads again"
        weights = facts.operator(reader).weights(reader)
        if weights in (None, ABSENT) or len(facts.graph.tensor(weights).shape) != RANK:
            return f"node {reader.index} ({reader.op}) has no kernel of rank {RANK}"
        reach = _reach(facts, reader, options)
        _, rows, columns, _ = pad_amounts(facts.graph, node)
        if max(rows) >= reach[0] or max(columns) >= reach[1]:
            return f"the kernel of node {reader.index} would lie wholly in the padding"
    return None


def _reach(facts: GraphFacts, node: Node, options: ConvolutionOptions) -> tuple[int, int]:
    kh, kw = kernel_size(facts, node)
    return (kh - 1) * options.dilation_h + 1, (kw - 1) * options.dilation_w + 1


def pads(graph: Graph, node: Node) -> tuple[int, int]:
    """Rows above and columns left of the image."""
    _, (top, _), (left, _), _ = pad_amounts(graph, node)
    return top, left


FIRST = tuple(rule for rule in common.FIRST if rule is not common.options_known)

OPERATOR = Operator(
    name="PAD",
    inputs=(Role.FEATURE, Role.NUMBERS),
    lowering=Lowering.NEIGHBOUR,
    shapes=shapes,
    pads=pads,
    rules=(
        *FIRST,
        *common.QUANTIZATION,
        pad_rank,
        pad_keeps_quantization,
        pad_amounts_in_range,
        pad_read_by_convolutions,
    ),
)
