"""Place tensors: buffers at the edge of a partition, and inner tensors by their live ranges.

In: the footprints of operations in execution order, and the places of tensors that share memory.
They become a ``TensorUse`` per tensor, and these a ``MemoryPlan``. Tensors of a group share one
piece of memory; a result may lie where its operand lies. Partitions whose buffers are larger than a
program may have are refused.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    MAX_BUFFER_BYTES,
    MAX_TOTAL_BYTES,
    align,
    surfaces_of,
)
from delegate.errors import LoweringError
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import (
    DeviceTensor,
    Folded,
    Place,
    Strides,
    memory_view,
    unplaced,
)
from delegate.lower.rules import BUFFERS_IN_RANGE
from delegate.lower.task import BufferId, Ref
from delegate.model.graph import Graph, Node, Partition


@dataclass(frozen=True, slots=True)
class TensorUse:
    """A tensor's demands: surfaces needed, and the first and last operation that touch it.

    ``folded``: of a partition's input that the host folds or packs. ``place``: where it
    begins in memory that it shares. ``over``: the tensor, of the same shape and with as many
    surfaces, that it is written over. ``surface_pixels``: see ``Footprint``.
    """

    index: int
    surfaces: int
    first: int
    last: int
    buffer: BufferId
    folded: Folded | None = None
    place: Place | None = None
    over: int | None = None
    surface_pixels: int = 1


NO_WORK = range(0)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The place of every tensor, and the sizes of the buffers. ``live_bytes``: what inner tensors
    and work areas need at the same time, at least. ``work``: by operation, of those that have any,
    the bytes of SCRATCH for what it writes and reads back itself.
    """

    tensors: Mapping[int, DeviceTensor]
    sizes_bytes: Mapping[BufferId, int]
    live_bytes: int = 0
    work: Mapping[int, range] = field(default_factory=dict)


Span = tuple[int, int, int]
"""The first and the last operation that need memory, and how many bytes."""


_Piece = tuple[tuple[TensorUse, ...], Strides, Span]
"""Memory of one tensor, or of several that lie in it side by side: a box of surfaces."""


