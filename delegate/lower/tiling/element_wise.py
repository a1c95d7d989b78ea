"""Cut a map for tasks of the DPU alone: any pixels of it, as they see no neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from delegate.chip.chip import Chip
from delegate.chip.element import CHANNELS_PER_SURFACE, Element, align
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.task import ElementwiseTask, OutputCube, Pair, Ref, Stages

_AS_IT_IS: Final = Stages()


@dataclass(frozen=True, slots=True)
class MapPart:
    """The part of a tensor that one task computes: consecutive pixels of an image from number
    ``first`` on, as ``height`` rows of ``width``.
    """

    image: int
    first: int
    height: int
    width: int
    surfaces: range

    def place(self, tensor: DeviceTensor) -> Ref:
        """Return where the part of ``tensor`` begins."""
        pixel = self.image * tensor.view.pixels + self.first
        return tensor.pixel(pixel).moved(self.surfaces.start * tensor.surface_stride_bytes)

    def task(
        self,
        source: DeviceTensor,
        target: DeviceTensor,
        stages: Stages = _AS_IT_IS,
        element: Element = Element.INT8,
    ) -> ElementwiseTask:
        """``target`` by ``stages`` from ``source``, whose shape is the same."""
        place, size = self.place(target), (self.height, self.width)
        last = self.first + self.height * self.width - 1
        name = f"image {self.image} pixels {self.first}..{last}"
        channels = len(self.surfaces) * CHANNELS_PER_SURFACE
        if channels < target.view.channels:
            begin = self.surfaces.start * CHANNELS_PER_SURFACE
            name += f" channels {begin}..{begin + channels - 1}"
        return ElementwiseTask(
            tile=name,
            source=self.place(source),
            source_surface_stride_bytes=source.surface_stride_bytes,
            output=element_wise_cube(place, size, self.surfaces, target, element),
            element=element,
            **stages._asdict(),
        )


def element_wise_cube(
    place: Ref,
    size: Pair,
    surfaces: range,
    target: DeviceTensor,
    element: Element = Element.INT8,
) -> OutputCube:
    """``size`` of ``surfaces`` of ``target``, from ``place`` on. Of fp16, which may be taken as
    int16, the padding of the last surface have a value: they are read.
    """
    channels = len(surfaces) * element.lanes
    left = target.view.channels // element.bytes - surfaces.start * element.lanes
    if element.bytes > 1:
        left = align(left, element.lanes)
    return OutputCube(
        target=place,
        height=size[0],
        width=size[1],
        channels=channels,
        channels_real=min(max(left, 0), channels),
        surface_stride_bytes=target.surface_stride_bytes,
        surfaces_per_group=1,
        element_bytes=element.bytes,
    )


def map_parts(chip: Chip, view: View) -> Iterator[MapPart]:
    """Yield every pixel of every image once, image by image: an image as one cube if its sides fit
    the DPU's fields, else its pixels in a row, in pieces.

    Any rectangle of the right size will do.
    """
    most = chip.limits.cube_size
    for image in range(view.images):
        first = 0
        while first < view.pixels:
            height, width = view.height, view.width
            if max(height, width) > most:
                height, width = _rectangle(view.pixels - first, most)
            for surfaces in surface_ranges(chip, view.channels):
                yield MapPart(image, first, height, width, surfaces)
            first += height * width


def _rectangle(pixels: int, most: int) -> Pair:
    """Return all ``pixels`` in the fewest rows that are equal, else as many as sides of ``most``
    hold.
    """
    for height in range(-(-pixels // most), most + 1):
        if pixels % height == 0:
            return height, pixels // height
    width = min(pixels, most)
    return min(pixels // width, most), width


def surface_ranges(chip: Chip, channels: int) -> Iterator[range]:
    """Yield all surfaces that a reader may fetch, in as many parts as cubes have to be.

    That is whole surfaces, and one more where a depthwise convolution would widen its last group.
    """
    count = surfaces_touched(chip, channels)
    most = chip.limits.cube_size // CHANNELS_PER_SURFACE
    for first in range(0, count, most):
        yield range(first, min(first + most, count))


def surfaces_touched(chip: Chip, channels: int) -> int:
    """Surfaces of operands and result that the tasks read and write."""
    return chip.groups.depthwise_lanes(channels) // CHANNELS_PER_SURFACE
