"""Says how the device sees the tensors of a partition, and where each lies in memory.

Every tensor is ``images`` x [surfaces][height][width][16] bytes. Live ranges decide which ones
share memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from delegate.chip.chip import Groups
from delegate.chip.element import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DMA_ALIGN_BYTES,
    Element,
    align,
    surfaces_of,
)
from delegate.lower.lowered import Fold
from delegate.lower.task import BufferId, Ref
from delegate.model.graph import DType, Graph, Tensor

NOWHERE = Ref(BufferId.REGCMD, 0)
"""The place of tensors without one: nothing may be read or written there."""


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
    """The bytes from one surface, and from one image, to the next; ``line_bytes``: from one row to
    the next, where others lie between (None: they follow each other).
    """

    surface_bytes: int
    image_bytes: int
    line_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A placed tensor. ``scale`` and ``zero_point`` are in the device's int8 domain. ``view``: as
    memory has it, see ``memory_view``; with a ``fold`` the folded one. ``within``: the strides of
    the memory that it shares with other tensors; None: it has memory of its own, whose surfaces are
    ``gap_pixels`` apart.
    """

    index: int
    view: View
    scale: float
    zero_point: int
    surfaces: int
    location: Ref
    fold: Fold | None = None
    within: Strides | None = None
    element: Element = Element.INT8
    gap_pixels: int = 0

    @property
    def elements(self) -> View:
        """The view with channels of its own element."""
        return replace(self.view, channels=self.view.channels // self.element.bytes)

    @property
    def as_bytes(self) -> DeviceTensor:
        """The same memory as channels of one byte, for what moves them; of fp16 also the spare
        lanes of the last surface, which readers multiply by 0.
        """
        if self.element.bytes == 1:
            return self
        view = replace(self.view, channels=align(self.view.channels, CHANNELS_PER_SURFACE))
        return replace(self, view=view, element=Element.INT8)

    @property
    def surface_stride_bytes(self) -> int:
        if self.within is not None:
            return self.within.surface_bytes
        return (self.view.pixels + self.gap_pixels) * ATOM_BYTES

    @property
    def line_stride_bytes(self) -> int:
        apart = None if self.within is None else self.within.line_bytes
        return self.view.width * ATOM_BYTES if apart is None else apart

    @property
    def image_stride_bytes(self) -> int:
        if self.within is not None:
            return self.within.image_bytes
        return align(self.surfaces * self.surface_stride_bytes, DMA_ALIGN_BYTES)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all images, and of others that lie between them."""
        return self.view.images * self.image_stride_bytes

    def alone(self, view: View, location: Ref) -> DeviceTensor:
        """A map of the same kind in memory of its own, without gaps."""
        return replace(self, view=view, location=location, within=None, gap_pixels=0)

    def via_scratch(self, location: Ref, surfaces: int, unit: int) -> DeviceTensor:
        """The same map in memory of its own, of so many surfaces, a multiple of ``unit`` pixels
        apart: see ``Footprint.surface_pixels``.
        """
        pixels = self.view.pixels
        gap = align(pixels, unit) - pixels if pixels > 1 else 0
        there = replace(self.alone(self.view, location), gap_pixels=gap)
        return replace(there, surfaces=max(surfaces, surfaces_of(self.view.channels)))

    def image(self, number: int) -> DeviceTensor:
        """One of its images."""
        return self.part(number * self.view.pixels, self.view.height, self.view.width)

    def part(self, first: int, height: int, width: int) -> DeviceTensor:
        """The pixels of an image from number ``first`` on, as a map of its own."""
        return self.window(View(1, height, width, self.view.channels), pixel=first)

    def surfaces_from(self, first: int, channels: int) -> DeviceTensor:
        """``channels`` from ``first`` on, which begins a surface, as a map of their own."""
        view = replace(self.view, channels=channels)
        return self.window(view, surface=first // CHANNELS_PER_SURFACE)

    def window(
        self,
        view: View,
        *,
        pixel: int = 0,
        surface: int = 0,
        row_pixels: int = 0,
        surface_bytes: int | None = None,
    ) -> DeviceTensor:
        """A map of ``view`` from a pixel of a surface on. ``row_pixels``: from one row to the next,
        0: they follow each other; ``surface_bytes``: likewise; None: as far as here.
        """
        line = row_pixels * ATOM_BYTES if row_pixels and view.height > 1 else None
        apart = self.surface_stride_bytes if surface_bytes is None else surface_bytes
        place = self.pixel(pixel).moved(surface * self.surface_stride_bytes)
        strides = Strides(apart, self.image_stride_bytes, line)
        return replace(self, view=view, location=place, within=strides)

    def pixel(self, number: int) -> Ref:
        """The first byte of pixel ``number`` in surface 0; pixels are counted row by row over all
        images.

        A reader or writer with another view of the same pixels (a fully connected node) counts them
        alike, unless rows lie apart.
        """
        image, rest = divmod(number, self.view.pixels)
        row, column = divmod(rest, self.view.width)
        offset = image * self.image_stride_bytes
        offset += row * self.line_stride_bytes + column * ATOM_BYTES
        return Ref(self.location.buffer, self.location.offset + offset)


def view_of(shape: Sequence[int]) -> View:
    """Return the device's view of a TFLite shape: of more than four dimensions those between height
    and channels are columns.
    """
    images, height, *inner, channels = (1,) * (4 - len(shape)) + tuple(shape)
    return View(images, height, prod(inner), channels)


def device_element(tensor: Tensor) -> Element:
    """Return the element type that the device holds of a tensor: fp16 for float32, else 8 bits."""
    return Element.FP16 if tensor.dtype is DType.FLOAT32 else Element.INT8


def memory_view(tensor: Tensor) -> View:
    """A tensor as memory has it: channels of one byte, of which an fp16 takes two. Groups, surfaces
    and lanes are the same then whatever the element is.
    """
    view = view_of(tensor.shape)
    return replace(view, channels=view.channels * device_element(tensor).bytes)


def whole_channels(tensor: Tensor) -> int:
    """Channels of one byte that a task writes which moves bytes: of fp16 whole surfaces, see
    ``as_bytes``.
    """
    channels = memory_view(tensor).channels
    is_wide = device_element(tensor).bytes > 1
    return align(channels, CHANNELS_PER_SURFACE) if is_wide else channels


Folded = tuple[View, Fold | None]
"""The view that the host gives an input, and the fold that leads there; None: it is packed."""


def default_surfaces(channels: int, groups: Groups) -> int:
    """Surfaces that any reader may fetch: whole groups of kernels, and of depthwise channels."""
    whole = align(channels, groups.dense_kernels)
    return max(whole, groups.depthwise_lanes(channels)) // CHANNELS_PER_SURFACE


def unplaced(graph: Graph, index: int, folded: Folded | None = None) -> DeviceTensor:
    """A tensor as planning sees it, without a place. ``folded``: its view and fold if the host
    folds it.
    """
    tensor = graph.tensor(index)
    element = device_element(tensor)
    view, fold = folded or (memory_view(tensor), None)
    scale, zero_point = 1.0, 0
    if element is not Element.FP16:
        assert tensor.quantization is not None
        scale = tensor.quantization.scale
        zero_point = tensor.quantization.zero_point - tensor.dtype.element.offset
    return DeviceTensor(
        index=index,
        view=view,
        scale=scale,
        zero_point=zero_point,
        surfaces=surfaces_of(view.channels),
        location=NOWHERE,
        fold=fold,
        element=element,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The start of a tensor in the memory of its group, which is named by one of its tensors.
    ``pixel``: of the image, counted row by row.
    """

    group: int
    image: int
    pixel: int
    channel: int
