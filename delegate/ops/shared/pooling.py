"""The common part of MAX_POOL_2D and AVERAGE_POOL_2D: options, rules, and the geometry of their
windows.

How operators that sum under windows become tasks.

Functions of the sum of the values under a window: averages and means.

A depthwise convolution with weights of 1 sums; the DPU's stages make the result. Where a window
leaves the image fewer values count, so that results with different numbers of values are different
tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.conv_stages import stages_of
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.lower.selection import Moving, Selection
from delegate.lower.task import Task
from delegate.lower.tiling.geometry import Axis, Pooling, depthwise_cycles
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Shape, constraint, named
from delegate.ops.shared.convolution import most_padding, most_stride, output_and_padding
from delegate.ops.shared.fixed_point import INT32_MAX
from delegate.ops.shared.image_rules import RANK, of_kept_values


@dataclass(frozen=True, slots=True)
class PoolOptions(Options):
    UNION_TYPE = 5
    NEEDS_TABLE = True

    padding: Padding = option(FieldKind.PADDING, slot=0, offset=0)
    stride_w: int = option(FieldKind.INT32, slot=1, offset=4, usual=1)
    stride_h: int = option(FieldKind.INT32, slot=2, offset=8, usual=1)
    filter_w: int = option(FieldKind.INT32, slot=3, offset=12, usual=1)
    filter_h: int = option(FieldKind.INT32, slot=4, offset=16, usual=1)
    activation: Activation = option(FieldKind.ACTIVATION, slot=5, offset=20)


def pool_options(node: Node) -> PoolOptions:
    """``options_known`` ran before."""
    return node.known_options(PoolOptions)


def pooling_of(graph: Graph, node: Node) -> Pooling:
    """Return how it slides over the input; the rules have checked the shapes."""
    options = pool_options(node)
    _, height, width, _ = graph.tensor(node.inputs[0]).shape
    return Pooling(
        _sides(height, options.filter_h, options.stride_h, options.padding),
        _sides(width, options.filter_w, options.stride_w, options.padding),
    )


def _sides(size: int, kernel: int, stride: int, padding: Padding) -> Axis:
    output, before = output_and_padding(size, kernel, stride, 1, padding)
    # A stride that leads nowhere may be of any size.
    return Axis(size, output, kernel, stride if output > 1 else 1, pad=before)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    images, _, _, channels = graph.tensor(node.inputs[0]).shape
    pooling = pooling_of(graph, node)
    return ((images, pooling.rows.output_size, pooling.columns.output_size, channels),)


@constraint(rank=RANK)
def pool_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank {rank}, and the same batch and channels."""
    shapes = [tensor.shape for tensor in facts.features(node)]
    if all(len(shape) == RANK for shape in shapes):
        (images, _, _, channels), other = shapes
        if (images, channels) == (other[0], other[3]):
            return None
    return " and ".join(str(list(shape)) for shape in shapes)


@constraint(stride=most_stride)
def window_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The window must have a row and a column, and strides from 1 to {stride}, larger only where
    they lead nowhere within int32.
    """
    # The runtime adds the stride to the side of the image in int32.
    o = pool_options(node)
    strides = o.stride_h, o.stride_w
    before, after = (t.shape[1:3] for t in (facts.features(node)[0], facts.outputs(node)[0]))
    is_large = any(
        stride > most_stride(facts.chip) and (output > 1 or stride + size > INT32_MAX)
        for stride, size, output in zip(strides, before, after, strict=True)
    )
    if min(o.filter_h, o.filter_w, *strides) < 1 or is_large:
        return f"it is {o.filter_h} x {o.filter_w}, the strides {o.stride_h} x {o.stride_w}"
    return None


def most_side(chip: Chip) -> int:
    """A border is part of what tasks write."""
    return chip.limits.cube_size - chip.limits.pad


@constraint(most=most_side)
def pooled_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height, width and channels must be at most {most}."""
    _, *sides = facts.features(node)[0].shape
    return f"they are {sides}" if max(sides) > most_side(facts.chip) else None


@constraint()
def pooled_size_follows(facts: GraphFacts, node: Node) -> str | None:
    """Height and width of the output must follow from input, window, strides and padding."""
    pooling = pooling_of(facts.graph, node)
    sizes = pooling.rows.output_size, pooling.columns.output_size
    output = facts.outputs(node)[0]
    if output.shape[1:3] == sizes and min(sizes) > 0:
        return None
    return f"{named(output)} is {output.shape[1]} x {output.shape[2]}, not {sizes[0]} x {sizes[1]}"


