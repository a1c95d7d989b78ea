"""CONV_2D: dense and grouped convolution. Filters are OHWI.

Convolutions of strides beyond the register's, as patch embeddings have them: column by column.

Rows of one surface lie apart as surfaces do, so that the rows under a window are channels of one
row; a task starts that row anew every stride. Each column of the result is a task of its own, which
begins where its windows do: no stride is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_stages import conv_stages
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.lowered import Fold
from delegate.lower.lowering import choose_fold
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.operation import Memory, Operation, Plan, Planning
from delegate.lower.selection import Moving
from delegate.lower.task import Task
from delegate.lower.tiling.geometry import Axis
from delegate.lower.weights import DeviceWeights, device_weights, real_ratios, widen_groups
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, option
from delegate.ops.operator import GraphFacts, Operator, Role, Shape, constraint
from delegate.ops.shared import common, convolution, half_records
from delegate.ops.shared.common import weights_of
from delegate.ops.shared.convolution import ConvolutionOptions, convolution_of, paddings
from delegate.ops.shared.moving import task_plan

MOST_COLUMNS: Final = 64
"""Tasks of an image: more launches than convolutions of a network take."""


def are_patches(chip: Chip, graph: Graph, node: Node, options: ConvolutionOptions) -> bool:
    """Return whether the windows of ``node`` can be taken column by column: they lie within the
    image and in one surface, and the chip has kernels of one row.
    """
    _, height, width, channels = graph.tensor(node.inputs[0]).shape
    _, kh, kw, covered = graph.tensor(node.inputs[1]).shape
    _, rows, columns, _ = graph.tensor(node.outputs[0]).shape
    source, target = View(1, height, width, channels), View(1, rows, columns, 1)
    limits = chip.limits
    return (
        Primitive.UNEQUAL_SIDES not in chip.lacks
        and (options.dilation_h, options.dilation_w) == (1, 1)
        and paddings(options, source, target, kh, kw) == (0, 0)
        and (rows - 1) * options.stride_h + kh <= height
        and (columns - 1) * options.stride_w + kw <= width
        and covered == channels <= CHANNELS_PER_SURFACE
        and kh * CHANNELS_PER_SURFACE <= limits.input_channels
        and kw <= limits.kernel_size
        and columns <= MOST_COLUMNS
    )


def plan_patches(
    planning: Planning, operation: Operation, options: ConvolutionOptions, weights: DeviceWeights
) -> Plan:
    """``weights``: OHWI. Raises LoweringError."""
    conv = _of_a_column(planning, operation, options, weights)
    source, target = (planning.tensor(t).view for t in (operation.operands[0], operation.result))

    def tasks(memory: Memory, moving: Moving) -> Iterator[Task]:
        constants = moving.constants
        stages = conv_stages(conv, constants)
        given, made = (memory.tensors[t] for t in (operation.operands[0], operation.result))
        for image in range(source.images):
            for column in range(target.width):
                windows = given.image(image).window(
                    conv.input_view,
                    pixel=column * options.stride_w,
                    row_pixels=source.width * options.stride_h,
                    surface_bytes=source.width * ATOM_BYTES,
                )
                results = made.image(image).window(
                    conv.output_view, pixel=column, row_pixels=target.width
                )
                of_column = replace(conv, source=windows, target=results)
                for task in tile_tasks(of_column, stages, constants):
                    yield replace(task, tile=f"column {column} {task.tile}")

    written = planning.chip.groups.surfaces_written(target.channels, is_depthwise=False)
    footprint = Footprint(operation.node, ((operation.operands[0], 1),), operation.result, written)
    return task_plan(planning, operation, footprint, tasks)


def _of_a_column(
    planning: Planning, operation: Operation, options: ConvolutionOptions, weights: DeviceWeights
) -> Convolution:
    graph, node = planning.graph, operation.node
    x, given, y = (graph.tensor(t) for t in (*node.inputs[:2], operation.result))
    target = planning.tensor(operation.result).view
    assert given.quantization is not None
    outputs, kh, kw, _ = weights.values.shape
    seen = View(1, target.height, 1, target.channels)
    values = weights.values
    bare = convolution_of(
        planning, operation, options, _rows_as_channels(values, weights.zero_point),
        weights.bias, seen,
    )  # fmt: skip
    return replace(
        bare,
        weight_zero_point=weights.zero_point,
        ratios=real_ratios(x, given, y, outputs, in_float32=None),
        per_channel=given.quantization.is_per_channel,
        input_view=View(1, target.height, kw, kh * CHANNELS_PER_SURFACE),
        strides=(1, 1),
    )


def _rows_as_channels(values: npt.NDArray[Any], zero_point: int) -> npt.NDArray[Any]:
    """Return OHWI weights of one row; lanes without a channel count as zero."""
    outputs, kh, kw, channels = values.shape
    wide = np.full((outputs, 1, kw, kh, CHANNELS_PER_SURFACE), zero_point, values.dtype)
    wide[:, 0, :, :, :channels] = values.transpose(0, 2, 1, 3)
    return wide.reshape(outputs, 1, kw, kh * CHANNELS_PER_SURFACE)


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


def _is_beyond(chip: Chip, options: convolution.ConvolutionOptions) -> bool:
    return max(options.stride_h, options.stride_w) > convolution.most_stride(chip)


@constraint(most=convolution.most_stride, channels=CHANNELS_PER_SURFACE, columns=MOST_COLUMNS)
def strides_or_patches(facts: GraphFacts, node: Node) -> str | None:
    """Strides must be 1 to {most}, or more of at most {channels} channels to at most {columns}
    columns without padding and dilation.
    """
    options = convolution.geometry(facts, node)
    if min(options.stride_h, options.stride_w) >= 1 and (
        not _is_beyond(facts.chip, options) or are_patches(facts.chip, facts.graph, node, options)
    ):
        return None
    return f"they are {options.stride_h} x {options.stride_w}"


_INTEGER_GEOMETRY = tuple(
    strides_or_patches if rule is convolution.strides_in_range else rule for rule in GEOMETRY
)


def plain_options(facts: GraphFacts, node: Node) -> ConvOptions | None:
    """Return the options of a node of this operator whose weights are a constant over all channels;
    None: it is another node.
    """
    options = None if facts.known_operator(node) is None else facts.options(node)
    if not isinstance(options, ConvOptions):
        return None
    source, weights = (facts.graph.tensor(index) for index in node.inputs[:2])
    return options if convolution.have_plain_kernels(weights, source) else None


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    options = node.known_options(ConvOptions)
    return convolution.convolved(graph, node, options, graph.tensor(node.inputs[1]).shape[0])


def macs(graph: Graph, node: Node) -> int:
    """One per output element and weight of its filter."""
    weights = graph.tensor(node.inputs[1]).shape
    return math.prod(graph.tensor(node.outputs[0]).shape) * math.prod(weights[1:])


def fold(chip: Chip, graph: Graph, operation: Operation) -> tuple[View, Fold] | None:
    """Return how the host may spread windows of the input over channels."""
    node = operation.node
    options = node.known_options(ConvOptions)
    source = view_of(graph.tensor(operation.operands[0]).shape)
    target = view_of(graph.tensor(operation.result).shape)
    outputs, kh, kw, channels = graph.tensor(node.inputs[1]).shape
    # A window of single pixels has none of another kernel.
    if kh == kw == 1 or channels != source.channels or _is_beyond(chip, options):
        return None
    padding = operation.padding or convolution.paddings(options, source, target, kh, kw)
    o, (top, left) = options, padding
    rows = Axis(source.height, target.height, kh, o.stride_h, o.dilation_h, top)
    columns = Axis(source.width, target.width, kw, o.stride_w, o.dilation_w, left)
    return choose_fold(chip, source, rows, columns, outputs)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Dense; groups become kernels over all channels with weights that count as zero, or one filter
    per channel as the hardware's depthwise tasks have it.
    """
    graph, node = planning.graph, operation.node
    options = node.known_options(ConvOptions)
    if _is_beyond(planning.chip, options):
        shape = graph.tensor(node.inputs[1]).shape
        weights = device_weights(graph, node, shape[0], shape)
        return plan_patches(planning, operation, options, weights)
    conv = _resolved(planning, operation, options)
    return convolution.plan_convolution(planning, operation, conv)


