"""Spare lanes behind the last part of a tensor, where its writer leaves some that readers of whole
groups fetch: copies of the part's first surface, as any values do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.chip.limits import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import DeviceTensor, memory_view
from delegate.lower.operation import Memory, Plan, Planning
from delegate.lower.tables import copy_tasks
from delegate.lower.task import ElementwiseTask


def spare_copies(chip: Chip, tensor: DeviceTensor, spare: range) -> Iterator[ElementwiseTask]:
    """Surfaces ``spare`` of ``tensor``, behind its own, from its first one."""
    for surface in spare:
        first, there = (
            tensor.surfaces_from(number * CHANNELS_PER_SURFACE, CHANNELS_PER_SURFACE)
            for number in (0, surface)
        )
        for task in copy_tasks(chip, first, there):
            yield replace(task, output=replace(task.output, channels_real=0))


@dataclass(frozen=True, slots=True, eq=False)
class WithSpareLanes:
    """``plan``, and ``surfaces`` of its result written."""

    planning: Planning
    plan: Plan
    surfaces: int

    @property
    def footprint(self) -> Footprint:
        return replace(self.plan.footprint, writes=self.surfaces)

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        layer, footprint = self.plan.lower(memory), self.plan.footprint
        result = memory.tensors[footprint.result].as_bytes
        begin = max(surfaces_of(result.view.channels), footprint.writes)
        copies = spare_copies(self.planning.chip, result, range(begin, self.surfaces))
        return replace(layer, tasks=(*layer.tasks, *copies))


def with_spare_lanes(
    planning: Planning, plans: Sequence[Plan], inputs: Sequence[int], places: Mapping[int, Place]
) -> list[Plan]:
    """``plans``, the writers of a joined tensor's last channels with those that its readers fetch
    beyond them. Where the host writes ``inputs``, content is everywhere.
    """
    if not places:
        return [*plans]
    hosted = {places[tensor].group for tensor in inputs if tensor in places}
    inner = {tensor: place for tensor, place in places.items() if place.group not in hosted}
    wanted = _wanted(planning, [plan.footprint for plan in plans], inner)
    return [
        WithSpareLanes(planning, plan, wanted[plan.footprint.result])
        if plan.footprint.result in wanted
        else plan
        for plan in plans
    ]


def _wanted(
    planning: Planning, footprints: Sequence[Footprint], places: Mapping[int, Place]
) -> Mapping[int, int]:
    """Surfaces of results, from the first of each on, that are to be written."""
    ends: dict[int, tuple[int, int]] = {}  # of a group: its last surface, what is fetched
    for footprint in footprints:
        for tensor, count in footprint.reads:
            if tensor in places:
                first, end = _surfaces(planning, places, tensor)
                last, fetched = ends.get(places[tensor].group, (0, 0))
                ends[places[tensor].group] = max(last, end), max(fetched, first + count)
    wanted = {}
    for footprint in footprints:
        result = footprint.result
        if result not in places or places[result].group not in ends:
            continue
        first, end = _surfaces(planning, places, result)
        last, fetched = ends[places[result].group]
        if end >= last and fetched > first + max(footprint.writes, end - first):
            wanted[result] = fetched - first
    return wanted


def _surfaces(planning: Planning, places: Mapping[int, Place], tensor: int) -> tuple[int, int]:
    """The first one in the group's memory, and the end of them."""
    first = places[tensor].channel // CHANNELS_PER_SURFACE
    channels = memory_view(planning.graph.tensor(tensor)).channels
    return first, first + surfaces_of(channels)
