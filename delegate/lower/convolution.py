"""Lower dense, depthwise and fully connected convolutions: from resolved integers to a layer of
tasks.

In: a ``Convolution`` (weights and bias in the device's domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from delegate.chip.element import ATOM_BYTES, Element, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.constant_channels import (
    with_constant_channels,
    with_known_taps,
    with_settled_channels,
)
from delegate.lower.conv_spec import Convolution, group_of, programmed_channels
from delegate.lower.conv_stages import conv_stages, joined_stages, stages_with_sum
from delegate.lower.conv_tasks import operand_channels, pack_weights, tasks_of_plan
from delegate.lower.image_parts import in_parts, plan_rows, row_pairs_of, sections_of, seen_text
from delegate.lower.legalize import refusal, rounds_twice, with_equal_sides
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.numerics.pipeline import Int64Array, Joined
from delegate.lower.operation import Memory, Operation, Plan, Planning, layer_of
from delegate.lower.rules import FORM_IS_KNOWN, KERNEL_SIZE_IN_RANGE
from delegate.lower.task import Task, TaskKind
from delegate.lower.tiling.choices import InputGroups
from delegate.lower.tiling.geometry import ddr_cycles
from delegate.lower.tiling.tiles import TilePlan


@dataclass(frozen=True, slots=True, eq=False)
class TiledConvolution:
    """A convolution, whose tensors need no place yet, cut into tiles or groups of input channels.

    ``whole``: ``conv`` on whole images, which it may see in parts. ``joined``: the stages with
    ``function``, the results of a function of a value that follows, or with ``summand``, a map that
    is added.
    """

    planning: Planning
    operation: Operation
    conv: Convolution
    tiles: TilePlan | InputGroups
    whole: Convolution
    joined: Joined | None = None
    function: Int64Array | None = None
    summand: int | None = None

    @property
    def plan(self) -> Plan:
        """Return the plan of all tasks."""
        operation, is_depthwise, work = self.operation, self.conv.is_depthwise, 0
        if isinstance(self.tiles, InputGroups):
            from delegate.lower.partial_sums import work_bytes  # on demand: few models need groups

            work = work_bytes(self.conv)
        reads: tuple[tuple[int, int], ...] = ((operation.operands[0], self.surfaces_read),)
        if self.summand is not None:
            reads += ((self.summand, self.surfaces_written),)
        footprint = Footprint(
            operation.node,
            reads,
            operation.result,
            self.surfaces_written,
            work_bytes=work,
            surface_pixels=self.conv.chip.groups.surface_pixels(is_depthwise),
        )
        completed = self._completed if self.is_in_parts else None
        return Plan(
            *(operation, footprint, self.emit),
            followed_by=self._followed_by,
            completed=completed,
        )

    def _completed(self) -> Plan:
        """Return the plan on whole images: parts write no more surfaces than there are."""
        found = tiled_convolution(self.planning, self.operation, self.whole)
        if self.function is None:
            return found.plan
        joined = joined_stages(found.conv, self.function)
        return self.plan if joined is None else replace(found, joined=joined).plan

    def _followed_by(self, planning: Planning, plan: Plan) -> Plan | None:
        """Return both in one task per tile; on whole images, where parts do not allow that and
        gain less than it does.
        """
        found = self._joined(planning, plan)
        if found is None and self.is_in_parts and self.joined is None:
            whole = tiled_convolution(planning, self.operation, self.whole)
            if whole.cost_cycles <= self.cost_cycles + self._cost_apart(planning, plan):
                found = whole._joined(planning, plan)
        return None if found is None else found.plan

    def _cost_apart(self, planning: Planning, plan: Plan) -> int:
        """Return about what ``plan`` costs in a task of its own, which moves maps of one size."""
        chip, view = self.conv.chip, planning.tensor(plan.operation.result).view
        maps = 1 + len(plan.footprint.reads)
        moved = maps * view.images * view.pixels * surfaces_of(view.channels) * ATOM_BYTES
        return chip.rates.kick_cycles + ddr_cycles(chip, moved)

    def _joined(self, planning: Planning, plan: Plan) -> TiledConvolution | None:
        if isinstance(self.tiles, InputGroups) or self.conv.element is Element.FP16:
            return None
        if self.joined is not None:
            return None
        if plan.results is None:
            return self._with_sum(planning, plan)
        result, writes = plan.operation.result, plan.footprint.writes
        is_apart = self.is_in_parts and not self.conv.are_rows
        if is_apart and not planning.has_whole_surfaces(result):
            return None
        if result in planning.joined and writes != self.surfaces_written:
            return None
        joined = joined_stages(self.conv, plan.results)
        if joined is None:
            return None
        nodes = (*self.operation.nodes, *plan.operation.nodes)
        operation = replace(self.operation, nodes=nodes, result=result)
        return replace(self, operation=operation, joined=joined, function=plan.results)

    def _with_sum(self, planning: Planning, plan: Plan) -> TiledConvolution | None:
        """Return both in one task per tile, if its maps are as EW reads them behind a convolution:
        whole rows, a surface behind the other.
        """
        operation, result, conv = self.operation, plan.operation.result, self.conv
        (other,) = (tensor for tensor in plan.summands if tensor != operation.result)
        assert isinstance(self.tiles, TilePlan)
        is_plain = (
            conv.parts[1] == 1
            and conv.kind is TaskKind.DENSE
            and planning.tensor(operation.result).view == planning.tensor(result).view
            and all(map(planning.has_whole_surfaces, (other, result)))
            and all(tile.columns.output_size == conv.output_view.width for tile in self.tiles.tiles)
        )
        if not is_plain:
            return None
        joined = stages_with_sum(conv, planning.tensor(other), planning.tensor(result))
        if joined is None:
            return None
        nodes = (*operation.nodes, *plan.operation.nodes)
        operands = (*operation.operands, other)
        whole = replace(operation, nodes=nodes, operands=operands, result=result)
        return replace(self, operation=whole, joined=joined, summand=other)

    def emit(self, memory: Memory) -> Layer:
        """Pack the constants, choose the stages and make the tasks. Raises LoweringError."""
        given, made = self.operation.operands[0], self.operation.result
        conv, (of_source, of_target) = self.conv, self.conv.parts
        source = in_parts(memory.tensors[given], conv, of_source)
        target = in_parts(memory.tensors[made], conv, of_target)
        conv = replace(conv, source=source, target=target)
        tasks, choice = self._tasks(conv, memory)
        layer = layer_of(self.planning, self.operation, tasks, choice)
        if self.joined is not None:
            return replace(layer, told=self.joined.differs)
        return layer

    def _tasks(self, conv: Convolution, memory: Memory) -> tuple[list[Task], str]:
        """Tasks of ``conv``, placed, and what they are."""
        constants = memory.constants
        if isinstance(self.tiles, InputGroups):
            from delegate.lower.partial_sums import lower_input_groups

            return lower_input_groups(conv, self.tiles, constants, memory.work)
        weights = pack_weights(conv, constants)
        stages = conv_stages(conv, operand_channels(conv), constants, self.joined)
        summand = None if self.summand is None else memory.tensors[self.summand]
        tasks: list[Task] = [*tasks_of_plan(conv, self.tiles, weights, stages, summand)]
        return tasks, seen_text(conv) + self.tiles.choice

    @property
    def is_in_parts(self) -> bool:
        """Return whether it sees parts of images as channels."""
        return self.conv.parts != (1, 1)

    @property
    def cost_cycles(self) -> int:
        """Return the cycles of tiles with their kicks; groups of input channels have no parts."""
        return self.tiles.cost_cycles if isinstance(self.tiles, TilePlan) else sys.maxsize

    @property
    def surfaces_read(self) -> int:
        """Surfaces of the source that tasks read, from the first one on."""
        surfaces = programmed_channels(self.conv) // self.conv.element.lanes
        return -(-surfaces // self.conv.parts[0])

    @property
    def surfaces_written(self) -> int:
        """Surfaces of the target that tasks write, from the first one on: whole groups."""
        if isinstance(self.tiles, InputGroups):
            channels, is_depthwise = self.conv.output_view.channels, self.conv.is_depthwise
            return self.conv.chip.groups.surfaces_written(channels, is_depthwise=is_depthwise)
        group, lanes = group_of(self.conv), self.conv.element.lanes
        ends = (tile.part.surfaces(group, lanes).stop for tile in self.tiles.tiles)
        return -(-max(ends) // self.conv.parts[1])


def tiled_convolution(
    planning: Planning,
    operation: Operation,
    conv: Convolution,
    *,
    has_parts: bool = False,
) -> TiledConvolution:
    """Tile the rows of every image, or with ``has_parts`` of the parts of it, as tensors allow
    that, where that is cheaper. Raises LoweringError.
    """
    conv = with_settled_channels(with_known_taps(with_equal_sides(conv)))
    if not rounds_twice(conv.chip, conv.kind, per_channel=True):
        conv = with_constant_channels(conv)
    if max(conv.kernel) > conv.chip.limits.kernel_size:
        raise LoweringError(
            conv.node,
            KERNEL_SIZE_IN_RANGE,
            f"it is {conv.kernel[0]} x {conv.kernel[1]}, the limit {conv.chip.limits.kernel_size}",
        )
    unknown = refusal(conv)
    if unknown:
        raise LoweringError(conv.node, FORM_IS_KNOWN, unknown)
    parts: list[Convolution] = []
    if has_parts:
        if all(map(planning.has_whole_surfaces, (operation.operands[0], operation.result))):
            parts += sections_of(conv)
        parts += row_pairs_of(conv)
    seen, tiles = plan_rows(conv, parts)
    return TiledConvolution(planning, operation, seen, tiles, whole=conv)
