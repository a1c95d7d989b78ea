"""Lower dense, depthwise and fully connected convolutions: from resolved integers to a layer of
tasks.

In: a ``Convolution`` (weights and bias in the device's domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.conv_geometry import (
    group_of,
    plan_rows,
    programmed_channels,
)
from delegate.lower.conv_stages import JoinedStages, conv_stages, joined_stages
from delegate.lower.conv_tasks import folded_text, operand_channels, tasks_of_plan
from delegate.lower.conv_weights import pack_weights
from delegate.lower.half_bound import HalfBound
from delegate.lower.known_stages import rounds_twice
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.operation import Follower, Memory, Operation, Plan, Planning, layer_of
from delegate.lower.resolved import Convolution
from delegate.lower.rules import FORM_IS_KNOWN, KERNEL_SIZE_IN_RANGE
from delegate.lower.square_kernels import square_kernel
from delegate.lower.task import Task
from delegate.lower.tiling.input_groups import InputGroups
from delegate.lower.tiling.pixel_rows import rows_text
from delegate.lower.tiling.sections import in_sections, sections_text
from delegate.lower.tiling.tiles import TilePlan


@dataclass(frozen=True, slots=True, eq=False)
class PlannedConvolution:
    """How ``conv``, whose tensors need no place yet, becomes tasks: tiles, or
    groups of input channels. ``whole``: ``conv`` on whole images, which it may see in
    sections. ``bound``: of results in fp16.
    """

    planning: Planning
    operation: Operation
    conv: Convolution
    plan: TilePlan | InputGroups
    whole: Convolution
    joined: JoinedStages | None = None
    bound: HalfBound | None = None

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        reads = ((operation.operands[0], self.surfaces_read),)
        written = self.surfaces_written
        return Footprint(
            *(operation.node, reads, operation.result, written),
            work_bytes=self._work_bytes,
            surface_pixels=self.conv.chip.forms.surface_pixels(self.conv.is_depthwise),
            unwritten=self._unwritten,
        )

    @property
    def _unwritten(self) -> int:
        """Sections write no more surfaces than there are."""
        if self.conv.sections == 1:
            return 0
        groups, channels = self.conv.chip.groups, self.whole.output_view.channels
        return groups.surfaces_written(channels, is_depthwise=False) - self.surfaces_written

    @property
    def _work_bytes(self) -> int:
        if not isinstance(self.plan, InputGroups):
            return 0
        from delegate.lower.partial_sums import work_bytes  # on demand: few models need groups

        return work_bytes(self.conv)

    def followed_by(self, planning: Planning, plan: Follower) -> Plan | None:
        """Both in one task per tile; on whole images, where sections do not allow that."""
        found = self._followed_by(planning, plan)
        if found is not None or self.conv.sections == 1 or self.joined is not None:
            return found
        whole = planned_convolution(planning, self.operation, self.whole)
        return whole.followed_by(planning, plan)

    def _followed_by(self, planning: Planning, plan: Follower) -> Plan | None:
        if isinstance(self.plan, InputGroups) or self.conv.element is Element.FP16:
            return None
        if self.joined is not None:
            return None
        result, writes = plan.operation.result, plan.footprint.writes
        if self.conv.sections > 1 and not planning.has_whole_surfaces(result):
            return None
        if result in planning.joined and writes != self.surfaces_written:
            return None
        joined = joined_stages(self.conv, plan.results)
        if joined is None:
            return None
        nodes = (*self.operation.nodes, *plan.operation.nodes)
        operation = replace(self.operation, nodes=nodes, result=result)
        return replace(self, operation=operation, joined=joined)

    def lower(self, memory: Memory) -> Layer:
        """Packs the constants, chooses the stages and makes the tasks. Raises LoweringError."""
        sections = self.conv.sections
        source = in_sections(memory.tensors[self.operation.operands[0]], sections)
        target = in_sections(memory.tensors[self.operation.result], sections)
        conv = replace(self.conv, source=source, target=target)
        tasks, choice = self._tasks(conv, memory)
        layer = layer_of(self.planning, self.operation, tasks, choice)
        if self.joined is not None:
            return replace(layer, difference=self.joined.difference)
        return layer.within(self.bound)

    def _tasks(self, conv: Convolution, memory: Memory) -> tuple[list[Task], str]:
        """Tasks of ``conv``, placed, and what they are."""
        constants = memory.constants
        if isinstance(self.plan, InputGroups):
            from delegate.lower.partial_sums import lower_input_groups

            return lower_input_groups(conv, self.plan, constants, memory.work.place)
        weights = pack_weights(conv, constants)
        stages = conv_stages(conv, operand_channels(conv), constants, self.joined)
        tasks: list[Task] = [*tasks_of_plan(conv, self.plan, weights, stages)]
        seen = folded_text(conv) + sections_text(conv) + rows_text(conv)
        return tasks, seen + self.plan.choice

    @property
    def surfaces_read(self) -> int:
        """Surfaces of the source that tasks read, from the first one on."""
        surfaces = programmed_channels(self.conv) // self.conv.element.lanes
        return -(-surfaces // self.conv.sections)

    @property
    def surfaces_written(self) -> int:
        """Surfaces of the target that tasks write, from the first one on: whole groups."""
        if isinstance(self.plan, InputGroups):
            channels, is_depthwise = self.conv.output_view.channels, self.conv.is_depthwise
            return self.conv.chip.groups.surfaces_written(channels, is_depthwise=is_depthwise)
        group, lanes = group_of(self.conv), self.conv.element.lanes
        ends = (tile.part.surfaces(group, lanes).stop for tile in self.plan.tiles)
        return -(-max(ends) // self.conv.sections)


def planned_convolution(
    planning: Planning,
    operation: Operation,
    conv: Convolution,
    *,
    has_sections: bool = False,
) -> PlannedConvolution:
    """Tile the rows of every image. ``has_sections``: of images, where that is cheaper; tensors
    need whole surfaces then. Raises LoweringError.
    """
    conv = square_kernel(conv)
    if not rounds_twice(conv.chip, conv.kind, per_channel=True):
        from delegate.lower.constant_channels import with_constant_channels  # few chips need it

        conv = with_constant_channels(conv)
    if max(conv.kernel) > conv.chip.limits.kernel_size:
        raise LoweringError(
            conv.node,
            KERNEL_SIZE_IN_RANGE,
            f"it is {conv.kernel[0]} x {conv.kernel[1]}, the limit {conv.chip.limits.kernel_size}",
        )
    unknown = _unknown_form(conv)
    if unknown:
        raise LoweringError(conv.node, FORM_IS_KNOWN, unknown)
    seen, plan = plan_rows(conv, has_sections=has_sections)
    return PlannedConvolution(planning, operation, seen, plan, whole=conv)


def _unknown_form(conv: Convolution) -> str:
    """Name the first setting that no known program of the chip has; "" if there is none."""
    forms = conv.chip.forms
    pairs = {
        "kernel": conv.kernel,
        "strides": conv.strides,
        "dilations": conv.dilations,
    }
    if forms.equal_sides:
        for name, (rows, columns) in pairs.items():
            if rows != columns:
                return f"{name} {rows} x {columns}"
    return ""
