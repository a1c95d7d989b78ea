"""Rules of CONV_2D and DEPTHWISE_CONV_2D: shapes and the widths of the fields that hold them.

Limits are those of the NPU's register fields (documented): kernels, strides, padding, dilation,
feature sizes, channels. Splitting a node that exceeds one is left to lowering, where it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import requantized
from delegate.lower.convolution import split_by_scale, tiled_convolution
from delegate.lower.legalize import rounds_twice
from delegate.lower.lowering import fold_convolution, host_tensor
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.one_rounding import MOST_DIFFERING
from delegate.lower.numerics.requantize import leaves_int32, target_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.weights import DeviceWeights, device_weights, leading_padding, real_ratios
from delegate.model.graph import Activation, Graph, Node, Padding, Tensor, read_only
from delegate.model.operator_options import Options
from delegate.model.tensor_content import NUMPY_TYPES
from delegate.ops.operator import GraphFacts, Shape, constraint, named
from delegate.ops.shared.common import other_rank, weights_of
from delegate.ops.shared.image_rules import RANK


@dataclass(frozen=True, slots=True)
class ConvolutionOptions(Options):
    """The options that all convolutions have; each class says where its own lie."""

    padding: Padding
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    activation: Activation


AS_IT_IS = ConvolutionOptions(Padding.VALID, 1, 1, 1, 1, Activation.NONE)
"""Every pixel, or what lies under a kernel in each place."""


def geometry(facts: GraphFacts, node: Node) -> ConvolutionOptions:
    """The options of a convolution; ``options_known`` ran before."""
    options = facts.options(node)
    assert isinstance(options, ConvolutionOptions)
    return options


def output_and_padding(
    size: int, kernel: int, stride: int, dilation: int, padding: Padding
) -> tuple[int, int]:
    """Rows (or columns) of the output, and those added before the input's first.

    TensorFlow Lite's rule: SAME gives ceil(size / stride), VALID what lies within. Zero or fewer
    rows mean that the kernel does not fit.
    """
    reach = (kernel - 1) * dilation + 1
    rows = -(-size // stride)
    if padding is Padding.VALID:
        rows = (size - reach) // stride + 1 if size >= reach else 0
    return rows, leading_padding(padding, size, rows, kernel, stride, dilation)


def have_plain_kernels(weights: Tensor, source: Tensor) -> bool:
    """Return whether ``weights`` (OHWI) are a constant as it is stored, and every kernel sees all
    channels of ``source``, not those of a group.
    """
    is_plain = weights.constant is not None and weights.constant.shape == weights.shape
    return is_plain and weights.shape[3] == source.shape[3]


@constraint(rank=RANK)
def convolution_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input, weights and output must have rank {rank}."""
    return other_rank((*facts.features(node), weights_of(facts, node)), RANK, RANK)


