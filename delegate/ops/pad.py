"""PAD: the convolutions that read it pad by themselves, where only such do; else a border of zero
points.

The CNA gives every pixel outside the image the padding value, at the top and the left as far as its
fields hold, at the bottom and the right as far as the output reaches.
"""

from __future__ import annotations

from delegate.lower.operation import Operation, Plan, Planning
from delegate.model.graph import Graph, Node, Padding
from delegate.model.index_map import IndexMap
from delegate.ops.operator import ABSENT, GraphFacts, Operator, Role
from delegate.ops.shared import common
from delegate.ops.shared.convolution import ConvolutionOptions, most_padding
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.maps import bordered
from delegate.ops.shared.padding import (
    GEOMETRY,
    RULES,
    dimension_amounts,
    pad_amounts,
    plan_border,
    shapes,
)


def hides(facts: GraphFacts, node: Node) -> bool:
    """Return whether only convolutions with VALID padding that reach into the image read the
    result, and its amounts fit their fields.
    """
    output = node.outputs[0]
    _, rows, columns, channels = pad_amounts(facts.graph, node)
    if any(channels) or max(rows[0], columns[0]) > most_padding(facts.chip):
        return False
    readers = facts.readers.get(output, ())
    if not readers or output in facts.graph.outputs:
        return False
    return all(_pads(facts, reader, output, rows, columns) for reader in readers)


def _pads(
    facts: GraphFacts,
    reader: Node,
    output: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> bool:
    operator = facts.known_operator(reader)
    if operator is None or not operator.pads_input or reader.inputs[0] != output:
        return False
    options = facts.options(reader)
    if not isinstance(options, ConvolutionOptions) or options.padding is not Padding.VALID:
        return False
    weights = operator.weights(reader)
    shape = () if weights in (None, ABSENT) else facts.graph.tensor(weights).shape
    if len(shape) != RANK:
        return False
    _, kh, kw, _ = shape
    reach = (kh - 1) * options.dilation_h + 1, (kw - 1) * options.dilation_w + 1
    return max(rows) < reach[0] and max(columns) < reach[1]


def pads(graph: Graph, node: Node) -> tuple[int, int]:
    """Return the rows above and columns left of the image."""
    _, (top, _), (left, _), _ = pad_amounts(graph, node)
    return top, left


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    quantization = graph.tensor(node.outputs[0]).quantization
    zero = 0 if quantization is None else quantization.zero_point
    return (bordered(graph.tensor(node.inputs[0]).shape, dimension_amounts(graph, node), zero),)


def plan(planning: Planning, operation: Operation) -> Plan:
    return plan_border(planning, operation, planning.tensor(operation.result).zero_point)


def half(operator: Operator) -> Operator:
    """Return the record of the same bytes: an fp16 of 0 has two of 0."""
    from delegate.ops.shared import half_ranges
    from delegate.ops.shared.half import moving_record

    return moving_record(operator, GEOMETRY, half_ranges.of_padded)


OPERATOR = Operator(
    name="PAD",
    inputs=(Role.FEATURE, Role.NUMBERS),
    maps=maps,
    plan=plan,
    shapes=shapes,
    pads=pads,
    hides=hides,
    half=half,
    rules=tuple(rule for rule in RULES if rule is not common.options_known),
)
