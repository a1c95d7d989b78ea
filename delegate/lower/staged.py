"""Results whose spare lanes would be written over a neighbour that has to be there before: made in
memory of their own, and copied surface by surface to where they belong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.chip.limits import CHANNELS_PER_SURFACE, DMA_ALIGN_BYTES, align, surfaces_of
from delegate.lower.lowered import Layer
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.memory.write_order import NoOrderError, in_write_order
from delegate.lower.operation import Memory, Plan, Planning
from delegate.lower.tables import copy_tasks
from delegate.lower.task import Ref, Task
from delegate.model.graph import Node


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """``plan``, whose result takes no more than its own surfaces."""

    planning: Planning
    plan: Plan

    @property
    def footprint(self) -> Footprint:
        given = self.plan.footprint
        result = self.planning.tensor(given.result)
        result = self._staged(result, result.location)
        size = align(result.size_bytes, DMA_ALIGN_BYTES)
        return replace(
            given,
            writes=surfaces_of(result.view.channels),
            byte_by_byte=False,
            work_bytes=self._behind + size,
            surface_pixels=1,
        )

    def lower(self, memory: Memory) -> Layer:
        """Raises LoweringError."""
        number = self.plan.footprint.result
        result = memory.tensors[number]
        staged = self._staged(result, memory.work.place.moved(self._behind))
        tensors = {**memory.tensors, number: staged}
        layer = self.plan.lower(replace(memory, tensors=tensors))
        copies = _copies(self.planning.chip, staged, result)
        return replace(layer, tasks=(*layer.tasks, *copies))

    @property
    def _behind(self) -> int:
        """Bytes that the plan itself works with."""
        return align(self.plan.footprint.work_bytes, DMA_ALIGN_BYTES)

    def _staged(self, result: DeviceTensor, place: Ref) -> DeviceTensor:
        footprint = self.plan.footprint
        return result.staged(place, footprint.writes, footprint.surface_pixels)


def _copies(chip: Chip, staged: DeviceTensor, result: DeviceTensor) -> Iterator[Task]:
    channels = result.view.channels
    for first in range(0, channels, CHANNELS_PER_SURFACE):
        count = min(CHANNELS_PER_SURFACE, channels - first)
        yield from copy_tasks(
            chip, staged.surfaces_from(first, count), result.surfaces_from(first, count)
        )


def in_possible_order(
    planning: Planning,
    plans: Sequence[Plan],
    inputs: Sequence[int],
    aliases: Sequence[Node],
    places: Mapping[int, Place],
) -> list[Plan]:
    """``plans`` so that no spare lanes destroy anything, if need be some of them staged where the
    chip copies single surfaces. Raises LoweringError.
    """
    while True:
        footprints = [plan.footprint for plan in plans]
        try:
            order = in_write_order(planning.graph, footprints, inputs, aliases, places)
        except NoOrderError as error:
            if not (planning.chip.forms.operand_blocks and error.tensors):
                raise
            plans = _staged(planning, plans, error.tensors)
        else:
            return [plans[number] for number in order]


def _staged(planning: Planning, plans: Sequence[Plan], results: Collection[int]) -> list[Plan]:
    return [Staged(planning, plan) if plan.footprint.result in results else plan for plan in plans]
