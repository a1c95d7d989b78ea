"""Lower dense, depthwise and fully connected convolutions: from resolved integers to a layer of
tasks.

In: a ``Convolution`` (weights and bias in the device's domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.

A convolution whose channels' scales are too far apart for one shift becomes a few with one each.
Each part has the channels of a range of scales; the others are the zero point there, whatever the
input is. Two parts together are a sum of two maps, less the zero point, which is exact: of every
channel one part has the result, and what is proven of it is true of the sum.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from delegate.chip.element import ATOM_BYTES, DMA_ALIGN_BYTES, Element, align, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.conv_spec import (
    Convolution,
    programmed_channels,
    with_constant_channels,
    with_results,
    with_settled_channels,
)
from delegate.lower.conv_stages import (
    clamps_apart,
    conv_stages,
    joined_stages,
    requantized,
    stages_with_sum,
)
from delegate.lower.conv_tasks import pack_weights, tasks_of_plan
from delegate.lower.image_parts import in_parts, plan_rows, row_pairs_of, sections_of, seen_text
from delegate.lower.legalize import legal_convolution, rounds_twice
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.numerics.one_rounding import MOST_DIFFERING
from delegate.lower.numerics.pipeline import Int64Array, Joined
from delegate.lower.operation import Memory, Operation, Plan, Planning, layer_of
from delegate.lower.tables import clamped_behind
from delegate.lower.task import Task, TaskKind
from delegate.lower.tiling.choices import InputGroups
from delegate.lower.tiling.geometry import ceil_div, ddr_cycles
from delegate.lower.tiling.tiles import TilePlan
from delegate.model.graph import Activation


@dataclass(frozen=True, slots=True, eq=False)
class TiledConvolution:
    """A convolution, whose tensors need no place yet, cut into tiles or groups of input channels.

    ``whole``: ``conv`` on whole images, which it may see in parts. ``joined``: the stages with
    ``function``, the results of a function of a value that follows, or with ``summand``, a map that
    is added. ``ends``: of the activation, if tasks behind clamp.
    """

    planning: Planning
    operation: Operation
    conv: Convolution
    tiles: TilePlan | InputGroups
    whole: Convolution
    joined: Joined | None = None
    function: Int64Array | None = None
    summand: int | None = None
    ends: tuple[int, int] | None = None

    @property
    def plan(self) -> Plan:
        """Return the plan of all tasks."""
        operation, conv, work = self.operation, self.conv, 0
        if not isinstance(self.tiles, TilePlan):
            from delegate.lower.partial_sums import work_bytes  # on demand: few models need groups

            work = work_bytes(conv)
        reads: tuple[tuple[int, int], ...] = ((operation.operands[0], self.surfaces_read),)
        if self.summand is not None:
            reads += ((self.summand, self.surfaces_written),)
        footprint = Footprint(
            operation.node,
            reads,
            operation.result,
            self.surfaces_written,
            work_bytes=work,
            surface_pixels=conv.chip.groups.surface_pixels(conv.is_depthwise),
        )
        completed = self._completed if self.is_in_parts else None
        found = Plan(
            *(operation, footprint, self.emit),
            followed_by=self._followed_by,
            completed=completed,
        )
        return found if self.ends is None else clamped_behind(self.planning, found, self.ends)

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
        if not isinstance(self.tiles, TilePlan) or self.conv.element is Element.FP16:
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
        source, target = memory.tensors[given], memory.tensors[made]
        if self.is_in_parts:
            source, target = in_parts(source, conv, of_source), in_parts(target, conv, of_target)
        conv, constants = replace(conv, source=source, target=target), memory.constants
        tasks: Sequence[Task]
        if not isinstance(self.tiles, TilePlan):
            from delegate.lower.partial_sums import lower_input_groups

            tasks, choice = lower_input_groups(conv, self.tiles, constants, memory.work)
        else:
            weights = pack_weights(conv, constants)
            stages = conv_stages(conv, constants, self.joined)
            summand = None if self.summand is None else memory.tensors[self.summand]
            tasks = tasks_of_plan(conv, self.tiles, weights, stages, summand)
            choice = seen_text(conv) + self.tiles.choice
        layer = layer_of(self.planning, self.operation, tasks, choice)
        return layer if self.joined is None else replace(layer, told=self.joined.differs)

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
        return ceil_div(surfaces, self.conv.parts[0])

    @property
    def surfaces_written(self) -> int:
        """Surfaces of the target that tasks write, from the first one on: whole groups."""
        if not isinstance(self.tiles, TilePlan):
            channels, is_depthwise = self.conv.output_view.channels, self.conv.is_depthwise
            return self.conv.chip.groups.surfaces_written(channels, is_depthwise=is_depthwise)
        group, lanes = self.conv.geometry.group, self.conv.element.lanes
        ends = (tile.part.surfaces(group, lanes).stop for tile in self.tiles.tiles)
        return ceil_div(max(ends), self.conv.parts[1])


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
    conv = legal_convolution(conv)
    if conv.per_channel and conv.element is not Element.FP16:
        conv = with_settled_channels(conv)
        if not rounds_twice(conv.chip, conv.kind, per_channel=True):
            conv = with_constant_channels(conv)
    ends = None
    is_half, activation = conv.element is Element.FP16, conv.activation
    if activation is not Activation.NONE and not is_half and clamps_apart(conv):
        ends, has_parts = conv.wanted.outputs, False
        conv = replace(conv, activation=Activation.NONE)
    parts: list[Convolution] = []
    if has_parts:
        if all(map(planning.has_whole_surfaces, (operation.operands[0], operation.result))):
            parts += sections_of(conv)
        parts += row_pairs_of(conv)
    seen, tiles = plan_rows(conv, parts)
    return TiledConvolution(planning, operation, seen, tiles, whole=conv, ends=ends)


_MOST_PARTS: Final = 5
"""Each makes the multiplications of the whole."""

_Channels = npt.NDArray[np.bool_]


def split_by_scale(found: TiledConvolution) -> Plan | None:
    """Return the plan of parts, where too many results of ``found``, per channel, would differ and
    fewer do of those; None: it stays whole.
    """
    conv = found.conv
    if conv.output_view != conv.target.view or conv.parts != (1, 1) or found.ends is not None:
        return None
    parts = _parts(conv)
    return None if len(parts) < 2 else _sum_of_parts(found, parts)


def _sum_of_parts(whole: TiledConvolution, parts: Sequence[Convolution]) -> Plan:
    """Return the plan of ``parts``: all of them ``whole``, with the results of some channels each.

    Only the last sum writes the result, and reads none of it: that it ran shows there.
    """
    from delegate.lower.max_pool_sums import sums  # on demand: few models need parts

    conv, result = whole.conv, whole.operation.result
    unit = conv.chip.groups.surface_pixels(conv.is_depthwise)
    apart = conv.target.via_scratch(conv.target.location, whole.surfaces_written, unit)
    map_bytes = align(apart.size_bytes, DMA_ALIGN_BYTES)

    def emit(memory: Memory) -> Layer:
        def part(conv: Convolution, target: DeviceTensor) -> Layer:
            tensors = {**memory.tensors, result: target}
            return replace(whole, conv=conv).emit(replace(memory, tensors=tensors))

        total, other = (
            replace(apart, location=memory.work.moved(number * map_bytes)) for number in range(2)
        )
        layer = part(parts[0], total)
        tasks = [*layer.tasks]
        for number, one in enumerate(parts[1:], 2):
            is_last = number == len(parts)
            tasks += part(one, other).tasks
            target = memory.tensors[result] if is_last else total
            tasks += sums(conv.chip, total, other, target)
        choice = f"in {len(parts)} parts by channels' scales, {layer.choice}"
        return replace(layer, tasks=tuple(tasks), choice=choice)

    channels = conv.chip.groups.depthwise_lanes(conv.target.view.channels)
    plan = whole.plan
    footprint = replace(plan.footprint, writes=surfaces_of(channels), work_bytes=2 * map_bytes)
    return Plan(whole.operation, footprint, emit)


def _parts(conv: Convolution) -> tuple[Convolution, ...]:
    """The widest range of scales that differs most is halved until few enough results do."""
    everything = np.ones(conv.ratios.size, np.bool_)
    channels: list[_Channels] = [everything]
    shares = [_share(conv)]
    while sum(shares) > MOST_DIFFERING:
        number = int(np.argmax(shares))
        halves = _halves(conv, channels[number])
        if len(channels) == _MOST_PARTS or halves is None:
            return ()  # the whole says why
        channels[number : number + 1] = halves
        shares[number : number + 1] = [_share(_part(conv, half)) for half in halves]
    return tuple(_part(conv, some) for some in channels) if len(channels) > 1 else ()


def _share(conv: Convolution) -> float:
    """1 where no stages are near enough."""
    try:
        return requantized(conv, conv.wanted).share
    except LoweringError:
        return 1.0


def _halves(conv: Convolution, channels: _Channels) -> tuple[_Channels, _Channels] | None:
    """Return two halves of the channels, by powers of two (TensorFlow Lite's units), else by
    numbers of channels. None: all have one scale.
    """
    exponents = np.frexp(conv.ratios)[1]
    low, high = exponents[channels].min(), exponents[channels].max()
    upper = channels & (exponents >= (low + high + 1) // 2)
    if low == high:
        upper = channels & (conv.ratios > np.median(conv.ratios[channels]))
    return (channels & ~upper, upper) if upper.any() else None


def _part(conv: Convolution, channels: _Channels) -> Convolution:
    """The others give the zero point."""
    return with_results(conv, ~channels, np.zeros(conv.ratios.size, np.int64))
