"""How the device sees the tensors of a partition, and where each lies in memory.

Every tensor is ``images`` x [surfaces][height][width][16] bytes. Live ranges decide which ones
share memory.
"""

from __future__ import annotations

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
class DeviceTensor:
    """A placed tensor. ``scale`` and ``zero_point`` are in the device's int8 domain. With a
    ``fold`` the view is the folded one.
    """

    index: int
    view: View
    scale: float
    zero_point: int
    surfaces: int
    location: Ref
    fold: Fold | None = None

    @property
    def surface_stride_bytes(self) -> int:
        return self.view.pixels * ATOM_BYTES

    @property
    def line_stride_bytes(self) -> int:
        return self.view.width * ATOM_BYTES

    @property
    def image_stride_bytes(self) -> int:
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

    ``folded``: the view of a partition's input that the host folds, and how.
    """

    index: int
    surfaces: int
    first: int
    last: int
    buffer: BufferId
    folded: tuple[View, Fold] | None = None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where every tensor lies, and how large the buffers are."""

    tensors: Mapping[int, DeviceTensor]
    sizes_bytes: Mapping[BufferId, int]


def place_tensors(graph: Graph, uses: Iterable[TensorUse]) -> MemoryPlan:
    """Inputs and outputs one after the other; inner tensors by live range, largest first, lowest
    offset that fits.
    """
    placed: dict[int, DeviceTensor] = {}
    sizes = {BufferId.INPUT: 0, BufferId.OUTPUT: 0, BufferId.SCRATCH: 0}
    inner = []
    for use in uses:
        if use.buffer is BufferId.SCRATCH:
            inner.append(use)
            continue
        tensor = _device_tensor(graph, use, sizes[use.buffer])
        placed[use.index] = tensor
        sizes[use.buffer] += tensor.view.images * tensor.image_stride_bytes
    occupied: list[tuple[TensorUse, int, int]] = []
    for use in sorted(inner, key=lambda u: (-_size_bytes(graph, u), u.first, u.index)):
        size = _size_bytes(graph, use)
        offset = 0
        for other, start, end in sorted(occupied, key=lambda item: item[1]):
            overlaps_in_time = use.first <= other.last and other.first <= use.last
            if overlaps_in_time and start < offset + size and offset < end:
                offset = end
        occupied.append((use, offset, offset + size))
        placed[use.index] = _device_tensor(graph, use, offset)
        sizes[BufferId.SCRATCH] = max(sizes[BufferId.SCRATCH], offset + size)
    return MemoryPlan(placed, sizes)


def _device_tensor(graph: Graph, use: TensorUse, offset: int) -> DeviceTensor:
    tensor = graph.tensor(use.index)
    assert tensor.quantization is not None
    view, fold = use.folded or (view_of(tensor.shape), None)
    return DeviceTensor(
        index=use.index,
        view=view,
        scale=tensor.quantization.scale,
        zero_point=device_zero_point(tensor),
        surfaces=use.surfaces,
        location=Ref(use.buffer, offset),
        fold=fold,
    )


def _size_bytes(graph: Graph, use: TensorUse) -> int:
    tensor = _device_tensor(graph, use, 0)
    return tensor.view.images * tensor.image_stride_bytes


def binding_of(graph: Graph, tensor: DeviceTensor) -> TensorBinding:
    """What the host needs to convert ``tensor`` at the partition's edge."""
    source = graph.tensor(tensor.index)
    return TensorBinding(
        tensor=tensor.index,
        name=source.name,
        shape=source.shape,
        is_uint8=source.dtype is DType.UINT8,
        images=tensor.view.images,
        height=tensor.view.height,
        width=tensor.view.width,
        channels=tensor.view.channels,
        surfaces=tensor.surfaces,
        surface_stride_bytes=tensor.surface_stride_bytes,
        image_stride_bytes=tensor.image_stride_bytes,
        location=tensor.location,
        fill=tensor.zero_point,
        fold=tensor.fold,
    )
