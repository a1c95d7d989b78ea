"""Means under windows in fp16: a depthwise convolution with weights of about one over the number of
pixels. Larger windows than a convolution has are means of means, the first of which lie in a work
area. Imported for float models only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.lower.conv_spec import Convolution
from delegate.lower.conv_tasks import tile_tasks
from delegate.lower.convolution import TiledConvolution, tiled_convolution
from delegate.lower.half.rounding import shares
from delegate.lower.half.stages import half_conv_stages, mean_bound
from delegate.lower.lowered import HalfBound, Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.operation import Memory, Operation, Plan, Planning
from delegate.lower.selection import Move, Moving
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.geometry import Axis, Pooling
from delegate.model.graph import Activation, Padding
from delegate.ops.shared.convolution import (
    ConvolutionOptions,
    convolution_of,
    most_kernel,
    most_stride,
)
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.pooling import counts, regions, summing_footprint


@dataclass(frozen=True, slots=True)
class _Step:
    """One axis of a convolution: the window, its stride, and how many results."""

    kernel: int
    stride: int
    output: int


def steps(chip: Chip, axis: Axis) -> tuple[_Step, ...] | None:
    """Return the means of ``axis``, as means of means side by side where a window is larger than a
    kernel may be. None: they are none.
    """
    kernels = [axis.kernel]
    while kernels[-1] > most_kernel(chip):
        whole = (n for n in range(most_stride(chip), 1, -1) if kernels[-1] % n == 0)
        part = next(whole, None)
        if part is None:
            return None
        kernels[-1:] = [part, kernels[-1] // part]
    stride, apart = divmod(axis.stride, math.prod(kernels[:-1])) if axis.output_size > 1 else (1, 0)
    if apart:
        return None
    found = [_Step(kernels[-1], stride, axis.output_size)]
    for kernel in reversed(kernels[:-1]):
        after = found[0]
        found.insert(0, _Step(kernel, kernel, (after.output - 1) * after.stride + after.kernel))
    return tuple(found)


def _means_of_means(convs: Sequence[TiledConvolution], bound: HalfBound) -> Plan:
    """Plan means of means: each of ``convs`` reads what the one before it writes. All are of the
    whole operation, whose operand and result they have in common.
    """
    operation = convs[0].operation
    ends = operation.operands[0], operation.result
    between = [
        replace(before.conv.target, surfaces=max(before.surfaces_written, after.surfaces_read))
        for before, after in itertools.pairwise(convs)
    ]

    def emit(memory: Memory) -> Layer:
        place, placed = memory.work, []
        for tensor in between:
            placed.append(replace(tensor, location=place))
            place = place.moved(tensor.size_bytes)
        tensors = [memory.tensors[ends[0]], *placed, memory.tensors[ends[1]]]
        layers = [
            conv.emit(replace(memory, tensors=dict(zip(ends, pair, strict=True))))
            for conv, pair in zip(convs, itertools.pairwise(tensors), strict=True)
        ]
        tasks = tuple(task for layer in layers for task in layer.tasks)
        choice = f"means of means, {layers[-1].choice}"
        return replace(layers[-1], tasks=tasks, choice=choice).within(bound)

    footprint = Footprint(
        operation.node,
        ((ends[0], convs[0].surfaces_read),),
        ends[1],
        convs[-1].surfaces_written,
        work_bytes=sum(tensor.size_bytes for tensor in between),
    )
    return Plan(operation, footprint, emit)


def plan_mean(
    planning: Planning, operation: Operation, pooling: Pooling, activation: Activation
) -> Plan:
    """Plan a mean under windows. Raises LoweringError."""
    if pooling.is_padded:
        return _bordered(planning, operation, pooling, activation)
    sides = [steps(planning.chip, side) for side in (pooling.rows, pooling.columns)]
    rows, columns = (side or () for side in sides)  # the rules ran before: there are some
    count = max(len(rows), len(columns))
    rows = (_Step(1, 1, pooling.rows.input_size),) * (count - len(rows)) + rows
    columns = (_Step(1, 1, pooling.columns.input_size),) * (count - len(columns)) + columns
    convs: list[Convolution] = []
    for number, window in enumerate(zip(rows, columns, strict=True), start=1):
        conv = _means(
            planning, operation, *window, activation if number == count else Activation.NONE
        )
        if convs:
            between = convs[-1].target
            conv = replace(conv, source=between, input_view=between.elements)
        if number < count:
            view = replace(conv.source.view, height=window[0].output, width=window[1].output)
            conv = replace(
                conv, target=replace(conv.source, view=view, fold=None, within=None, gap_pixels=0)
            )
        convs.append(conv)
    bound = mean_bound(*convs)
    if count == 1:
        return tiled_convolution(planning, operation, convs[0]).plan.within(bound)
    return _means_of_means([tiled_convolution(planning, operation, conv) for conv in convs], bound)


def _bordered(
    planning: Planning, operation: Operation, pooling: Pooling, activation: Activation
) -> Plan:
    """Plan image by image, with weights for as many pixels as lie within it: those around it count
    as 0 in the sums, and not in their number.
    """
    rows, columns = pooling.rows, pooling.columns
    down, right = (_Step(side.kernel, side.stride, side.output_size) for side in (rows, columns))
    whole = _means(planning, operation, down, right, activation)
    whole = replace(whole, padding=(rows.pad, columns.pad))
    taps = rows.kernel * columns.kernel
    inside = [*itertools.product(regions(rows), regions(columns))]

    def tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor, _: Ref) -> Iterator[Task]:
        conv = replace(
            whole,
            source=source,
            target=target,
            input_view=source.elements,
            output_view=target.elements,
        )
        for (row, high), (column, wide) in inside:
            part, count = conv, high * wide
            if count < taps:  # which of the taps count differs
                part = replace(conv, weights=np.full_like(conv.weights, 1 / count))
            stages = half_conv_stages(part, moving.constants)
            yield from tile_tasks(part, stages, moving.constants, (row, column))

    touched = summing_footprint(planning, operation)
    ((_, reads),) = touched.reads
    move = Move(tasks, reads, touched.writes, surface_pixels=touched.surface_pixels)
    found = move_plan(planning, operation, move, by_image=True, as_bytes=False)
    return found.within(mean_bound(whole, counts=counts(pooling)))


def _means(
    planning: Planning, operation: Operation, rows: _Step, columns: _Step, activation: Activation
) -> Convolution:
    """Return the convolution for means of whole windows; its source and target may be others."""
    view = planning.tensor(operation.operands[0]).elements
    options = ConvolutionOptions(Padding.VALID, rows.stride, columns.stride, 1, 1, activation)
    sides = rows.kernel, columns.kernel
    weights = np.repeat(shares(math.prod(sides)).reshape(*sides, 1), view.channels, axis=2)
    bias = np.zeros(view.channels, np.float32)
    result = View(view.images, rows.output, columns.output, view.channels)
    return convolution_of(planning, operation, options, weights, bias, result, is_depthwise=True)
