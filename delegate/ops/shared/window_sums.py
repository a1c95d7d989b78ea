"""How operators that sum under windows become tasks."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.limits import CHANNELS_PER_SURFACE
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.operation import Memory, Operation, Planning, layer_of
from delegate.lower.weights import depthwise_channels
from delegate.lower.window_sums import WindowSums


def summing_footprint(planning: Planning, operation: Operation) -> Footprint:
    """Of a depthwise convolution over whole groups."""
    channels = planning.tensor(operation.operands[0]).view.channels
    groups = planning.chip.groups
    read = depthwise_channels(channels, groups) // CHANNELS_PER_SURFACE
    written = groups.surfaces_written(channels, is_depthwise=True)
    reads = ((operation.operands[0], read),)
    unit = planning.chip.forms.surface_pixels(is_depthwise=True)
    return Footprint(operation.node, reads, operation.result, written, surface_pixels=unit)


@dataclass(frozen=True, slots=True, eq=False)
class WindowSumsPlan:
    """Image by image, of which the result has as many as the input, whatever its rank."""

    planning: Planning
    operation: Operation
    sums: WindowSums

    @property
    def footprint(self) -> Footprint:
        return summing_footprint(self.planning, self.operation)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        operation, pooling = self.operation, self.sums.pooling
        source = memory.tensors[operation.operands[0]]
        target = memory.tensors[operation.result]
        height, width = pooling.rows.output, pooling.columns.output
        tasks = (
            task
            for image in range(source.view.images)
            for task in self.sums.tasks(
                source.image(image),
                target.part(image * height * width, height, width),
                memory.constants,
            )
        )
        return layer_of(self.planning, operation, tasks)
