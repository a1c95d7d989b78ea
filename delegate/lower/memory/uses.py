"""Collect what the operations of a partition ask of its tensors: surfaces, live ranges, buffers,
places.

In: ``Graph``, ``Partition``, the operations' footprints in execution order and the places of
tensors that share memory. Out: a ``TensorUse`` per tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delegate.chip.limits import DMA_ALIGN_BYTES, align, surfaces_of
from delegate.lower.lowered import Fold
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.placement import Span, TensorUse
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import View, memory_view
from delegate.lower.task import BufferId
from delegate.model.graph import Graph
from delegate.model.partition import Partition


def tensor_uses(
    graph: Graph,
    partition: Partition,
    operations: Sequence[Footprint],
    places: Mapping[int, Place],
    folds: Mapping[int, tuple[View, Fold]],
    in_place: Mapping[int, int],
) -> tuple[TensorUse, ...]:
    """The partition's inputs first, then the others in the order of their first use. ``folds``:
    inputs that the host folds. ``in_place``: operands that results are written over.
    """
    surfaces: dict[int, int] = {}
    unit: dict[int, int] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}

    def touch(tensor: int, needed: int, when: int) -> None:
        surfaces[tensor] = max(surfaces.get(tensor, 0), needed)
        first.setdefault(tensor, when)
        last[tensor] = when

    for when, operation in enumerate(operations):
        for tensor, needed in operation.reads:
            touch(tensor, needed, when)
        touch(operation.result, operation.writes, when)
        unit[operation.result] = operation.surface_pixels
    for tensor in (*partition.inputs, *partition.outputs):
        # The host has the whole, though operations may read a part, or only parts in its memory.
        whole = surfaces_of(memory_view(graph.tensor(tensor)).channels)
        surfaces[tensor] = max(surfaces.get(tensor, 0), whole)
        first.setdefault(tensor, 0)
        last.setdefault(tensor, 0)
    for result, operand in (*in_place.items(), *reversed(tuple(in_place.items()))):
        surfaces[result] = surfaces[operand] = max(surfaces[result], surfaces[operand])
    buffers = _buffers(partition, places)
    uses = []
    for tensor in (*partition.inputs, *(t for t in first if t not in partition.inputs)):
        folded = folds.get(tensor)
        if folded is not None:
            surfaces[tensor] = max(surfaces[tensor], surfaces_of(folded[0].channels))
        place = places.get(tensor)
        buffer = buffers.get((place is not None, tensor if place is None else place.group))
        uses.append(
            TensorUse(
                tensor,
                surfaces[tensor],
                first[tensor],
                last[tensor],
                BufferId.SCRATCH if buffer is None else buffer,
                folded,
                place,
                in_place.get(tensor),
                unit.get(tensor, 1),
            )
        )
    return tuple(uses)


def work_spans(operations: Sequence[Footprint]) -> Mapping[int, Span]:
    """Return the memory that operations need while they run, by their places in the order."""
    return {
        when: Span(when, when, align(operation.work_bytes, DMA_ALIGN_BYTES))
        for when, operation in enumerate(operations)
        if operation.work_bytes
    }


def _buffers(
    partition: Partition, places: Mapping[int, Place]
) -> Mapping[tuple[bool, int], BufferId]:
    """Where tensors, and groups of tensors (True, group), lie that the host converts."""
    found: dict[tuple[bool, int], BufferId] = {}
    for tensors, buffer in (
        (partition.outputs, BufferId.OUTPUT),
        (partition.inputs, BufferId.INPUT),
    ):
        for tensor in tensors:
            place = places.get(tensor)
            found[place is not None, tensor if place is None else place.group] = buffer
    return found