@constraint()
def same_batch(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have the same batch."""
    batches = facts.features(node)[0].shape[0], facts.outputs(node)[0].shape[0]
    return f"they are {batches[0]} and {batches[1]}" if batches[0] != batches[1] else None


MostOf = Callable[[Chip], int]
"""The most that a chip takes."""

most_kernel: MostOf = attrgetter("limits.kernel_size")
most_stride: MostOf = attrgetter("limits.stride")
_most_dilation: MostOf = attrgetter("limits.dilation")
most_padding: MostOf = attrgetter("limits.pad")


@constraint(most=most_kernel)
def kernel_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Kernel sides must be in the range 1 to {most}."""
    _, kh, kw, _ = weights_of(facts, node).shape  # of both filter layouts
    return f"the kernel is {kh} x {kw}" if max(kh, kw) > most_kernel(facts.chip) else None


@constraint(most=most_stride)
def strides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Strides must be in the range 1 to {most}."""
    o = geometry(facts, node)
    if all(1 <= s <= most_stride(facts.chip) for s in (o.stride_h, o.stride_w)):
        return None
    return f"they are {o.stride_h} x {o.stride_w}"


@constraint(most=_most_dilation)
def dilation_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Dilations must be in the range 1 to {most}."""
    o = geometry(facts, node)
    if all(1 <= d <= _most_dilation(facts.chip) for d in (o.dilation_h, o.dilation_w)):
        return None
    return f"they are {o.dilation_h} x {o.dilation_w}"


Side = tuple[int, int]


def _sides(graph: Graph, node: Node, options: ConvolutionOptions) -> tuple[Side, Side]:
    """(rows, top) and (columns, left) as the geometry gives them."""
    o = options
    _, kh, kw, _ = graph.tensor(node.inputs[1]).shape
    _, h, w, _ = graph.tensor(node.inputs[0]).shape
    return (
        output_and_padding(h, kh, o.stride_h, o.dilation_h, o.padding),
        output_and_padding(w, kw, o.stride_w, o.dilation_w, o.padding),
    )


def convolved(
    graph: Graph, node: Node, options: ConvolutionOptions, channels: int
) -> tuple[Shape, ...]:
    """The shape of the output, which has ``channels``."""
    (rows, _), (columns, _) = _sides(graph, node, options)
    return ((graph.tensor(node.inputs[0]).shape[0], rows, columns, channels),)


@constraint()
def output_size_follows(facts: GraphFacts, node: Node) -> str | None:
    """Height and width of the output must follow from input, kernel, strides, dilation, padding."""
    (rows, _), (columns, _) = _sides(facts.graph, node, geometry(facts, node))
    output = facts.outputs(node)[0]
    if output.shape[1:3] == (rows, columns):
        return None
    return f"{named(output)} is {output.shape[1]} x {output.shape[2]}, not {rows} x {columns}"


@constraint(most=most_padding)
def padding_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Padding at the top and at the left must be at most {most}."""
    (_, top), (_, left) = _sides(facts.graph, node, geometry(facts, node))
    return f"top {top}, left {left}" if max(top, left) > most_padding(facts.chip) else None


def paddings(
    options: ConvolutionOptions, source: View, target: View, kh: int, kw: int
) -> tuple[int, int]:
    """Rows above and columns left of the image."""
    scheme, h, w = options.padding, source.height, source.width
    top = leading_padding(scheme, h, target.height, kh, options.stride_h, options.dilation_h)
    left = leading_padding(scheme, w, target.width, kw, options.stride_w, options.dilation_w)
    return top, left


def requantized_sums(
    graph: Graph,
    node: Node,
    sums: npt.NDArray[np.int64],
    activation: Activation,
    *,
    scales_in_float32: bool | None = None,
    rounds_once: bool = False,
) -> npt.NDArray[np.generic] | None:
    """Return what a kernel makes of constant ``sums``, [rows, output channels]; None: they leave
    int32. See ``resolved``.
    """
    x, given, y = (graph.tensor(t) for t in (*node.inputs[:2], node.outputs[0]))
    assert y.quantization is not None
    offset = y.dtype.element.offset
    target = target_of(
        real_ratios(x, given, y, sums.shape[1], in_float32=scales_in_float32),
        (sums.min(axis=0), sums.max(axis=0)),
        y.quantization.scale,
        y.quantization.zero_point - offset,
        activation,
        rounds_once=rounds_once,
    )
    if leaves_int32(target).any():
        return None
    found = np.clip(target.results(sums.T).T + target.zero_point, *target.outputs) + offset
    return read_only(found.astype(NUMPY_TYPES[y.dtype]).reshape(y.shape))


def convolved_zeros(
    graph: Graph, node: Node, activation: Activation
) -> npt.NDArray[np.generic] | None:
    """Return what a convolution makes of a constant map of zeros, whose every sum is the bias;
    None: it is another one.
    """
    x, given, y = (graph.tensor(t) for t in (*node.inputs[:2], node.outputs[0]))
    assert x.quantization is not None
    if x.constant is None or (x.constant != x.quantization.zero_point).any():
        return None
    bias = device_weights(graph, node, y.shape[-1], given.shape).bias
    sums = np.broadcast_to(bias, (math.prod(y.shape[:-1]), y.shape[-1]))
    return requantized_sums(graph, node, sums, activation)


def convolution_of(
    planning: Planning,
    operation: Operation,
    options: ConvolutionOptions,
    weights: npt.NDArray[Any],
    bias: npt.NDArray[Any],
    result: View,
    padding: tuple[int, int] = (0, 0),
    *,
    is_depthwise: bool = False,
    spread: tuple[int, int] = (1, 1),
) -> Convolution:
    """Return a convolution of the operation's first operand, whatever its node is, without what
    only quantised weights have. ``result``: as the convolution sees it; ``padding``: top and left.
    """
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    return Convolution(
        chip=planning.chip,
        node=operation.node.index,
        weights=weights,
        weight_zero_point=0,
        bias=bias,
        ratios=np.empty(0),
        per_channel=False,
        activation=options.activation,
        output_scale=target.scale,
        output_zero_point=target.zero_point,
        source=source,
        target=target,
        input_view=source.elements,
        output_view=result,
        strides=(options.stride_h, options.stride_w),
        dilations=(options.dilation_h, options.dilation_w),
        padding=padding,
        is_depthwise=is_depthwise,
        spread=spread,
        element=source.element,
    )


def resolved(
    planning: Planning,
    operation: Operation,
    options: ConvolutionOptions,
    weights: DeviceWeights,
    *,
    is_depthwise: bool = False,
    output_view: View | None = None,
    scales_in_float32: bool | None = None,
    rounds_once: bool = False,
    spread: tuple[int, int] = (1, 1),
    source: DeviceTensor | None = None,
) -> Convolution:
    """Return the convolution that ``operation`` is, before the host folds what it reads.
    ``weights``: OHWI of all input channels, or HWC of a depthwise convolution; those of float32
    tensors as the model has them, since tasks are in fp16 then. ``output_view``: the result as the
    convolution sees it, if that is not as its shape says. ``scales_in_float32``: see
    ``real_ratios``; ``rounds_once``: see ``Graph``; ``spread``: see ``Convolution``. ``source``:
    what the first operand is made before; None: nothing.
    """
    source = source or planning.tensor(operation.operands[0])
    seen = source if source.fold is None else host_tensor(source)
    values = weights.values
    kh, kw = values.shape[:2] if is_depthwise else values.shape[1:3]
    result = output_view or planning.tensor(operation.result).elements
    padding = operation.padding or paddings(options, seen.elements, result, kh, kw)
    bare = convolution_of(
        *(planning, operation, options, values, weights.bias, result, padding),
        is_depthwise=is_depthwise,
        spread=spread,
    )
    if bare.element is Element.FP16:
        return bare
    x, given, y = (planning.graph.tensor(t) for t in (*operation.node.inputs[:2], operation.result))
    assert given.quantization is not None
    return replace(
        bare,
        weight_zero_point=weights.zero_point,
        ratios=real_ratios(x, given, y, result.channels, in_float32=scales_in_float32),
        rounds_once=rounds_once,
        per_channel=given.quantization.is_per_channel,
        source=seen,
        input_view=seen.view,
    )


def plan_convolution(planning: Planning, operation: Operation, conv: Convolution) -> Plan:
    """Plan ``conv``, which ``operation`` is, see ``resolved``. Raises LoweringError."""
    if conv.element is Element.FP16:
        return _planned_half(planning, operation, conv)
    source = planning.tensor(operation.operands[0])
    if source.fold is not None:
        conv = fold_convolution(conv, source)
    # On parts of images where tensors allow that, in parts where scales are too far apart.
    found = tiled_convolution(planning, operation, conv, has_parts=True)
    if not conv.per_channel or rounds_twice(planning.chip, conv.kind, per_channel=True):
        return found.plan
    whole = found
    if found.is_in_parts:  # those parts are of whole images
        whole = tiled_convolution(planning, operation, conv)
    return split_by_scale(whole) or found.plan


def cost_whole(planning: Planning, operation: Operation, conv: Convolution) -> int | None:
    """Return the modelled cycles of ``conv``, launches included. None: it cannot run, or not
    without parts whose channels have scales of one size.
    """
    try:
        found = tiled_convolution(planning, operation, conv, has_parts=True)
        share = requantized(found.conv, found.conv.wanted).share
    except LoweringError:
        return None
    is_near = rounds_twice(conv.chip, conv.kind, per_channel=True) or share <= MOST_DIFFERING
    return found.cost_cycles if is_near else None


def _planned_half(planning: Planning, operation: Operation, conv: Convolution) -> Plan:
    """Round the weights of ``conv`` to fp16, which counts in the bound of results, and plan it."""
    # On demand: few models are in float.
    from delegate.lower.half.curves import clamped
    from delegate.lower.half.rounding import rounded_weights
    from delegate.lower.half.stages import convolution_bound, half_clamp

    exact, is_depthwise, spread = conv.weights, conv.is_depthwise, conv.spread
    weights = rounded_weights(exact, is_depthwise=is_depthwise, spread=spread)
    half, behind = replace(conv, weights=weights), Activation.NONE
    if spread != (1, 1):
        half, behind = replace(half, activation=behind), conv.activation
    plan = tiled_convolution(planning, operation, half).plan.within(convolution_bound(half, exact))
    return clamped(planning, plan, half_clamp(behind))


GEOMETRY = (
    same_batch,
    kernel_in_range,
    strides_in_range,
    dilation_in_range,
    output_size_follows,
    padding_in_range,
)
