"""TRANSPOSE_CONV: a convolution of the input with its pixels apart, by the kernel turned round.

Filters are OHWI. Between the pixels CNA puts the zero point, so the sums are TensorFlow Lite's; or
tasks before do, on a chip whose CNA is not known to, see ``upsample.zeros_inserted_first``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.upsample import Repeat, lie_in_memory, zeros_inserted_first
from delegate.lower.weights import DeviceWeights, device_weights
from delegate.model.graph import Activation, DType, Graph, Node, Padding, Tensor, read_only
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import ABSENT, GraphFacts, Operator, Role, Shape, constraint
from delegate.ops.shared import common, convolution, half_records
from delegate.ops.shared.common import other_shape, weights_of
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.maps import integers

OUTPUT_SHAPE, FEATURE = 0, 2
_DOUBLING = "CUSTOM:Convolution2DTransposeBias"


@dataclass(frozen=True, slots=True)
class TransposeConvOptions(Options):
    UNION_TYPE = 49
    NEEDS_TABLE = True

    padding: Padding = option(FieldKind.PADDING, slot=0, offset=0)
    stride_h: int = option(FieldKind.INT32, slot=2, offset=8, usual=1)
    stride_w: int = option(FieldKind.INT32, slot=1, offset=4, usual=1)
    activation: Activation = option(FieldKind.ACTIVATION, slot=3, offset=12)


def _options(node: Node) -> TransposeConvOptions:
    return node.known_options(TransposeConvOptions)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """A constant. Raises MapError where it is none."""
    return (integers(graph, node.inputs[OUTPUT_SHAPE], RANK),)


def _cropped(graph: Graph, node: Node) -> tuple[int, int]:
    """Rows above and columns left that the result leaves out: SAME's padding of the convolution
    that this one transposes, whose input is the result here.
    """
    options = _options(node)
    if options.padding is Padding.VALID:
        return 0, 0
    _, height, width, _ = graph.tensor(node.outputs[0]).shape
    _, kh, kw, _ = graph.tensor(node.inputs[1]).shape
    sides = ((height, kh, options.stride_h), (width, kw, options.stride_w))
    top, left = (
        max((-(-size // stride) - 1) * stride + kernel - size, 0) // 2
        for size, kernel, stride in sides
    )
    return top, left


@constraint()
def transposed_size_known(facts: GraphFacts, node: Node) -> str | None:
    """The output's shape must be constant, with the input's images and the filter's channels."""
    feature, output = (tensor.shape for tensor in facts.features(node))
    outputs, _, _, inputs = weights_of(facts, node).shape
    unlike = other_shape(facts, node)
    if unlike is None and (feature[0], outputs, inputs) != (output[0], output[3], feature[3]):
        return f"it is {list(output)}, the filter is from {inputs} to {outputs} channels"
    return unlike


def _most_spread(chip: Chip) -> int:
    return chip.limits.spread


@constraint(most=_most_spread)
def transposed_strides(facts: GraphFacts, node: Node) -> str | None:
    """Strides must be in the range 1 to {most}, and no more than the kernel's sides."""
    options = _options(node)
    _, kh, kw, _ = weights_of(facts, node).shape
    most = _most_spread(facts.chip)
    strides = options.stride_h, options.stride_w
    if all(1 <= s <= min(k, most) for s, k in zip(strides, (kh, kw), strict=True)):
        return None
    return f"they are {list(strides)}, the kernel is {kh} x {kw}"


@constraint(most=convolution.most_padding)
def transposed_reaches_outputs(facts: GraphFacts, node: Node) -> str | None:
    """Every output row and column must have an input under the kernel, which may overlap the image
    by at most {most} more.
    """
    options = _options(node)
    _, kh, kw, _ = weights_of(facts, node).shape
    feature, output = facts.features(node)
    strides, cropped = (options.stride_h, options.stride_w), _cropped(facts.graph, node)
    for axis, kernel, stride, crop in zip((1, 2), (kh, kw), strides, cropped, strict=True):
        pad = kernel - 1 - crop
        if not 0 <= pad <= convolution.most_padding(facts.chip):
            return f"the kernel is {kh} x {kw}, {crop} of it left out"
        if output.shape[axis] - 1 - pad > (feature.shape[axis] - 1) * stride:
            return f"from {list(feature.shape)} to {list(output.shape)}"
    return None


@constraint(steps=lambda chip: chip.limits.spreads, most=lambda chip: chip.limits.spread_pad)
def pixels_apart(facts: GraphFacts, node: Node) -> str | None:
    """In fp16 strides other than 1 must be among {steps}, and the kernel may overlap the image by
    at most {most} more then.
    """
    options, (kh, kw) = _options(node), weights_of(facts, node).shape[1:3]
    strides, (top, left) = (options.stride_h, options.stride_w), _cropped(facts.graph, node)
    if strides == (1, 1) or not lie_in_memory(facts.chip, strides, (kh - 1 - top, kw - 1 - left)):
        return None
    return f"they are {list(strides)}, the kernel is {kh} x {kw}"


