"""What dense, depthwise and fully connected convolutions share: from resolved integers to a layer
of tasks.

In: a ``Convolution`` (weights and bias in the device's domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.element import Element
from delegate.errors import LoweringError
from delegate.lower.conv_geometry import (
    bands_of,
    geometry_of,
    group_of,
    plan_rows,
    programmed_channels,
)
from delegate.lower.conv_stages import TWO_ROUNDINGS, FusedStages, conv_stages, fused_stages
from delegate.lower.conv_tasks import folded_text, operand_channels, tasks_of_plan
from delegate.lower.conv_weights import pack_weights
from delegate.lower.half_bound import HalfBound
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.fused_prover import Added, LookedUp, LookedUpAndAdded
from delegate.lower.operation import Follower, Memory, Operation, Plan, Planning, layer_of
from delegate.lower.resolved import Convolution
from delegate.lower.rules import FORM_IS_KNOWN, KERNEL_SIZE_IN_RANGE
from delegate.lower.square_kernels import square_kernel
from delegate.lower.task import TableUse, Task
from delegate.lower.tiling.input_groups import InputGroups
from delegate.lower.tiling.pixel_rows import rows_text
from delegate.lower.tiling.sections import in_sections, sections_text
from delegate.lower.tiling.tiles import TilePlan


@dataclass(frozen=True, slots=True, eq=False)
class PlannedConvolution:
    """How ``conv``, whose tensors need no place yet, becomes tasks: tiles for each core that takes
    part, or groups of input channels. ``whole``: ``conv`` on whole images, which it may see in
    sections. ``bound``: of results in fp16.
    """

    planning: Planning
    operation: Operation
    conv: Convolution
    plan: tuple[TilePlan, ...] | InputGroups
    whole: Convolution
    fused: FusedStages | None = None
    bound: HalfBound | None = None

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        source, *others = operation.operands
        reads = ((source, self.surfaces_read), *((t, self.surfaces_written) for t in others))
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

    def followed_by(self, planning: Planning, plan: Follower, tensor: int) -> Plan | None:
        """Both in one task per tile; on whole images, where sections do not allow that."""
        found = self._followed_by(planning, plan, tensor)
        if found is not None or self.conv.sections == 1 or self.fused is not None:
            return found
        whole = planned_convolution(planning, self.operation, self.whole)
        return whole.followed_by(planning, plan, tensor)

    def _followed_by(self, planning: Planning, plan: Follower, tensor: int) -> Plan | None:
        if isinstance(self.plan, InputGroups) or self.conv.element is Element.FP16:
            return None
        following, other = plan.following(tensor)
        if not self._has_sections(planning, (plan.operation.result, other)):
            return None
        if self.fused is not None:
            before = self.fused.following
            if not (isinstance(before, LookedUp) and isinstance(following, Added)):
                return None
            following = LookedUpAndAdded(before, following)
        result, writes = plan.operation.result, plan.footprint.writes
        if result in planning.joined and writes != self.surfaces_written:
            return None
        if other is not None and not self._can_read(planning.tensor(other)):
            return None
        fused = fused_stages(self.conv, following)
        if fused is None:
            return None
        after = plan.operation
        operation = replace(
            self.operation,
            nodes=(*self.operation.nodes, *after.nodes),
            operands=(self.operation.operands[0], *(() if other is None else (other,))),
            result=after.result,
        )
        return replace(self, operation=operation, fused=fused)

    def _has_sections(self, planning: Planning, tensors: Sequence[int | None]) -> bool:
        """Whether ``tensors`` can be seen as ``conv`` sees its own; None: there is none."""
        return self.conv.sections == 1 or all(
            tensor is None or planning.has_whole_surfaces(tensor) for tensor in tensors
        )

    def _can_read(self, other: DeviceTensor) -> bool:
        """Whether tasks read what they add: whole rows of whole groups of channels, which is known
        of dense convolutions.
        """
        assert not isinstance(self.plan, InputGroups)
        if self.conv.is_depthwise:
            return False
        out, group = self.conv.output_view, group_of(self.conv)
        seen = self.whole.output_view
        has_shape = (other.view.images, other.view.pixels) == (seen.images, seen.pixels)
        return (
            has_shape
            and other.view.channels == seen.channels
            and all(
                tile.columns.output_size == out.width and tile.part.first % group == 0
                for plan in self.plan
                for tile in plan.tiles
            )
        )

    def lower(self, memory: Memory) -> Layer:
        """Packs the constants, chooses the stages and makes the tasks. Raises LoweringError."""
        sections = self.conv.sections
        source, *others = (
            in_sections(memory.tensors[t], sections) for t in self.operation.operands
        )
        target = in_sections(memory.tensors[self.operation.result], sections)
        conv = replace(self.conv, source=source, target=target)
        tasks, choice = self._tasks(conv, memory, others[0] if others else None)
        layer = layer_of(self.planning, self.operation, tasks, choice)
        if self.fused is not None:
            return replace(layer, difference=self.fused.difference)
        return layer.within(self.bound)

    def _tasks(
        self, conv: Convolution, memory: Memory, other: DeviceTensor | None
    ) -> tuple[list[Task], str]:
        """Of ``conv``, placed, and what they are. ``other``: what they add to its result."""
        fused, constants = self.fused, memory.constants
        if isinstance(self.plan, InputGroups):
            from delegate.lower.partial_sums import lower_input_groups

            return lower_input_groups(conv, self.plan, constants, memory.work.place)
        weights = pack_weights(conv, constants)
        stages = conv_stages(conv, operand_channels(conv), constants, fused, other)
        if fused is not None and fused.pipeline.table is not None:
            results = fused.pipeline.table.results.astype(np.int8).tobytes()
            stages = stages._replace(table=TableUse((results,), 0, first=0))
        tasks: list[Task] = []
        for core, plan in enumerate(self.plan):
            tasks += tasks_of_plan(conv, plan, weights, stages, core, other)
        seen = folded_text(conv) + sections_text(conv) + rows_text(conv)
        choice = seen + self.plan[0].choice
        if len(self.plan) > 1:
            choice = f"rows over {len(self.plan)} cores; the first: {choice}"
        return tasks, choice

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
        ends = (tile.part.surfaces(group, lanes).stop for p in self.plan for tile in p.tiles)
        return -(-max(ends) // self.conv.sections)


def planned_convolution(
    planning: Planning,
    operation: Operation,
    conv: Convolution,
    *,
    is_shared: bool = True,
    has_sections: bool = False,
) -> PlannedConvolution:
    """Tiles the rows of every image, in bands for several cores if that gains and ``is_shared``.
    ``has_sections``: of images, where that is cheaper; tensors need whole surfaces then. Raises
    LoweringError.
    """
    conv = square_kernel(conv)
    if not conv.chip.knows(*TWO_ROUNDINGS):
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
    if not isinstance(plan, InputGroups):
        sharing = planning.sharing if is_shared else None
        bands = bands_of(seen, geometry_of(seen), plan, sharing)
        return PlannedConvolution(planning, operation, seen, bands, whole=conv)
    return PlannedConvolution(planning, operation, seen, plan, whole=conv)


def _unknown_form(conv: Convolution) -> str:
    """What no program of the chip is known to have; "" if there is nothing."""
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
