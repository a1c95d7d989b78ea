"""Keep the padding of channel groups away from what lies beside a result in memory.

The DPU writes whole groups of 32 or 64 channels, and readers fetch whole groups. Memory of one
tensor has room for that; in memory that tensors share, a neighbour lies there. Padding over a
neighbour that is written later does no harm. A result whose padding would hit one that is there
already is made in scratch and copied, and so is one that lies where its own task fetches an
operand's padding. Padding that is fetched and that nobody writes becomes a copy of the result's
first surface: it has no influence on any result, but nothing may be read before it was written.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.lowered import Layer
from delegate.lower.memory.tensors import DeviceTensor, Place
from delegate.lower.operation import Memory, Plan, Planning, with_tasks_behind
from delegate.lower.selection import is_depthwise
from delegate.lower.tables import copy_tasks
from delegate.lower.task import ElementwiseTask, Task

_ENDLESS: Final = sys.maxsize
"""More surfaces than any memory has."""


def with_group_padding(
    planning: Planning, plans: Sequence[Plan], inputs: Collection[int]
) -> list[Plan]:
    """Return ``plans``, which run in this order, so that no padding destroys a neighbour and all
    that is read was written. ``inputs``: tensors that the host writes before.
    """
    earlier = [_box(planning, tensor) for tensor in inputs if tensor in planning.joined]
    hosted = {box.group for box in earlier}
    found: list[Plan] = []
    rooms: list[int] = []
    for plan in plans:
        box = _box(planning, plan.footprint.result)
        rooms.append(box.surfaces_to(other for other in earlier if box.meets(other)))
        is_within = plan.footprint.writes <= rooms[-1] and not _fetches_its_result(planning, plan)
        found.append(plan if is_within else via_scratch(planning, plan))
        earlier.append(box)
    for number, surfaces in _wanted(planning, found, hosted).items():
        plan, room = found[number], rooms[number]
        if plan.completed is not None:
            plan = plan.completed()
            plan = via_scratch(planning, plan) if plan.footprint.writes > room else plan
        if plan.footprint.writes < surfaces:
            plan = _padded(planning.chip, plan, min(surfaces, room))
        found[number] = plan
    return found


def _fetches_its_result(planning: Planning, plan: Plan) -> bool:
    """Return whether the result lies where the plan's tasks fetch padding of an operand."""
    result = _box(planning, plan.footprint.result)
    reads = ((_box(planning, tensor), count) for tensor, count in plan.footprint.reads)
    return any(
        read.meets(result) and read.surfaces[1] <= result.surfaces[0] < read.surfaces[0] + count
        for read, count in reads
    )


@dataclass(frozen=True, slots=True)
class _Box:
    """The images, pixels and surfaces that a tensor takes of its group's memory, ends excluded."""

    group: int
    images: tuple[int, int]
    pixels: tuple[int, int]
    surfaces: tuple[int, int]

    def meets(self, other: _Box) -> bool:
        """Return whether both have an image and a pixel in common."""
        return self.group == other.group and all(
            first < other_end and other_first < end
            for (first, end), (other_first, other_end) in self._sides(other)
        )

    def is_within(self, other: _Box) -> bool:
        """Return whether ``other`` has all of its images and pixels."""
        return self.group == other.group and all(
            other_first <= first and end <= other_end
            for (first, end), (other_first, other_end) in self._sides(other)
        )

    def surfaces_to(self, others: Iterable[_Box]) -> int:
        """Return the surfaces from its first one to the nearest of ``others`` behind it."""
        first, end = self.surfaces
        begins = (box.surfaces[0] - first for box in others if box.surfaces[0] >= end)
        return min(begins, default=_ENDLESS)

    def _sides(self, other: _Box) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
        return (self.images, other.images), (self.pixels, other.pixels)


def _box(planning: Planning, tensor: int) -> _Box:
    """Return the box of a tensor; one that shares no memory is a group of its own."""
    place = planning.joined.get(tensor, Place(-1 - tensor, 0, 0, 0))
    view = planning.tensor(tensor).view
    first = place.channel // CHANNELS_PER_SURFACE
    return _Box(
        place.group,
        (place.image, place.image + view.images),
        (place.pixel, place.pixel + view.pixels),
        (first, first + surfaces_of(view.channels)),
    )


def _wanted(planning: Planning, plans: Sequence[Plan], hosted: Collection[int]) -> dict[int, int]:
    """Return the surfaces of results that have to be written for a reader, by the plans' numbers.
    ``hosted``: groups in the host's buffers, which have content everywhere.
    """
    wanted: dict[int, int] = {}
    written: dict[int, dict[int, _Box]] = {}  # of each group, by the plans' numbers
    for number, plan in enumerate(plans):
        for tensor, count in plan.footprint.reads:
            read = _box(planning, tensor)
            end = read.surfaces[0] + count
            if end <= read.surfaces[1] or read.group in hosted:
                continue
            there = written.get(read.group, {})
            for writer, box in there.items():
                behind = (other for other in there.values() if box.is_within(other))
                needed = min(end - box.surfaces[0], box.surfaces_to(behind))
                if box.meets(read) and needed > _surfaces_written(plans[writer], box):
                    wanted[writer] = max(wanted.get(writer, 0), needed)
        box = _box(planning, plan.footprint.result)
        written.setdefault(box.group, {})[number] = box
    return wanted


def _surfaces_written(plan: Plan, box: _Box) -> int:
    return max(plan.footprint.writes, box.surfaces[1] - box.surfaces[0])


def via_scratch(planning: Planning, plan: Plan) -> Plan:
    """Return ``plan`` with its result made in scratch and copied to its place: no more than its own
    surfaces are written there.
    """
    writes = surfaces_of(planning.tensor(plan.footprint.result).view.channels)
    return with_tasks_behind(
        *(planning, plan, writes),
        lambda made, result: _copies(planning.chip, made.as_bytes, result.as_bytes),
    )


def _copies(chip: Chip, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
    """Yield tasks that copy all channels and write no surface beyond them."""
    channels, first = target.view.channels, 0
    while first < channels:
        count = channels - first
        if not is_depthwise(chip, count):  # the last group would be widened
            group = chip.groups.depthwise_channels
            count = count // group * group or group // 2
        yield from copy_tasks(
            chip, source.surfaces_from(first, count), target.surfaces_from(first, count)
        )
        first += count


def _padded(chip: Chip, plan: Plan, surfaces: int) -> Plan:
    """Return ``plan`` with ``surfaces`` of its result written."""
    given = plan.footprint

    def emit(memory: Memory) -> Layer:
        layer, result = plan.emit(memory), memory.tensors[given.result].as_bytes
        begin = max(surfaces_of(result.view.channels), given.writes)
        copies = padding_copies(chip, result, range(begin, surfaces))
        return replace(layer, tasks=(*layer.tasks, *copies))

    footprint = replace(given, writes=surfaces, byte_by_byte=False)
    return Plan(plan.operation, footprint, emit)


def padding_copies(
    chip: Chip, tensor: DeviceTensor, surfaces: Iterable[int]
) -> Iterator[ElementwiseTask]:
    """Yield copies of the first surface of ``tensor`` to ``surfaces`` behind its own."""
    first = tensor.surfaces_from(0, CHANNELS_PER_SURFACE)
    for surface in surfaces:
        there = tensor.surfaces_from(surface * CHANNELS_PER_SURFACE, CHANNELS_PER_SURFACE)
        for task in copy_tasks(chip, first, there):
            yield replace(task, output=replace(task.output, channels_real=0))