def cost(planning: Planning, operation: Operation) -> int | None:
    """Return the modelled cycles, launches included; None: it has no tasks of its own."""
    options = operation.node.known_options(ConvOptions)
    if _is_beyond(planning.chip, options):
        return None
    conv = _resolved(planning, operation, options)
    return convolution.cost_whole(planning, operation, conv)


def _resolved(
    planning: Planning, operation: Operation, options: convolution.ConvolutionOptions
) -> Convolution:
    """Return kernels over all channels, or a depthwise convolution, which takes less time than
    several groups of kernels.
    """
    graph, node = planning.graph, operation.node
    outputs, kh, kw, covered = shape = graph.tensor(node.inputs[1]).shape
    weights = device_weights(graph, node, outputs, shape)
    channels = graph.tensor(node.inputs[0]).shape[-1]
    is_depthwise = covered == 1 and outputs == channels > planning.chip.groups.dense_kernels
    if is_depthwise:
        values = weights.values.reshape(outputs, kh, kw).transpose(1, 2, 0)
        weights = replace(weights, values=values)
    elif covered < channels:
        values = widen_groups(weights.values, channels, weights.zero_point)
        weights = replace(weights, values=values)
    return convolution.resolved(planning, operation, options, weights, is_depthwise=is_depthwise)


def _of_constants(graph: Graph, node: Node) -> npt.NDArray[np.generic] | None:
    activation = node.known_options(ConvOptions).activation
    return convolution.convolved_zeros(graph, node, activation)


OPERATOR = Operator(
    name="CONV_2D",
    options=ConvOptions,
    inputs=(Role.FEATURE, Role.WEIGHTS, Role.BIAS),
    needed=2,
    shapes=shapes,
    macs=macs,
    plan=plan,
    fold=fold,
    of_constants=_of_constants,
    pads_input=True,
    half=half_records.sums((convolution.convolution_rank,), GEOMETRY),
    rules=(*common.FIRST, convolution.convolution_rank, *common.WITH_WEIGHTS, *_INTEGER_GEOMETRY),
)
