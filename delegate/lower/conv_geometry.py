"""Turn a convolution into the tiler's geometry, and choose its plan: tiles, or groups of input
channels.

Sections of an image as channels, for convolutions that see single pixels.

The MAC array computes 32 kernels at a time: 16, or the last 16 of 48, leave half of it idle. A
surface holds an image's pixels one after the other, so its first and its second half are two
surfaces of half the image: the same memory is a map of half the pixels and twice the channels, in
the order surface, section, lane. Every section has kernels of its own, whose weights for the other
one count as zero, so every sum is the same. Nobody else sees any of this.

Other rows for convolutions that see single pixels.

A 1 x 1 kernel of stride 1 without padding does not care how an image's pixels form rows, and a
surface holds them one after the other. Rows of another length can need fewer tasks: an image
wider than a task's 2047 pixels has to be cut into columns, its pixels in shorter rows do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, Element, align
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.rules import TASKS_IN_RANGE
from delegate.lower.tiling.choices import InputGroups
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.tiling.tiles import TilePlan, TilingError, plan_tiles
from delegate.lower.weights import (
    depthwise_channels,
    padded_kernels,
)


def group_of(conv: Convolution) -> int:
    """Output channels that are written together."""
    return conv.chip.groups.outputs(conv.is_depthwise) // conv.element.bytes


def programmed_channels(conv: Convolution) -> int:
    """Input channels a task is programmed with: whole surfaces."""
    channels = conv.input_view.channels
    if conv.is_depthwise or conv.chip.groups.fills_inputs:
        size = conv.element.bytes
        return depthwise_channels(channels * size, conv.chip.groups) // size
    return align(channels, conv.element.lanes)


def programmed_kernels(conv: Convolution) -> int:
    """Kernels that a dense convolution is programmed with. Those of fp16 fill their last surface,
    as its padding is read: 0 times what is there must not be NaN.
    """
    outputs = conv.output_view.channels
    if conv.element is Element.FP16:
        return align(outputs, conv.element.lanes)
    return padded_kernels(outputs, conv.chip.groups)


def geometry_of(conv: Convolution) -> ConvGeometry:
    """Return the geometry of ``conv`` that the tiler works on."""
    view, out = conv.input_view, conv.output_view
    kh, kw = conv.kernel
    steps = zip(conv.strides, conv.dilations, conv.padding, (0, 0), conv.spread, strict=True)
    sizes = (view.height, out.height, kh), (view.width, out.width, kw)
    rows, columns = (Axis(*size, *step) for size, step in zip(sizes, steps, strict=True))
    channels = programmed_channels(conv)
    kernels = channels if conv.is_depthwise else programmed_kernels(conv)
    if conv.element is Element.FP16 and not conv.is_depthwise:
        from delegate.lower.weights import stored_lanes

        channels = stored_lanes(channels, conv.chip.groups.input_lanes)
    return ConvGeometry(
        rows,
        columns,
        channels,
        kernels,
        out.channels,
        conv.is_depthwise,
        conv.element.bytes,
        images=view.images,
        real_channels=view.channels,
        chip=conv.chip,
    )


def plan_rows(
    conv: Convolution, *, has_sections: bool = False
) -> tuple[Convolution, TilePlan | InputGroups]:
    """Tiles, of rows of the image or of other ones, or with ``has_sections`` of its sections; or
    input channels in groups, where no tile fits. Raises LoweringError.
    """
    geometry = geometry_of(conv)
    try:
        tiles = plan_tiles(geometry)
    except TilingError as error:
        groups = _input_groups(conv, geometry)
        if groups is None:
            raise LoweringError(conv.node, error.rule, str(error)) from error
        if groups.tasks > conv.chip.limits.chain_tasks:
            raise LoweringError(
                conv.node,
                TASKS_IN_RANGE,
                f"the input channels need {len(groups.groups)} passes and every pixel tasks of its "
                f"own: {groups.tasks} tasks; the limit is {conv.chip.limits.chain_tasks}",
            ) from error
        return conv, groups
    best = conv
    for other in _other_forms(conv, len(tiles.tiles), has_sections=has_sections):
        try:
            plan = plan_tiles(geometry_of(other))
        except TilingError:
            continue
        if plan.rank < tiles.rank:
            best, tiles = other, plan
    return best, tiles


def _other_forms(conv: Convolution, tiles: int, *, has_sections: bool) -> Iterator[Convolution]:
    """Ways to see the same memory. ``tiles``: of rows as they are."""
    forms = tuple(sections_of(conv)) if has_sections else ()
    yield from forms
    for form in (conv, *forms):
        if tiles > 1:
            yield from other_rows(form)


def _input_groups(conv: Convolution, geometry: ConvGeometry) -> InputGroups | None:
    """Return the groups of input channels; None for depthwise and transposed convolutions and for
    fp16, whose sums are not known in parts.
    """
    if conv.is_depthwise or conv.spread != (1, 1):
        return None
    if conv.element is Element.FP16 or Primitive.SUMS in conv.chip.lacks:
        return None
    # On demand: few models need groups.
    from delegate.lower.tiling.choices import plan_input_groups
    from delegate.lower.tiling.sum_passes import sum_work

    return plan_input_groups(geometry, sum_work(conv))


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
    unit = conv.chip.groups.surface_pixels(is_depthwise=True)
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


# Of rows that are multiples of so many pixels, the longest is tried: whole groups of the array
# (16), whole entries of CBUF (4), any.
GRANULES = (16, 4, 1)


def sees_single_pixels(conv: Convolution) -> bool:
    """Return whether every pixel of a dense convolution's result comes from the same one of its
    source.
    """
    return not conv.is_depthwise and conv.kernel == (1, 1) and _keeps_pixels(conv)


def other_rows(conv: Convolution) -> Iterator[Convolution]:
    """``conv`` with other row lengths, if its kernel sees single pixels."""
    if conv.kernel != (1, 1) or not _keeps_pixels(conv):
        return
    for width in row_lengths(conv.chip, conv.input_view):
        height = conv.input_view.pixels // width
        yield replace(
            conv,
            input_view=replace(conv.input_view, height=height, width=width),
            output_view=replace(conv.output_view, height=height, width=width),
        )


def _keeps_pixels(conv: Convolution) -> bool:
    """Return whether the result has the input's pixels: strides of one, no padding, nothing that
    the host folds.
    """
    is_same = conv.padding == (0, 0) and conv.input_view.pixels == conv.output_view.pixels
    return conv.strides == conv.spread == (1, 1) and is_same and conv.source.fold is None


def row_lengths(chip: Chip, view: View) -> list[int]:
    """Divisors of the pixel count: for every granule the longest row; and the squarest image, whose
    short rows let a tile end where CBUF is full. None shorter than the array's group of pixels.
    """
    pixels = view.pixels
    longest = min(pixels, chip.limits.feature_size)
    divisors = [n for n in range(chip.rates.step_pixels, longest + 1) if pixels % n == 0]
    if not divisors:
        return []
    chosen = [min(divisors, key=lambda n: abs(n * n - pixels))]
    for granule in GRANULES:
        chosen += [n for n in divisors if n % granule == 0][-1:]
    return [width for width in dict.fromkeys(chosen) if width != view.width]


def rows_text(conv: Convolution) -> str:
    """Describe it for the explanation of a plan."""
    view, seen = conv.target.view, conv.output_view
    if view.pixels != seen.pixels or view.width == seen.width:
        return ""
    return f"pixels as {seen.height} x {seen.width}, "
