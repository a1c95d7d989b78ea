"""How operators that sum under windows become tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.cost import depthwise_cycles
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.selection import Moving
from delegate.lower.task import Task
from delegate.lower.tiling.pooling import PooledAxis, Pooling
from delegate.lower.weights import depthwise_channels
from delegate.lower.window_sums import WindowSums


def summing_footprint(planning: Planning, operation: Operation) -> Footprint:
    """Return the footprint of a depthwise convolution over whole groups."""
    channels = planning.tensor(operation.operands[0]).view.channels
    groups = planning.chip.groups
    read = depthwise_channels(channels, groups) // CHANNELS_PER_SURFACE
    written = groups.surfaces_written(channels, is_depthwise=True)
    reads = ((operation.operands[0], read),)
    unit = planning.chip.forms.surface_pixels(is_depthwise=True)
    return Footprint(operation.node, reads, operation.result, written, surface_pixels=unit)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSumsPlan:
    """Image by image, of which the result has as many as the input, whatever its rank.

    A window as large as the image has one result per channel, where the array computes 16 pixels at
    a time. Surfaces lie behind one another, as rows do: seen as one map of 16 channels, whose
    windows are the surfaces, as many pixels as surfaces are results, and all have the weights of
    16 channels. Groups are written whole then as well, into room behind the result.
    """

    planning: Planning
    operation: Operation
    sums: WindowSums

    @property
    def footprint(self) -> Footprint:
        found = summing_footprint(self.planning, self.operation)
        if not self._is_stacked:
            return found
        groups = self.planning.chip.groups
        per_group = groups.surfaces_written(CHANNELS_PER_SURFACE, is_depthwise=True)
        return replace(found, writes=surfaces_of(self._channels) * per_group)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        return layer_of(self.planning, self.operation, self._tasks(memory))

    def _tasks(self, memory: Memory) -> Iterator[Task]:
        operation, pooling = self.operation, self.sums.pooling
        source = memory.tensors[operation.operands[0]]
        target = memory.tensors[operation.result]
        height, width = pooling.rows.output, pooling.columns.output
        image_bytes = source.view.pixels * ATOM_BYTES
        moving = Moving(self.planning.chip, operation.node, memory.constants)
        is_stacked = self._is_stacked and source.surface_stride_bytes == image_bytes
        for image in range(source.view.images):
            maps = source.image(image), target.part(image * height * width, height, width)
            if is_stacked:
                sums = replace(self.sums, pooling=self._stacked)
                yield from sums.tasks(moving, *self._stack(*maps))
            else:
                yield from self.sums.tasks(moving, *maps)

    @property
    def _channels(self) -> int:
        return self.planning.tensor(self.operation.operands[0]).view.channels

    @property
    def _stacked(self) -> Pooling:
        """Return the windows of all surfaces, one below the other."""
        rows, columns = self.sums.pooling.rows, self.sums.pooling.columns
        count = surfaces_of(self._channels)
        below = PooledAxis(count * rows.size, count, rows.size, rows.size, 0, 0)
        return Pooling(below, replace(columns, stride=1))

    @property
    def _is_stacked(self) -> bool:
        """Whether that is possible, unless memory has it otherwise, and takes less time."""
        chip, operation, pooling = self.planning.chip, self.operation, self.sums.pooling
        sides = pooling.rows, pooling.columns
        is_whole = all((s.kernel, s.output, s.padding) == (s.size, 1, 0) for s in sides)
        is_alone = not {*operation.operands, operation.result} & set(self.planning.joined)
        has_one_result = self.planning.tensor(operation.result).view.pixels == 1
        if not (is_whole and is_alone and has_one_result) or chip.forms.operand_blocks:
            return False
        below = self._stacked.rows
        if below.stride > chip.limits.stride or below.size > chip.limits.feature_size:
            return False
        taps = sides[0].size * sides[1].size
        each = depthwise_cycles(chip, 1, self._channels, taps)
        return depthwise_cycles(chip, below.output, CHANNELS_PER_SURFACE, taps) < each

    def _stack(
        self, source: DeviceTensor, target: DeviceTensor
    ) -> tuple[DeviceTensor, DeviceTensor]:
        rows, columns = self._stacked.rows, self._stacked.columns

        def stacked(tensor: DeviceTensor, height: int, width: int) -> DeviceTensor:
            view = View(1, height, width, CHANNELS_PER_SURFACE)
            size = view.pixels * ATOM_BYTES
            return replace(tensor, view=view, surfaces=1, within=Strides(size, size))

        return stacked(source, rows.size, columns.size), stacked(target, rows.output, 1)