GEOMETRY = (
    convolution.kernel_in_range,
    transposed_size_known,
    transposed_strides,
    transposed_reaches_outputs,
)


def macs(graph: Graph, node: Node) -> int:
    """One per input element and weight that meets it."""
    outputs, kh, kw, _ = graph.tensor(node.inputs[1]).shape
    return math.prod(graph.tensor(node.inputs[FEATURE]).shape) * outputs * kh * kw


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """The convolution that a node is: its operation, options and spread; ``weights`` turns the
    kernel round.
    """

    operation: Operation
    options: convolution.ConvolutionOptions
    spread: tuple[int, int]

    @property
    def node(self) -> Node:
        return self.operation.node

    @staticmethod
    def weights(kernel: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.ascontiguousarray(kernel[:, ::-1, ::-1])


def turned(graph: Graph, operation: Operation) -> Turned:
    """Return the layer as a CONV_2D of the same weights, turned round, sees it."""
    node, options = operation.node, _options(operation.node)
    _, kh, kw, _ = graph.tensor(node.inputs[1]).shape
    bias = node.inputs[FEATURE + 1 :] or (ABSENT,)
    convolved = replace(node, inputs=(node.inputs[FEATURE], node.inputs[1], *bias))
    top, left = _cropped(graph, node)
    return Turned(
        replace(operation, node=convolved, padding=(kh - 1 - top, kw - 1 - left)),
        replace(convolution.AS_IT_IS, activation=options.activation),
        (options.stride_h, options.stride_w),
    )


def plan(planning: Planning, operation: Operation) -> Plan:
    found = turned(planning.graph, operation)
    shape = planning.graph.tensor(found.node.inputs[1]).shape
    stored = device_weights(planning.graph, found.node, shape[0], shape)
    weights = replace(stored, values=found.weights(stored.values))
    assert found.operation.padding is not None
    apart = planning.chip, found.spread, found.operation.padding
    if found.spread == (1, 1) or not lie_in_memory(*apart):
        given = planning, found.operation, found.options, weights
        conv = convolution.resolved(*given, spread=found.spread)
        return convolution.plan_convolution(planning, found.operation, conv)
    return _apart(planning, found, weights)


def _apart(planning: Planning, found: Turned, weights: DeviceWeights) -> Plan:
    """Plan with the pixels apart in memory first, so that the last row there is under a kernel."""
    operation, (stride, _) = found.operation, found.spread
    assert operation.padding is not None
    top, left = operation.padding
    source = planning.tensor(operation.operands[0])
    height, kernel = planning.tensor(operation.result).view.height, weights.values.shape[1]
    beyond = source.view.height * stride - (height - 1 - top + kernel)
    row = min(max(beyond, 0), stride - 1, top)
    given = (found.spread, source.zero_point, row)
    repeat = Repeat(planning.chip, source.view, *given, is_staged=True)
    reading = replace(operation, padding=(top - row, left))
    apart = repeat.staged(source, source.location)
    conv = convolution.resolved(planning, reading, found.options, weights, source=apart)
    convolved = convolution.plan_convolution(planning, reading, conv)
    return zeros_inserted_first(operation, source, repeat, convolved)


OPERATOR = Operator(
    name="TRANSPOSE_CONV",
    options=TransposeConvOptions,
    inputs=(Role.NUMBERS, Role.WEIGHTS, Role.FEATURE, Role.BIAS),
    needed=3,
    macs=macs,
    plan=plan,
    shapes=shapes,
    rules=(*common.FIRST, convolution.convolution_rank, *common.WITH_WEIGHTS, *GEOMETRY),
    half=half_records.sums((convolution.convolution_rank,), (*GEOMETRY, pixels_apart)),
)


def doubling(node: Node, tensors: list[Tensor]) -> Node:
    """MediaPipe's custom operator, which no runtime but its own has, as TRANSPOSE_CONV, if kernels
    of 2 x 2 give a result of twice the size: of those no other strides do, nor do they pad. The
    result's shape becomes another tensor.
    """
    if node.op != _DOUBLING or len(node.inputs) != 3 or len(node.outputs) != 1:
        return node
    if min(*node.inputs, *node.outputs) < 0:
        return node
    given, weights, result = (tensors[t].shape for t in (*node.inputs[:2], *node.outputs))
    if not len(given) == len(weights) == len(result) == RANK:
        return node
    images, height, width, _ = given
    twice = images, 2 * height, 2 * width, weights[0]
    if weights[1:3] != (2, 2) or result != twice:
        return node
    size = np.array(twice, np.int32)
    tensors.append(Tensor(len(tensors), "size", size.shape, DType.INT32, constant=read_only(size)))
    feature, kernel, bias = node.inputs
    return replace(
        node,
        op=OPERATOR.name,
        inputs=(len(tensors) - 1, kernel, feature, bias),
        options=TransposeConvOptions(Padding.VALID, 2, 2, Activation.NONE),
    )
