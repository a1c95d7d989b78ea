"""CONV_2D: dense and grouped convolution. Filters are OHWI."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.lower.grouped import widen_groups
from delegate.lower.input_fold import choose_fold
from delegate.lower.lowered import Fold
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.model_weights import device_weights
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.tiling.geometry import Axis
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, option
from delegate.ops.operator import GraphFacts, Operator, Role, Shape, constraint
from delegate.ops.shared import common, convolution
from delegate.ops.shared.common import weights_of


@dataclass(frozen=True, slots=True)
class ConvOptions(convolution.ConvolutionOptions):
    UNION_TYPE = 1
    NEEDS_TABLE = True

    padding: Padding = option(FieldKind.PADDING, slot=0, offset=0)
    stride_h: int = option(FieldKind.INT32, slot=2, offset=8, usual=1)
    stride_w: int = option(FieldKind.INT32, slot=1, offset=4, usual=1)
    dilation_h: int = option(FieldKind.INT32, slot=5, offset=20, default=1)
    dilation_w: int = option(FieldKind.INT32, slot=4, offset=16, default=1)
    activation: Activation = option(FieldKind.ACTIVATION, slot=3, offset=12)


@constraint()
def filter_covers_input_channels(facts: GraphFacts, node: Node) -> str | None:
    """The filter must cover all input channels, or those of one of several equal groups."""
    channels = facts.features(node)[0].shape[3]
    outputs, _, _, covered = weights_of(facts, node).shape
    groups, rest = divmod(channels, covered)
    if rest or outputs % groups:
        return f"it covers {covered} of {channels} input channels, for {outputs} outputs"
    return None


@constraint()
def filter_gives_output_channels(facts: GraphFacts, node: Node) -> str | None:
    """The filter must give as many channels as the output has."""
    channels = facts.outputs(node)[0].shape[3]
    given = weights_of(facts, node).shape[0]
    return None if given == channels else f"it gives {given}, the output has {channels}"


GEOMETRY = (
    filter_covers_input_channels,
    filter_gives_output_channels,
    *convolution.GEOMETRY,
)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    options = node.known_options(ConvOptions)
    return convolution.convolved(graph, node, options, graph.tensor(node.inputs[1]).shape[0])


def macs(graph: Graph, node: Node) -> int:
    """One per output element and weight of its filter."""
    weights = graph.tensor(node.inputs[1]).shape
    return math.prod(graph.tensor(node.outputs[0]).shape) * math.prod(weights[1:])


def fold(chip: Chip, graph: Graph, operation: Operation) -> tuple[View, Fold] | None:
    """How the host may spread windows of the input over channels."""
    node = operation.node
    options = node.known_options(ConvOptions)
    source = view_of(graph.tensor(operation.operands[0]).shape)
    target = view_of(graph.tensor(operation.result).shape)
    outputs, kh, kw, channels = graph.tensor(node.inputs[1]).shape
    if channels != source.channels:
        return None
    padding = operation.padding or convolution.paddings(options, source, target, kh, kw)
    o, (top, left) = options, padding
    rows = Axis(source.height, target.height, kh, o.stride_h, o.dilation_h, top)
    columns = Axis(source.width, target.width, kw, o.stride_w, o.dilation_w, left)
    return choose_fold(chip, source, rows, columns, outputs)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Dense; groups become kernels over all channels with weights that count as zero."""
    graph, node = planning.graph, operation.node
    options = node.known_options(ConvOptions)
    shape = graph.tensor(node.inputs[1]).shape
    weights = device_weights(graph, node, shape[0], shape)
    channels = view_of(graph.tensor(node.inputs[0]).shape).channels
    wide = replace(weights, values=widen_groups(weights.values, channels, weights.zero_point))
    return convolution.plan_convolution(planning, operation, options, wide)


def half(operator: Operator) -> Operator:
    """Dense and grouped convolution in fp16."""
    from delegate.ops.shared import half, half_errors

    def plan(planning: Planning, operation: Operation) -> Plan:
        graph, node = planning.graph, operation.node
        weights = half.float_filters(graph, node, graph.tensor(node.inputs[1]).shape)
        channels = planning.tensor(operation.operands[0]).elements.channels
        wide = widen_groups(weights, channels, 0)
        options = node.known_options(ConvOptions)
        return half.plan_half_convolution(planning, operation, options, wide)

    rules = (*half.FIRST, convolution.convolution_rank, *half.WITH_WEIGHTS, *GEOMETRY)
    return half.half_record(operator, plan, rules, half_errors.sums(0, 0))


OPERATOR = Operator(
    name="CONV_2D",
    options=ConvOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS, Role.BIAS),
    needed=2,
    shapes=shapes,
    macs=macs,
    plan=plan,
    fold=fold,
    pads_input=True,
    half=half,
    rules=(*common.FIRST, convolution.convolution_rank, *common.WITH_WEIGHTS, *GEOMETRY),
)
