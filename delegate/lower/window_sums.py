"""Functions of the sum of the values under a window: averages and means.

A depthwise convolution with weights of 1 sums; the DPU's stages make the result. Where a window
leaves the image fewer values count, so that results with different numbers of values are different
tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from delegate.lower.conv_stages import packed_operands, requantizing_stages
from delegate.lower.conv_tasks import operand_channels, tile_tasks
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.selection import Moving, Selection
from delegate.lower.task import Task
from delegate.lower.tiling.pooling import PooledAxis, Pooling


@dataclass(frozen=True, slots=True, eq=False)
class WindowSums:
    """``stages``: of sums of so many values, to which they add ``bias`` in BS first."""

    pooling: Pooling
    stages: dict[int, tuple[int, Pipeline]]

    def tasks(self, moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
        """Yield the tasks of one image. Pixels around it count as 0. Raises LoweringError."""
        rows, columns = self.pooling.rows, self.pooling.columns
        shape = (rows.kernel, columns.kernel, source.view.channels)
        window = Selection(
            padding=(rows.before, columns.before), strides=(rows.stride, columns.stride)
        )
        ones = np.ones(shape, np.int8)
        conv = moving.convolution(source, target, ones, window, is_depthwise=True)
        channels, constants = operand_channels(conv), moving.constants
        for (row, high), (column, wide) in product(regions(rows), regions(columns)):
            bias, pipeline = self.stages[high * wide]
            assert isinstance(pipeline.bs.add, int)
            summand = np.full(source.view.channels, bias + pipeline.bs.add, np.int64)
            operands = constants.add(packed_operands(conv, pipeline, summand, channels))
            found = requantizing_stages(conv, pipeline, operands, channels, constants)
            yield from tile_tasks(conv, found, constants, (row, column))


def regions(axis: PooledAxis) -> Iterator[tuple[range, int]]:
    """Results whose windows have as many rows within the image, and how many these are."""
    first = 0
    counts = [_inside(axis, number) for number in range(axis.output)]
    for number in range(1, axis.output + 1):
        if number == axis.output or counts[number] != counts[first]:
            yield range(first, number), counts[first]
            first = number


def counts(pooling: Pooling) -> set[int]:
    """Numbers of values that windows hold."""
    pairs = product(regions(pooling.rows), regions(pooling.columns))
    return {high * wide for (_, high), (_, wide) in pairs}


def _inside(axis: PooledAxis, number: int) -> int:
    start = number * axis.stride - axis.before
    return min(start + axis.kernel, axis.size) - max(start, 0)
