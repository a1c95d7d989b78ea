"""An order of operations in which spare lanes never destroy what a neighbour in memory holds.

The DPU writes whole groups of 32 or 64 channels, so a tensor of 16 channels takes surfaces of the
one that follows it in shared memory. That is harmless while the follower is written later.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from delegate.chip.limits import CHANNELS_PER_SURFACE, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import memory_view
from delegate.lower.rules import SPARE_LANES_WRITTEN, SPARE_LANES_WRITTEN_FIRST
from delegate.model.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class _Box:
    """Images, pixels and surfaces that a tensor takes of shared memory, ends excluded."""

    images: tuple[int, int]
    pixels: tuple[int, int]
    surfaces: tuple[int, int]

    def meets(self, other: _Box) -> bool:
        return all(
            first < other_end and other_first < end
            for (first, end), (other_first, other_end) in (
                (self.images, other.images),
                (self.pixels, other.pixels),
                (self.surfaces, other.surfaces),
            )
        )


class NoOrderError(LoweringError):
    """``tensors``: those whose spare lanes leave none."""

    def __init__(self, node: int, tensors: Set[int]) -> None:
        self.tensors = frozenset(tensors)
        detail = (
            "those of a tensor of this node's memory would be written over a neighbour that must "
            "be there before it"
        )
        super().__init__(node, SPARE_LANES_WRITTEN_FIRST, detail)


def in_write_order(
    graph: Graph,
    operations: Sequence[Footprint],
    inputs: Sequence[int],
    aliases: Sequence[Node],
    places: Mapping[int, Place],
) -> tuple[int, ...]:
    """The numbers of ``operations``, ascending but for those that must wait for a neighbour's spare
    lanes.

    Raises NoOrderError, naming a concatenation or slice of the partition, if there is no such
    order, and LoweringError where readers would fetch what nobody writes.
    """
    writer = {op.result: number for number, op in enumerate(operations)}
    if not any(tensor in places for tensor in writer):
        return tuple(range(len(operations)))
    written: dict[int, list[int]] = {}
    for tensor in writer:
        if tensor in places:
            written.setdefault(places[tensor].group, []).append(tensor)
    hosted = {t: _box(graph, t, places[t]) for t in inputs if t in places}
    host_groups = {places[tensor].group for tensor in hosted}
    boxes = {t: _box(graph, t, places[t]) for found in written.values() for t in found}
    widened = {
        tensor: _widened(box, operations[writer[tensor]].writes) for tensor, box in boxes.items()
    }
    before: list[set[int]] = [set() for _ in operations]
    for number, operation in enumerate(operations):
        for tensor, used in operation.reads:
            place = places.get(tensor)
            if place is None or place.group not in written:
                before[number].update([writer[tensor]] if tensor in writer else [])
                continue
            read = _widened(_box(graph, tensor, place), used)
            sources = [t for t in written[place.group] if widened[t].meets(read)]
            before[number].update(writer[t] for t in sources)
            # The host's buffers have content everywhere.
            is_hosted = place.group in host_groups
            if not is_hosted and not _covered(read, [widened[t] for t in sources]):
                raise _never_written(aliases, operation)
    spilt: list[tuple[int, int]] = []
    for group, found in written.items():
        for tensor in found:
            beyond = _beyond(widened[tensor], boxes[tensor])
            for other in found:
                if other != tensor and beyond.meets(boxes[other]):
                    spilt.append((tensor, other))
            # The host writes before any operation.
            if any(places[t].group == group and beyond.meets(hosted[t]) for t in hosted):
                in_group = {t for t in places if places[t].group == group}
                raise NoOrderError(_alias_of_any(aliases, in_group), {tensor})
    needed = [frozenset(found) for found in before]
    for tensor, other in spilt:
        before[writer[other]].add(writer[tensor])
    order = _sorted(before)
    if len(order) < len(operations):
        ordered = set(order)
        stuck = {op.result for number, op in enumerate(operations) if number not in ordered}
        late = {t for t, other in spilt if _needs(needed, writer[t], writer[other])}
        raise NoOrderError(_alias_of_any(aliases, stuck), late or stuck & {t for t, _ in spilt})
    return tuple(order)


def _needs(before: Sequence[Set[int]], number: int, other: int) -> bool:
    """Whether operation ``number`` has to wait for what ``other`` gives."""
    left, seen = [number], {number}
    while left:
        for earlier in before[left.pop()] - seen:
            seen.add(earlier)
            left.append(earlier)
    return other in seen


def _box(graph: Graph, tensor: int, place: Place) -> _Box:
    view = memory_view(graph.tensor(tensor))
    surface = place.channel // CHANNELS_PER_SURFACE
    count = surfaces_of(view.channels)
    return _Box(
        (place.image, place.image + view.images),
        (place.pixel, place.pixel + view.pixels),
        (surface, surface + count),
    )


def _widened(box: _Box, surfaces: int) -> _Box:
    """``box`` with so many surfaces, or with its own if it has more."""
    first, end = box.surfaces
    return _Box(box.images, box.pixels, (first, max(end, first + surfaces)))


def _beyond(widened: _Box, box: _Box) -> _Box:
    """The surfaces that ``widened`` has behind those of ``box``."""
    return _Box(box.images, box.pixels, (box.surfaces[1], widened.surfaces[1]))


def _covered(box: _Box, parts: Sequence[_Box]) -> bool:
    """Whether every pixel of every surface of ``box`` lies in one of ``parts``."""
    lengths = [end - first for first, end in (box.images, box.pixels, box.surfaces)]
    written = np.zeros(lengths, np.bool_)
    for part in parts:
        image, pixel, surface = (
            slice(max(first - start, 0), max(end - start, 0))
            for (first, end), (start, _) in zip(
                (part.images, part.pixels, part.surfaces),
                (box.images, box.pixels, box.surfaces),
                strict=True,
            )
        )
        written[image, pixel, surface] = True
    return bool(written.all())


def _never_written(aliases: Sequence[Node], operation: Footprint) -> LoweringError:
    detail = (
        f"node {operation.node.index} ({operation.node.op}) would read some behind a tensor of "
        "this node, in memory that nothing writes"
    )
    node = _alias_of_any(aliases, frozenset(tensor for tensor, _ in operation.reads))
    return LoweringError(node, SPARE_LANES_WRITTEN, detail)


def _sorted(before: Sequence[set[int]]) -> list[int]:
    """Numbers after all that must come ``before`` them, else in order; shorter if there is a
    cycle.
    """
    after: list[list[int]] = [[] for _ in before]
    missing = [len(found) for found in before]
    for number, found in enumerate(before):
        for earlier in found:
            after[earlier].append(number)
    ready = [number for number, count in enumerate(missing) if count == 0]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for later in after[number]:
            missing[later] -= 1
            if missing[later] == 0:
                heapq.heappush(ready, later)
    return order


def _alias_of_any(aliases: Sequence[Node], tensors: Set[int]) -> int:
    """The last concatenation or slice that reads or writes one of ``tensors``, else the last."""
    touching = [n for n in aliases if not tensors.isdisjoint((*n.inputs, *n.outputs))]
    return (touching or aliases)[-1].index
