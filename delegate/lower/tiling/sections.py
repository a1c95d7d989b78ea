"""Sections of an image as channels, for convolutions that see single pixels.

The MAC array computes 32 kernels at a time: 16, or the last 16 of 48, leave half of it idle. A
surface holds an image's pixels one after the other, so its first and its second half are two
surfaces of half the image: the same memory is a map of half the pixels and twice the channels, in
the order surface, section, lane. Every section has kernels of its own, whose weights for the other
one count as zero, so every sum is the same. Nobody else sees any of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.element import Element
from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE, align
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.resolved import Convolution
from delegate.lower.tiling.pixel_rows import sees_single_pixels

Number = TypeVar("Number", bound=np.generic)


def sections_of(conv: Convolution) -> Iterator[Convolution]:
    """``conv`` on sections, where they fill groups of kernels that are not full otherwise. Its
    tensors must have whole surfaces (``Planning.has_whole_surfaces``).
    """
    surfaces = align(conv.output_view.channels, CHANNELS_PER_SURFACE) // CHANNELS_PER_SURFACE
    count = conv.chip.groups.dense_kernels // CHANNELS_PER_SURFACE
    if conv.element is Element.FP16:  # sums are rounded in another order
        return
    if surfaces % count == 0 or not sees_single_pixels(conv):
        return
    # Surfaces without a gap between them.
    unit = conv.chip.forms.surface_pixels(is_depthwise=True)
    input_view, output_view = (_view(v, count) for v in (conv.input_view, conv.output_view))
    if input_view is None or output_view is None or conv.input_view.pixels % unit:
        return
    is_same = (conv.source.view, conv.target.view) == (conv.input_view, conv.output_view)
    if not is_same:  # a fully connected reading of the same bytes
        return
    yield replace(
        conv,
        sections=count,
        weights=_weights(conv, count),
        bias=_per_kernel(conv.bias, count, np.int64(0)),
        ratios=_per_kernel(conv.ratios, count, conv.ratios[0]),
        input_view=input_view,
        output_view=output_view,
    )


def in_sections(tensor: DeviceTensor, count: int) -> DeviceTensor:
    """``tensor``, which has whole surfaces, as a convolution on sections sees it."""
    if count == 1:
        return tensor
    view = _view(tensor.view, count)
    assert view is not None
    stride = tensor.surface_stride_bytes
    # What is not one piece has no sections at equal distances.
    assert stride == tensor.view.pixels * ATOM_BYTES
    assert tensor.line_stride_bytes == tensor.view.width * ATOM_BYTES
    strides = Strides(stride // count, tensor.image_stride_bytes)
    return replace(tensor, view=view, surfaces=tensor.surfaces * count, within=strides)


def sections_text(conv: Convolution) -> str:
    """Describe the sections for the explanation of a plan."""
    return f"{conv.sections} sections of the image as channels, " if conv.sections > 1 else ""


def _view(view: View, count: int) -> View | None:
    channels = align(view.channels, CHANNELS_PER_SURFACE) * count
    if view.height % count == 0:
        return View(view.images, view.height // count, view.width, channels)
    if view.width % count == 0:
        return View(view.images, view.height, view.width // count, channels)
    return None


def _weights(conv: Convolution, count: int) -> npt.NDArray[np.int8]:
    """Return every section's kernels on its own channels."""
    lanes = CHANNELS_PER_SURFACE
    outputs, _, _, inputs = conv.weights.shape
    kernels, channels = align(outputs, lanes), align(inputs, lanes)
    given = np.full((kernels, channels), conv.weight_zero_point, np.int8)
    given[:outputs, :inputs] = conv.weights[:, 0, 0]
    given = given.reshape(kernels // lanes, lanes, channels // lanes, lanes)
    shape = (kernels // lanes, count, lanes, channels // lanes, count, lanes)
    weights = np.full(shape, conv.weight_zero_point, np.int8)
    for section in range(count):
        weights[:, section, :, :, section] = given
    return weights.reshape(count * kernels, 1, 1, count * channels)


def _per_kernel(values: npt.NDArray[Number], count: int, spare: Number) -> npt.NDArray[Number]:
    """``values`` in the order of the sections' kernels; ``spare``: of those that complete a
    surface.
    """
    lanes = CHANNELS_PER_SURFACE
    whole = np.full(align(len(values), lanes), spare, values.dtype)
    whole[: len(values)] = values
    return np.repeat(whole.reshape(-1, 1, lanes), count, axis=1).reshape(-1)
