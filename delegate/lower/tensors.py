"""How the device sees the tensors of a partition, and where each lies in memory.

Every tensor is ``images`` x [surfaces][height][width][16] bytes. Live ranges decide which ones
share memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from delegate.graph import DType, Graph, Tensor
from delegate.lower.hw import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DENSE_KERNEL_GROUP,
    DMA_ALIGN_BYTES,
    align,
)
from delegate.lower.task import BufferId, Fold, Ref, TensorBinding
from delegate.partition.views import Place

# uint8 tensors live on the device as int8: value - 128. Observed.
UINT8_OFFSET = 128


@dataclass(frozen=True, slots=True)
class View:
    """A TFLite shape as the device sees it: rank 4 is NHWC; lower ranks put the last dimension
    into channels.
    """

    images: int
    height: int
    width: int
    channels: int

    @property
    def pixels(self) -> int:
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class Strides:
    """From one surface, and from one image, to the next, in bytes."""

    surface_bytes: int
    image_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A placed tensor. ``scale`` and ``zero_point`` are in the device's int8 domain. With a
    ``fold`` the view is the folded one. ``within``: the strides of the memory that it shares with
    other tensors; None: it has memory of its own, without gaps.
    """

    index: int
    view: View
    scale: float
    zero_point: int
    surfaces: int
    location: Ref
    fold: Fold | None = None
    within: Strides | None = None

    @property
    def surface_stride_bytes(self) -> int:
        return self.view.pixels * ATOM_BYTES if self.within is None else self.within.surface_bytes

    @property
    def line_stride_bytes(self) -> int:
        return self.view.width * ATOM_BYTES

    @property
    def image_stride_bytes(self) -> int:
        if self.within is not None:
            return self.within.image_bytes
        return align(self.surfaces * self.surface_stride_bytes, DMA_ALIGN_BYTES)

    def pixel(self, number: int) -> Ref:
        """The first byte of pixel ``number`` in surface 0; pixels are counted row by row over all
        images.

        A reader or writer with another view of the same pixels (a fully connected node) counts them
        alike.
        """
        image, rest = divmod(number, self.view.pixels)
        offset = image * self.image_stride_bytes + rest * ATOM_BYTES
        return Ref(self.location.buffer, self.location.offset + offset)


def view_of(shape: Sequence[int]) -> View:
    """The device's view of a TFLite shape of rank 0 to 4. Raises ValueError on higher ranks."""
    if len(shape) > 4:
        raise ValueError(f"rank {len(shape)} has no device view")
    images, height, width, channels = (1,) * (4 - len(shape)) + tuple(shape)
    return View(images, height, width, channels)


def device_zero_point(tensor: Tensor) -> int:
    """The zero point in the device's int8 domain."""
    assert tensor.quantization is not None
    offset = UINT8_OFFSET if tensor.dtype is DType.UINT8 else 0
    return tensor.quantization.zero_point - offset


def default_surfaces(channels: int) -> int:
    """Surfaces every tensor inside a partition has and whose producer writes: whole groups of 32
    channels.
    """
    return align(channels, DENSE_KERNEL_GROUP) // CHANNELS_PER_SURFACE


@dataclass(frozen=True, slots=True)
class TensorUse:
    """A tensor's demands: surfaces needed, and the first and last operation that touch it.

    ``folded``: the view of a partition's input that the host folds, and how. ``place``: where it
    begins in memory that it shares.
    """

    index: int
    surfaces: int
    first: int
    last: int
    buffer: BufferId
    folded: tuple[View, Fold] | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where every tensor lies, and how large the buffers are. ``live_bytes``: what the inner
    tensors need at the same time, at least.
    """

    tensors: Mapping[int, DeviceTensor]
    sizes_bytes: Mapping[BufferId, int]
    live_bytes: int = 0


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
    rows: int
    width: int
    surfaces: int

    @property
    def strides(self) -> Strides:
        surface = self.rows * self.width * ATOM_BYTES
        return Strides(surface, align(self.surfaces * surface, DMA_ALIGN_BYTES))

    @property
    def span(self) -> Span:
        size = self.images * self.strides.image_bytes
        first, last = min(use.first for use in self.uses), max(use.last for use in self.uses)
        return Span(first, last, size)


def _pieces(graph: Graph, uses: Iterable[TensorUse]) -> list[_Piece]:
    """Pieces in the order of their first tensors."""
    members: dict[tuple[bool, int], list[TensorUse]] = {}
    for use in uses:
        key = (False, use.index) if use.place is None else (True, use.place.group)
        members.setdefault(key, []).append(use)
    return [_piece(graph, tuple(found)) for found in members.values()]


def _piece(graph: Graph, uses: tuple[TensorUse, ...]) -> _Piece:
    images, rows, width, surfaces = 0, 0, 0, 0
    for use in uses:
        view = use.folded[0] if use.folded else view_of(graph.tensor(use.index).shape)
        place = use.place or Place(use.index, 0, 0, 0)
        images = max(images, place.image + view.images)
        rows = max(rows, place.row + view.height)
        width = view.width
        surfaces = max(surfaces, place.channel // CHANNELS_PER_SURFACE + use.surfaces)
    return _Piece(uses, images, rows, width, surfaces)


def place_tensors(graph: Graph, uses: Iterable[TensorUse]) -> MemoryPlan:
    """Inputs and outputs one after the other; inner tensors by live range."""
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
    spans = [piece.span for piece in inner]
    offsets, peak = place_spans(spans)
    for piece, offset in zip(inner, offsets, strict=True):
        placed.update(_device_tensors(graph, piece, offset))
    sizes[BufferId.SCRATCH] = peak
    return MemoryPlan(placed, sizes, live_bytes(spans))


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
        tensor = graph.tensor(use.index)
        assert tensor.quantization is not None
        view, fold = use.folded or (view_of(tensor.shape), None)
        start = offset
        if use.place is not None:
            start += use.place.image * strides.image_bytes
            start += use.place.channel // CHANNELS_PER_SURFACE * strides.surface_bytes
            start += use.place.row * view.width * ATOM_BYTES
        placed[use.index] = DeviceTensor(
            index=use.index,
            view=view,
            scale=tensor.quantization.scale,
            zero_point=device_zero_point(tensor),
            surfaces=use.surfaces,
            location=Ref(use.buffer, start),
            fold=fold,
            within=None if use.place is None else strides,
        )
    return placed


def binding_of(graph: Graph, tensor: DeviceTensor) -> TensorBinding:
    """What the host needs to convert ``tensor`` at the partition's edge."""
    source = graph.tensor(tensor.index)
    surfaces = tensor.surfaces
    if tensor.within is not None:  # what follows belongs to another tensor
        surfaces = -(-tensor.view.channels // CHANNELS_PER_SURFACE)
    return TensorBinding(
        tensor=tensor.index,
        name=source.name,
        shape=source.shape,
        is_uint8=source.dtype is DType.UINT8,
        images=tensor.view.images,
        height=tensor.view.height,
        width=tensor.view.width,
        channels=tensor.view.channels,
        surfaces=surfaces,
        surface_stride_bytes=tensor.surface_stride_bytes,
        image_stride_bytes=tensor.image_stride_bytes,
        location=tensor.location,
        fill=tensor.zero_point,
        fold=tensor.fold,
    )
