"""DEPTHWISE_CONV_2D: one filter per channel, or several (depth multiplier). Filters are 1HWO."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from delegate.lower.memory.tensors import view_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.weights import device_weights, widen_multiplier
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, option
from delegate.ops.operator import GraphFacts, Operator, Role, Shape, constraint
from delegate.ops.shared import common, convolution, half_records
from delegate.ops.shared.common import weights_of


@dataclass(frozen=True, slots=True)
class DepthwiseOptions(convolution.ConvolutionOptions):
    UNION_TYPE = 2
    NEEDS_TABLE = True

    padding: Padding = option(FieldKind.PADDING, slot=0, offset=0)
    stride_h: int = option(FieldKind.INT32, slot=2, offset=8, usual=1)
    stride_w: int = option(FieldKind.INT32, slot=1, offset=4, usual=1)
    dilation_h: int = option(FieldKind.INT32, slot=6, offset=24, default=1)
    dilation_w: int = option(FieldKind.INT32, slot=5, offset=20, default=1)
    activation: Activation = option(FieldKind.ACTIVATION, slot=4, offset=16)
    depth_multiplier: int = option(FieldKind.INT32, slot=3, offset=12, usual=1)


@constraint()
def depth_multiplier_follows(facts: GraphFacts, node: Node) -> str | None:
    """Output channels must be input channels times the depth multiplier, one filter each."""
    options = node.known_options(DepthwiseOptions)
    inputs = facts.features(node)[0].shape[3]
    outputs = facts.outputs(node)[0].shape[3]
    weights = weights_of(facts, node).shape
    if inputs * options.depth_multiplier != outputs or weights[3] != outputs or weights[0] != 1:
        return (
            f"it is {options.depth_multiplier}, from {inputs} to {outputs} channels "
            f"with a filter of shape {list(weights)}"
        )
    return None


GEOMETRY = (depth_multiplier_follows, *convolution.GEOMETRY)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    options = node.known_options(DepthwiseOptions)
    return convolution.convolved(graph, node, options, graph.tensor(node.inputs[1]).shape[3])


def macs(graph: Graph, node: Node) -> int:
    """One per output element and tap of the kernel."""
    _, kh, kw, _ = graph.tensor(node.inputs[1]).shape
    return math.prod(graph.tensor(node.outputs[0]).shape) * kh * kw


def plan(planning: Planning, operation: Operation) -> Plan:
    """A depth multiplier of 1 is what the hardware calls depthwise; others become dense kernels."""
    graph, node = planning.graph, operation.node
    options = node.known_options(DepthwiseOptions)
    _, kh, kw, channels = graph.tensor(node.inputs[1]).shape
    weights = device_weights(graph, node, channels, (kh, kw, channels))
    inputs = view_of(graph.tensor(node.inputs[0]).shape).channels
    is_depthwise = channels == inputs
    if not is_depthwise:
        dense = widen_multiplier(weights.values, inputs, weights.zero_point)
        weights = replace(weights, values=dense)
    given = planning, operation, options, weights
    conv = convolution.resolved(*given, is_depthwise=is_depthwise)
    return convolution.plan_convolution(planning, operation, conv)


OPERATOR = Operator(
    name="DEPTHWISE_CONV_2D",
    options=DepthwiseOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS, Role.BIAS),
    needed=2,
    shapes=shapes,
    weights_axis=3,
    macs=macs,
    plan=plan,
    pads_input=True,
    half=half_records.sums((convolution.convolution_rank,), GEOMETRY),
    rules=(*common.FIRST, convolution.convolution_rank, *common.WITH_WEIGHTS, *GEOMETRY),
)