def _pieces(graph: Graph, uses: Iterable[TensorUse]) -> list[_Piece]:
    """Pieces in the order of their first tensors."""
    members: dict[tuple[bool, int], list[TensorUse]] = {}
    owners: dict[int, int] = {}
    for use in uses:
        owners[use.index] = use.index if use.over is None else owners[use.over]
        key = (False, owners[use.index]) if use.place is None else (True, use.place.group)
        members.setdefault(key, []).append(use)
    pieces: list[_Piece] = []
    for found in members.values():
        images, pixels, surfaces = 0, 0, 0
        unit = max(use.surface_pixels for use in found)
        for use in found:
            view = use.folded[0] if use.folded else memory_view(graph.tensor(use.index))
            place = use.place or Place(use.index, 0, 0, 0)
            images = max(images, place.image + view.images)
            pixels = max(pixels, place.pixel + view.pixels)
            surfaces = max(surfaces, place.channel // CHANNELS_PER_SURFACE + use.surfaces)
        surface = (align(pixels, unit) if pixels > 1 else pixels) * ATOM_BYTES
        strides = Strides(surface, align(surfaces * surface, DMA_ALIGN_BYTES))
        first, last = min(use.first for use in found), max(use.last for use in found)
        pieces.append((tuple(found), strides, (first, last, images * strides.image_bytes)))
    return pieces


def place_tensors(
    graph: Graph, uses: Iterable[TensorUse], operations: Sequence[Footprint]
) -> MemoryPlan:
    """Inputs and outputs one after the other; inner tensors, and the memory that ``operations``
    need while they run, by live range.
    """
    placed: dict[int, DeviceTensor] = {}
    sizes = {BufferId.INPUT: 0, BufferId.OUTPUT: 0, BufferId.SCRATCH: 0}
    inner = []
    for piece in _pieces(graph, uses):
        (use, *_), _, (_, _, size) = piece
        buffer = use.buffer
        if buffer is BufferId.SCRATCH:
            inner.append(piece)
            continue
        placed.update(_device_tensors(graph, piece, sizes[buffer]))
        sizes[buffer] += size
    areas: dict[int, Span] = {
        when: (when, when, align(operation.work_bytes, DMA_ALIGN_BYTES))
        for when, operation in enumerate(operations)
        if operation.work_bytes
    }
    spans = [*(span for _, _, span in inner), *areas.values()]
    offsets, peak = place_spans(spans) if spans else ((), 0)
    for piece, offset in zip(inner, offsets, strict=False):
        placed.update(_device_tensors(graph, piece, offset))
    sizes[BufferId.SCRATCH] = peak
    found = zip(areas.items(), offsets[len(inner) :], strict=True)
    rooms = {number: range(offset, offset + size) for (number, (_, _, size)), offset in found}
    return MemoryPlan(placed, sizes, live_bytes(spans) if spans else 0, rooms)


def live_bytes(spans: Sequence[Span]) -> int:
    """The most that is needed at a time: no placement can do with less."""
    steps = {first for first, _, _ in spans}
    needed = (sum(size for first, last, size in spans if first <= step <= last) for step in steps)
    return max(needed, default=0)


def place_spans(spans: Sequence[Span]) -> tuple[tuple[int, ...], int]:
    """An offset for every span, so that those that meet in time do not overlap, and the end of all.

    The best of three orders (largest first, longest first, in order of time), each span at the
    lowest offset that is free.
    """
    floor = live_bytes(spans)
    numbers = range(len(spans))
    orders = (
        sorted(numbers, key=lambda i: (-spans[i][2], spans[i][0], i)),
        sorted(numbers, key=lambda i: (spans[i][0] - spans[i][1], -spans[i][2], i)),
        sorted(numbers, key=lambda i: (spans[i][0], -spans[i][2], i)),
    )
    best: tuple[tuple[int, ...], int] | None = None
    for order in orders:
        found = _first_fit(spans, order)
        if best is None or found[1] < best[1]:
            best = found
        if best[1] == floor:
            break
    assert best is not None
    return best


def _first_fit(spans: Sequence[Span], order: Sequence[int]) -> tuple[tuple[int, ...], int]:
    offsets = [0] * len(spans)
    done: list[int] = []
    for number in order:
        first, last, size = spans[number]
        offset = 0
        for other in done:  # by offset
            other_first, other_last, taken = spans[other]
            meets = first <= other_last and other_first <= last
            end = offsets[other] + taken
            if meets and offsets[other] < offset + size and offset < end:
                offset = end
        offsets[number] = offset
        bisect.insort(done, number, key=lambda i: offsets[i])
    peak = max((offsets[i] + spans[i][2] for i in done), default=0)
    return tuple(offsets), peak


def _device_tensors(graph: Graph, piece: _Piece, offset: int) -> dict[int, DeviceTensor]:
    """The tensors of ``piece``, which begins at ``offset``."""
    uses, strides, _ = piece
    pixels = strides.surface_bytes // ATOM_BYTES
    placed = {}
    for use in uses:
        tensor = unplaced(graph, use.index, use.folded)
        start = offset
        if use.place is not None:
            start += use.place.image * strides.image_bytes
            start += use.place.channel // CHANNELS_PER_SURFACE * strides.surface_bytes
            start += use.place.pixel * ATOM_BYTES
        placed[use.index] = replace(
            tensor,
            surfaces=use.surfaces,
            location=Ref(use.buffer, start),
            within=None if use.place is None else strides,
            gap_pixels=pixels - tensor.view.pixels if use.place is None else 0,
        )
    return placed


def check_sizes(graph: Graph, nodes: Sequence[Node], sizes_bytes: Mapping[BufferId, int]) -> None:
    """Raises LoweringError for the node with the largest tensors if a buffer, or all of them
    together, are too large.

    A buffer is left for the commands.
    """
    total = sum(sizes_bytes.values())
    largest, size = max(sizes_bytes.items(), key=lambda item: item[1])
    if size <= MAX_BUFFER_BYTES and total <= MAX_TOTAL_BYTES - MAX_BUFFER_BYTES:
        return
    node = max(nodes, key=lambda node: _elements(graph, node))
    raise LoweringError(
        node.index,
        BUFFERS_IN_RANGE,
        f"{largest.name} needs {size} bytes, all buffers {total}; a program "
        f"has up to {MAX_BUFFER_BYTES} and {MAX_TOTAL_BYTES - MAX_BUFFER_BYTES}",
    )


def _elements(graph: Graph, node: Node) -> int:
    tensors = [*node.inputs, *node.outputs]
    return sum(math.prod(graph.tensor(tensor).shape) for tensor in tensors if tensor >= 0)


def tensor_uses(
    graph: Graph,
    partition: Partition,
    operations: Sequence[Footprint],
    places: Mapping[int, Place],
    folds: Mapping[int, Folded],
    in_place: Mapping[int, int],
) -> tuple[TensorUse, ...]:
    """The partition's inputs first, then the others in the order of their first use. ``folds``:
    inputs that the host folds or packs. ``in_place``: operands that results are written over.
    """
    surfaces: dict[int, int] = {}
    unit: dict[int, int] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for when, operation in enumerate(operations):
        for tensor, needed in (*operation.reads, (operation.result, operation.writes)):
            surfaces[tensor] = max(surfaces.get(tensor, 0), needed)
            first.setdefault(tensor, when)
            last[tensor] = when
        unit[operation.result] = operation.surface_pixels
    for tensor in (*partition.inputs, *partition.outputs):
        # The host has the whole, though operations may read a part, or only parts in its memory.
        folded = folds.get(tensor)
        view = folded[0] if folded else memory_view(graph.tensor(tensor))
        surfaces[tensor] = max(surfaces.get(tensor, 0), surfaces_of(view.channels))
        first.setdefault(tensor, 0)
        last.setdefault(tensor, 0)
    for result, operand in (*in_place.items(), *reversed(tuple(in_place.items()))):
        surfaces[result] = surfaces[operand] = max(surfaces[result], surfaces[operand])
    # Where tensors, and groups of tensors (True, group), lie that the host converts.
    buffers: dict[tuple[bool, int], BufferId] = {}
    for tensors, buffer in (
        (partition.outputs, BufferId.OUTPUT),
        (partition.inputs, BufferId.INPUT),
    ):
        for tensor in tensors:
            place = places.get(tensor)
            buffers[place is not None, tensor if place is None else place.group] = buffer
    uses = []
    for tensor in (*partition.inputs, *(t for t in first if t not in partition.inputs)):
        place = places.get(tensor)
        key = place is not None, tensor if place is None else place.group
        uses.append(
            TensorUse(
                tensor,
                surfaces[tensor],
                first[tensor],
                last[tensor],
                buffers.get(key, BufferId.SCRATCH),
                folds.get(tensor),
                place,
                in_place.get(tensor),
                unit.get(tensor, 1),
            )
        )
    return tuple(uses)


def results_in_place(
    graph: Graph, footprints: Sequence[Footprint], fixed: Collection[int]
) -> Mapping[int, int]:
    """The operand of every result that lies in its place. ``fixed``: tensors that the host
    converts or that share memory in other ways, which stay where they are.
    """
    last_read = {t: when for when, found in enumerate(footprints) for t, _ in found.reads}
    written = {footprint.result for footprint in footprints}
    found = {}
    for when, footprint in enumerate(footprints[:-1]):
        if not footprint.byte_by_byte:
            continue
        ((operand, _),) = footprint.reads
        shapes = {memory_view(graph.tensor(t)) for t in (operand, footprint.result)}
        is_free = operand in written and last_read[operand] == when
        if is_free and len(shapes) == 1 and not {operand, footprint.result} & set(fixed):
            found[footprint.result] = operand
    return found