@constraint(most=most_padding)
def pool_padding_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Padding above and below, and left and right, must be at most {most} together."""
    pooling = pooling_of(facts.graph, node)
    totals = pooling.rows.padding, pooling.columns.padding
    return f"{totals[0]} and {totals[1]}" if max(totals) > most_padding(facts.chip) else None


GEOMETRY = (
    pool_rank,
    window_in_range,
    pooled_sides_in_range,
    pooled_size_follows,
    pool_padding_in_range,
)

RULES = of_kept_values(*GEOMETRY)


def summing_footprint(planning: Planning, operation: Operation) -> Footprint:
    """Return the footprint of a depthwise convolution over whole groups."""
    channels = planning.tensor(operation.operands[0]).view.channels
    groups = planning.chip.groups
    read = groups.depthwise_lanes(channels) // CHANNELS_PER_SURFACE
    written = groups.surfaces_written(channels, is_depthwise=True)
    reads = ((operation.operands[0], read),)
    unit = planning.chip.groups.surface_pixels(is_depthwise=True)
    return Footprint(operation.node, reads, operation.result, written, surface_pixels=unit)


def plan_window_sums(planning: Planning, operation: Operation, sums: WindowSums) -> Plan:
    """Return the plan of sums image by image, of which the result has as many as the input,
    whatever its rank; a line may be summed as rows, which lie behind one another.
    """
    stacked = _stacked(planning, operation, sums.pooling)
    footprint = summing_footprint(planning, operation)
    if stacked is not None:
        channels = planning.tensor(operation.operands[0]).view.channels
        per_group = planning.chip.groups.surfaces_written(CHANNELS_PER_SURFACE, is_depthwise=True)
        footprint = replace(footprint, writes=surfaces_of(channels) * per_group)

    def tasks(memory: Memory) -> Iterator[Task]:
        source = memory.tensors[operation.operands[0]]
        target = memory.tensors[operation.result]
        height, width = sums.pooling.rows.output_size, sums.pooling.columns.output_size
        image_bytes = source.view.pixels * ATOM_BYTES
        rows, columns = sums.pooling.rows.input_size, sums.pooling.columns.input_size
        view = View(1, rows, columns, source.view.channels)
        moving = Moving(planning.chip, operation.node, memory.constants)
        for image in range(source.view.images):
            given = source.image(image)
            if given.view != view:
                require_rows_together(operation.node, given)
                given = given.window(view, row_pixels=columns)
            maps = given, target.part(image * height * width, height, width)
            if stacked is not None and source.surface_stride_bytes == image_bytes:
                below = replace(sums, pooling=stacked)
                yield from below.tasks(moving, *_stack(stacked, *maps))
            else:
                yield from sums.tasks(moving, *maps)

    return plan_of(planning, operation, footprint, tasks)


def require_rows_together(node: Node, tensor: DeviceTensor) -> None:
    """Raise LoweringError unless the pixels of a surface lie one after the other, whatever rows
    they form.
    """
    if tensor.line_stride_bytes != tensor.view.width * ATOM_BYTES:
        problem = f"rows of tensor {tensor.index} lie apart in a larger one"
        raise LoweringError(node.index, TASKS_KEEP_MEMORY, problem)


def _stacked(planning: Planning, operation: Operation, pooling: Pooling) -> Pooling | None:
    """Return the windows of all surfaces, one below the other; None where that is not possible,
    unless memory has it otherwise, or takes no less time.

    A window as large as the image has one result per channel, where the array computes 16 pixels at
    a time. Surfaces lie behind one another, as rows do: seen as one map of 16 channels, whose
    windows are the surfaces, as many pixels as surfaces are results, and all have the weights of
    16 channels. Groups are written whole then as well, into room behind the result.
    """
    chip = planning.chip
    is_alone = not {*operation.operands, operation.result} & set(planning.joined)
    has_one_result = planning.tensor(operation.result).view.pixels == 1
    may_be_odd = Primitive.UNEQUAL_SIDES not in chip.lacks
    if not (pooling.is_whole and is_alone and has_one_result and may_be_odd):
        return None
    channels = planning.tensor(operation.operands[0]).view.channels
    count, size = surfaces_of(channels), pooling.rows.input_size
    if size > chip.limits.stride or count * size > chip.limits.feature_size:
        return None
    taps = size * pooling.columns.input_size
    together = depthwise_cycles(chip, count, CHANNELS_PER_SURFACE, taps)
    if together >= depthwise_cycles(chip, 1, channels, taps):
        return None
    below = Axis(count * size, count, size, size)
    return Pooling(below, replace(pooling.columns, stride=1))


def _stack(
    stacked: Pooling, source: DeviceTensor, target: DeviceTensor
) -> tuple[DeviceTensor, DeviceTensor]:
    def below(tensor: DeviceTensor, height: int, width: int) -> DeviceTensor:
        view = View(1, height, width, CHANNELS_PER_SURFACE)
        size = view.pixels * ATOM_BYTES
        return replace(tensor, view=view, surfaces=1, within=Strides(size, size))

    rows = stacked.rows
    stack = below(source, rows.input_size, stacked.columns.input_size)
    return stack, below(target, rows.output_size, 1)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSums:
    """``stages``: of sums of so many values, to which they add ``bias`` in BS first."""

    pooling: Pooling
    stages: dict[int, tuple[int, Pipeline]]

    def tasks(self, moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        """Yield the tasks of one image. Pixels around it count as 0. Raises LoweringError."""
        rows, columns = self.pooling.rows, self.pooling.columns
        shape = (rows.kernel, columns.kernel, source.view.channels)
        window = Selection(padding=(rows.pad, columns.pad), strides=(rows.stride, columns.stride))
        ones = np.ones(shape, np.int8)
        conv = moving.convolution(source, target, ones, window, is_depthwise=True)
        for (row, high), (column, wide) in product(regions(rows), regions(columns)):
            bias, pipeline = self.stages[high * wide]
            assert isinstance(pipeline.bs.add, int)
            summand = np.full(source.view.channels, bias + pipeline.bs.add, np.int64)
            found = stages_of(conv, pipeline, summand, moving.constants)
            yield from tile_tasks(conv, found, moving.constants, (row, column))


def regions(axis: Axis) -> Iterator[tuple[range, int]]:
    """Yield results whose windows have as many rows within the image, and how many these are."""
    first = 0
    counts = [_inside(axis, number) for number in range(axis.output_size)]
    for number in range(1, axis.output_size + 1):
        if number == axis.output_size or counts[number] != counts[first]:
            yield range(first, number), counts[first]
            first = number


def counts(pooling: Pooling) -> set[int]:
    """Return the numbers of values that windows hold."""
    pairs = product(regions(pooling.rows), regions(pooling.columns))
    return {high * wide for (_, high), (_, wide) in pairs}


def _inside(axis: Axis, number: int) -> int:
    start = number * axis.stride - axis.pad
    return min(start + axis.kernel, axis.input_size) - max(start, 0)
