"""The largest value of each pixel's channels.

A task gives every channel the larger one of itself and another: first of the upper and the lower
half, then of lanes of an atom further and further apart, so that all of them have the largest in
the end. In int8 it is a convolution whose sum EW adds to the channel: the one, and by what the
other is above it. In fp16, whose differences are rounded, and on chips without such convolutions,
EW compares the map and one with the other channels in their place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    Element,
    align,
)
from delegate.lower.legalize import may_add_behind
from delegate.lower.max_pool_sums import larger_of
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, default_surfaces
from delegate.lower.numerics.pipeline import MultiplyStage
from delegate.lower.operation import Memory, Operation, Plan, Planning, plan_of
from delegate.lower.reorder import MOST_COLUMNS
from delegate.lower.selection import Moving
from delegate.lower.task import BnStage, Pair, Ref, Task, TaskKind
from delegate.lower.tiling.element_wise import map_parts, surfaces_touched
from delegate.lower.tiling.geometry import Axis, doublings
from delegate.ops.shared.dense_sums import sum_behind

_SUMS, _MAPS = 2, 4
"""Maps of the work area: of sums the results of two tasks in turn; of comparisons the other
channels, too, and the difference where EW only adds.
"""


def are_sums(chip: Chip, element: Element = Element.INT8) -> bool:
    """Return whether convolutions give the larger one of two channels, exactly, in known forms."""
    is_exact = element is Element.INT8
    return is_exact and may_add_behind(chip, TaskKind.DENSE, BnStage(relu=True))


@dataclass(frozen=True, slots=True, eq=False)
class RowMaxima:
    """Finds the largest value of each pixel's channels in ``source``, an image; ``apart``: the
    bytes of each map that lies in ``work``.
    """

    moving: Moving
    source: DeviceTensor
    work: Ref
    apart: int

    def tasks(self, target: DeviceTensor | None = None) -> Generator[Task, None, DeviceTensor]:
        """Yield the tasks; return the map that has it in all lanes, or ``target``, whose channels
        have it. Raises LoweringError.
        """
        element, now = self.source.element, self.source
        larger = self._by_sum if are_sums(self.moving.chip, element) else self._by_pair
        steps = _steps(self.moving.chip, now.elements.channels, element)
        if target is not None and not steps:
            steps = [(1, 0)]  # a channel by itself is copied
        for number, (left, apart) in enumerate(steps):
            made = self._map(number % 2, left)
            if target is not None and number == len(steps) - 1:
                made = target
            yield from larger(now, made, apart)
            now = made
        return now

    def _map(self, number: int, channels: int) -> DeviceTensor:
        view = replace(self.source.view, channels=channels * self.source.element.bytes)
        return self.source.alone(view, self.work.moved(number * self.apart))

    def _by_sum(self, now: DeviceTensor, made: DeviceTensor, apart: int) -> Iterator[Task]:
        """Yield the task of the larger one of each channel and that ``apart`` from it."""
        weights = _others(made, now, apart)
        lane = np.arange(made.view.channels)
        weights[lane, 0, 0, lane] -= 1
        yield from sum_behind(self.moving, now, made, weights, now, bn=MultiplyStage(relu=True))

    def _by_pair(self, now: DeviceTensor, made: DeviceTensor, apart: int) -> Iterator[Task]:
        """Yield the same as a comparison of two maps."""
        moving, channels = self.moving, made.view.channels
        first = apart * now.element.bytes
        if first % CHANNELS_PER_SURFACE == 0:
            other = now.surfaces_from(first, channels)
        else:
            other = self._map(2, made.elements.channels)
            ends = now.as_bytes, other.as_bytes
            yield from moving.move(*ends, _others(ends[1], ends[0], first, now.view.channels))
        for part in map_parts(moving.chip, made.view):
            task = part.task(now, made, element=now.element)
            between = self.work.moved(3 * self.apart)
            operand = part.place(other), other.surface_stride_bytes
            yield from larger_of(moving.chip, task, *operand, between)


def _others(
    made: DeviceTensor, now: DeviceTensor, apart: int, channels: int | None = None
) -> npt.NDArray[np.int8]:
    """Return the weights that give each channel of ``made`` that of ``now`` which lies ``apart``
    from it; beyond the last one, of ``channels``, they begin again.
    """
    wanted, given = made.view.channels, now.view.channels
    weights = np.zeros((wanted, 1, 1, given), np.int8)
    lane = np.arange(wanted)
    weights[lane, 0, 0, (lane + apart) % (channels or given)] = 1
    return weights


def _steps(chip: Chip, channels: int, element: Element) -> list[tuple[int, int]]:
    """Return for every maximum of two channels how many are left, and how far they are apart:
    beyond the last one they begin again. Of two maps they are as many as tasks of the DPU touch.
    """
    steps, size = [], element.bytes
    while channels > element.lanes:
        half = -(-channels // 2)
        left = align(half, element.lanes)
        if not are_sums(chip, element):
            left = chip.groups.depthwise_lanes(half * size) // size
        steps.append((left, channels - left))
        channels = left
    return steps + [(channels, apart) for apart in doublings(Axis(channels, 1, channels))]


def plan_row_maxima(planning: Planning, operation: Operation) -> Plan:
    """Plan the largest value of every pixel's channels. Raises LoweringError."""
    chip, operand = planning.chip, operation.operands[0]
    source, target = planning.tensor(operand), planning.tensor(operation.result)
    surfaces = _surfaces(chip, source)
    apart = align(surfaces * source.view.pixels * ATOM_BYTES, DMA_ALIGN_BYTES)
    maps, writes = _MAPS, surfaces_touched(chip, target.view.channels)
    if are_sums(chip, source.element):
        maps, writes = _SUMS, chip.groups.surfaces_written(1, is_depthwise=False)
    reads = ((operand, surfaces),)
    footprint = Footprint(operation.node, reads, operation.result, writes, work_bytes=maps * apart)

    def tasks(memory: Memory) -> Iterator[Task]:
        moving = Moving(chip, operation.node, memory.constants)
        given, made = memory.tensors[operand], memory.tensors[operation.result]
        size = _rows(given.view.height, given.view.width)
        for image in range(given.view.images):
            source, target = (end.part(image * prod(size), *size) for end in (given, made))
            yield from RowMaxima(moving, source, memory.work, apart).tasks(target)

    return plan_of(planning, operation, footprint, tasks)


def _rows(height: int, width: int) -> Pair:
    """Return rows and columns of as many pixels, so few that tasks of many channels take whole
    rows: no program is known that adds a map of which it takes a part of each row.
    """
    pixels = height * width
    if width > MOST_COLUMNS:
        width = max(n for n in range(1, MOST_COLUMNS + 1) if pixels % n == 0)
    return pixels // width, width


def _surfaces(chip: Chip, source: DeviceTensor) -> int:
    """Return the surfaces that any task reads of ``source``, or writes of a map between two."""
    size, channels = source.element.bytes, source.view.channels
    ends = (
        apart * size // CHANNELS_PER_SURFACE + surfaces_touched(chip, left * size)
        for left, apart in _steps(chip, source.elements.channels, source.element)
    )
    return max((default_surfaces(channels, chip.groups), *ends))
