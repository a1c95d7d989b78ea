"""Where tensors lie: buffers at the edge of a partition, and inner tensors by their live ranges.

In: a ``TensorUse`` per tensor, and what operations need for themselves. Out: a ``MemoryPlan``.
Tensors of a group share one piece of memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE, DMA_ALIGN_BYTES, align
from delegate.lower.lowered import Fold
from delegate.lower.memory.places import Place
from delegate.lower.memory.tensors import (
    DeviceTensor,
    Strides,
    View,
    memory_view,
    unplaced,
)
from delegate.lower.task import BufferId, Ref
from delegate.model.graph import Graph


@dataclass(frozen=True, slots=True)
class TensorUse:
    """A tensor's demands: surfaces needed, and the first and last operation that touch it.

    ``folded``: the view of a partition's input that the host folds, and how. ``place``: where it
    begins in memory that it shares. ``over``: the tensor, of the same shape and with as many
    surfaces, that it is written over. ``surface_pixels``: see ``Footprint``.
    """

    index: int
    surfaces: int
    first: int
    last: int
    buffer: BufferId
    folded: tuple[View, Fold] | None = None
    place: Place | None = None
    over: int | None = None
    surface_pixels: int = 1


@dataclass(frozen=True, slots=True)
class WorkArea:
    """Memory in SCRATCH for what one operation writes and reads back itself."""

    start: int
    size_bytes: int

    @property
    def place(self) -> Ref:
        return Ref(BufferId.SCRATCH, self.start)

    @property
    def end(self) -> int:
        return self.start + self.size_bytes


NO_WORK = WorkArea(0, 0)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where every tensor lies, and how large the buffers are. ``live_bytes``: what inner tensors
    and work areas need at the same time, at least. ``work``: by operation, of those that have any.
    """

    tensors: Mapping[int, DeviceTensor]
    sizes_bytes: Mapping[BufferId, int]
    live_bytes: int = 0
    work: Mapping[int, WorkArea] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """``size_bytes`` needed from operation ``first`` to ``last``, both included."""

    first: int
    last: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """Memory of one tensor, or of several that lie in it side by side: a box of surfaces."""

    uses: tuple[TensorUse, ...]
    images: int
    pixels: int
    surfaces: int

    @property
    def strides(self) -> Strides:
        surface = self.pixels * ATOM_BYTES
        return Strides(surface, align(self.surfaces * surface, DMA_ALIGN_BYTES))

    @property
    def span(self) -> Span:
        size = self.images * self.strides.image_bytes
        first, last = min(use.first for use in self.uses), max(use.last for use in self.uses)
        return Span(first, last, size)


def _pieces(graph: Graph, uses: Iterable[TensorUse]) -> list[_Piece]:
    """Pieces in the order of their first tensors."""
    members: dict[tuple[bool, int], list[TensorUse]] = {}
    owners: dict[int, int] = {}
    for use in uses:
        owners[use.index] = use.index if use.over is None else owners[use.over]
        key = (False, owners[use.index]) if use.place is None else (True, use.place.group)
        members.setdefault(key, []).append(use)
    return [_piece(graph, tuple(found)) for found in members.values()]


def _piece(graph: Graph, uses: tuple[TensorUse, ...]) -> _Piece:
    images, pixels, surfaces = 0, 0, 0
    unit = max(use.surface_pixels for use in uses)
    for use in uses:
        view = use.folded[0] if use.folded else memory_view(graph.tensor(use.index))
        place = use.place or Place(use.index, 0, 0, 0)
        images = max(images, place.image + view.images)
        pixels = max(pixels, place.pixel + view.pixels)
        surfaces = max(surfaces, place.channel // CHANNELS_PER_SURFACE + use.surfaces)
    return _Piece(uses, images, align(pixels, unit) if pixels > 1 else pixels, surfaces)


def place_tensors(
    graph: Graph, uses: Iterable[TensorUse], work: Mapping[int, Span] | None = None
) -> MemoryPlan:
    """Inputs and outputs one after the other; inner tensors, and the ``work`` areas of operations,
    by live range.
    """
    placed: dict[int, DeviceTensor] = {}
    sizes = {BufferId.INPUT: 0, BufferId.OUTPUT: 0, BufferId.SCRATCH: 0}
    inner = []
    for piece in _pieces(graph, uses):
        buffer = piece.uses[0].buffer
        if buffer is BufferId.SCRATCH:
            inner.append(piece)
            continue
        placed.update(_device_tensors(graph, piece, sizes[buffer]))
        sizes[buffer] += piece.span.size_bytes
    areas = work or {}
    spans = [*(piece.span for piece in inner), *areas.values()]
    offsets, peak = place_spans(spans)
    for piece, offset in zip(inner, offsets, strict=False):
        placed.update(_device_tensors(graph, piece, offset))
    sizes[BufferId.SCRATCH] = peak
    found = zip(areas.items(), offsets[len(inner) :], strict=True)
    rooms = {number: WorkArea(offset, span.size_bytes) for (number, span), offset in found}
    return MemoryPlan(placed, sizes, live_bytes(spans), rooms)


def live_bytes(spans: Sequence[Span]) -> int:
    """The most that is needed at a time: no placement can do with less."""
    steps = {span.first for span in spans}
    return max(
        (sum(s.size_bytes for s in spans if s.first <= step <= s.last) for step in steps),
        default=0,
    )


def place_spans(spans: Sequence[Span]) -> tuple[tuple[int, ...], int]:
    """An offset for every span, so that those that meet in time do not overlap, and the end of all.

    The best of three orders (largest first, longest first, in order of time), each span at the
    lowest offset that is free.
    """
    floor = live_bytes(spans)
    numbers = range(len(spans))
    orders = (
        sorted(numbers, key=lambda i: (-spans[i].size_bytes, spans[i].first, i)),
        sorted(numbers, key=lambda i: (spans[i].first - spans[i].last, -spans[i].size_bytes, i)),
        sorted(numbers, key=lambda i: (spans[i].first, -spans[i].size_bytes, i)),
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
        span = spans[number]
        offset = 0
        for other in done:  # by offset
            taken = spans[other]
            meets = span.first <= taken.last and taken.first <= span.last
            end = offsets[other] + taken.size_bytes
            if meets and offsets[other] < offset + span.size_bytes and offset < end:
                offset = end
        offsets[number] = offset
        bisect.insort(done, number, key=lambda i: offsets[i])
    peak = max((offsets[i] + spans[i].size_bytes for i in done), default=0)
    return tuple(offsets), peak


def _device_tensors(graph: Graph, piece: _Piece, offset: int) -> dict[int, DeviceTensor]:
    """The tensors of ``piece``, which begins at ``offset``."""
    strides = piece.strides
    placed = {}
    for use in piece.uses:
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
            gap_pixels=piece.pixels - tensor.view.pixels if use.place is None else 0,
        )
    return placed
