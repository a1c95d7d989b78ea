"""Other ways to see the maps of a convolution, and the cheapest plan of all of them: tiles, or
groups of input channels where no tile fits.

Parts of an image as channels are for convolutions that leave half of the MAC array idle. The array
takes 32 channels at a time and makes 32: 16, or the last 16 of 48, leave half of it
idle. A surface holds an image's rows one after the other, so the same memory is also a map of half
the rows and twice the surfaces: its first and its second half (sections), or its even and its odd
rows (pairs of rows). Every part of the result has kernels of its own, whose weights for what it
does not see count as zero, so every sum is the same. Nobody else sees any of this.

Sections are for kernels that see single pixels, and of any number of surfaces, in the order
surface, section, lane. Pairs of rows are for all others; the surfaces of a map must lie at equal
distances, so a map in pairs has one of its own.

A 1 x 1 kernel of stride 1 without padding does not care how an image's pixels form rows either.
Rows of another length can need fewer tasks: an image wider than a task's 2047 pixels has to be cut
into columns, its pixels in shorter rows do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE, Element, align
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.memory.tensors import DeviceTensor, Strides, View
from delegate.lower.rules import TASKS_IN_RANGE
from delegate.lower.task import Pair
from delegate.lower.tiling.choices import InputGroups
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.tiling.tiles import TilePlan, plan_tiles

Number = TypeVar("Number", bound=np.generic)

_PAIR: Final = 2
_PAIRED: Final[tuple[Pair, ...]] = ((_PAIR, _PAIR), (1, _PAIR), (_PAIR, 1))
"""Rows of the source and of the result that lie side by side."""


def sees_single_pixels(conv: Convolution) -> bool:
    """Return whether every pixel of a dense convolution's result comes from the same one of its
    source.
    """
    return not conv.is_depthwise and conv.kernel == (1, 1) and keeps_pixels(conv)


def keeps_pixels(conv: Convolution) -> bool:
    """Return whether the result has the input's pixels: strides of one, no padding, nothing that
    the host folds.
    """
    is_same = conv.padding == (0, 0) and conv.input_view.pixels == conv.output_view.pixels
    return conv.strides == conv.spread == (1, 1) and is_same and conv.source.fold is None


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
    input_view, output_view = (_section(v, count) for v in (conv.input_view, conv.output_view))
    if input_view is None or output_view is None or conv.input_view.pixels % unit:
        return
    is_same = (conv.source.view, conv.target.view) == (conv.input_view, conv.output_view)
    if not is_same:  # a fully connected reading of the same bytes
        return
    yield replace(
        conv,
        parts=(count, count),
        weights=_section_weights(conv, count),
        bias=_per_kernel(conv.bias, count, np.int64(0)),
        ratios=_per_kernel(conv.ratios, count, conv.ratios[0]),
        input_view=input_view,
        output_view=output_view,
    )


def row_pairs(
    chip: Chip, rows: Axis, width: int, channels: int, kernels: int
) -> Iterator[tuple[Pair, Axis]]:
    """Yield how many rows of source and result may lie side by side, and what ``rows`` become, of
    int8 maps of so many channels. ``width``: of the result.
    """
    if Primitive.ROW_GAPS in chip.lacks or Primitive.UNEQUAL_SIDES in chip.lacks:
        return
    if chip.missing:  # no more forms than must be for a board that was wrong with some
        return
    for beside in _PAIRED:
        is_alone = all(
            count == 1 or lanes <= CHANNELS_PER_SURFACE
            for count, lanes in zip(beside, (channels, kernels), strict=True)
        )
        found = rows.beside(*beside) if is_alone else None
        if found is None or found.stride > chip.limits.stride:
            continue
        # Between rows of the result, even of a tile of a column, lie fewer pixels than of a pair.
        if beside[1] > 1 and beside[1] * width > chip.limits.notch:
            continue
        if found.kernel <= chip.limits.kernel_size:
            yield beside, found


def row_pairs_of(conv: Convolution) -> Iterator[Convolution]:
    """``conv`` on pairs of rows: of source and result, or of one of them."""
    view, out = conv.input_view, conv.output_view
    is_same = (conv.source.view, conv.target.view) == (view, out)
    is_full = min(view.channels, out.channels) > CHANNELS_PER_SURFACE
    if conv.is_depthwise or conv.element is Element.FP16 or not is_same or is_full:
        return
    steps = conv.strides[0], conv.dilations[0], conv.padding[0], 0, conv.spread[0]
    rows = Axis(view.height, out.height, conv.kernel[0], *steps)
    for beside, paired in row_pairs(conv.chip, rows, out.width, view.channels, out.channels):
        yield _in_row_pairs(conv, *beside, paired)


def in_parts(tensor: DeviceTensor, conv: Convolution, count: int) -> DeviceTensor:
    """``tensor`` as ``conv`` sees it, which has ``count`` parts of its image as channels."""
    if count == 1:
        return tensor
    if conv.are_rows:
        line = tensor.line_stride_bytes
        strides = Strides(line, tensor.image_stride_bytes, count * line)
        view = _rows_beside(tensor.view, count)
        return replace(tensor, view=view, surfaces=count, within=strides)
    section = _section(tensor.view, count)
    assert section is not None
    stride = tensor.surface_stride_bytes
    # What is not one piece has no sections at equal distances.
    assert stride == tensor.view.pixels * ATOM_BYTES
    assert tensor.line_stride_bytes == tensor.view.width * ATOM_BYTES
    strides = Strides(stride // count, tensor.image_stride_bytes)
    return replace(tensor, view=section, surfaces=tensor.surfaces * count, within=strides)


def seen_text(conv: Convolution) -> str:
    """Describe how ``conv`` sees its maps for the explanation of a plan."""
    found, fold = "", conv.source.fold
    if fold is not None:
        lanes = f"{fold.window_h} x {fold.window_w} x {fold.channels}"
        found += f"input folded by the host ({lanes} as {fold.lanes} channels), "
    if conv.are_rows:
        names = ("source", "result")
        paired = " and ".join(n for n, count in zip(names, conv.parts, strict=True) if count > 1)
        found += f"pairs of rows of the {paired} as channels, "
    elif conv.parts[0] > 1:
        found += f"{conv.parts[0]} sections of the image as channels, "
    view, seen = conv.target.view, conv.output_view
    if view.pixels == seen.pixels and view.width != seen.width:
        found += f"pixels as {seen.height} x {seen.width}, "
    return found


def _section(view: View, count: int) -> View | None:
    channels = align(view.channels, CHANNELS_PER_SURFACE) * count
    if view.height % count == 0:
        return View(view.images, view.height // count, view.width, channels)
    if view.width % count == 0:
        return View(view.images, view.height, view.width // count, channels)
    return None


def _section_weights(conv: Convolution, count: int) -> npt.NDArray[np.int8]:
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
    """``values`` in the order of the parts' kernels; ``spare``: of those that complete a
    surface.
    """
    if count == 1:
        return values
    lanes = CHANNELS_PER_SURFACE
    whole = np.full(align(len(values), lanes), spare, values.dtype)
    whole[: len(values)] = values
    return np.repeat(whole.reshape(-1, 1, lanes), count, axis=1).reshape(-1)


def _rows_beside(view: View, rows: int) -> View:
    if rows == 1:
        return view
    return View(view.images, view.height // rows, view.width, rows * CHANNELS_PER_SURFACE)


def _in_row_pairs(conv: Convolution, rows_in: int, rows_out: int, rows: Axis) -> Convolution:
    """Row r of ``rows_out`` has taps from its own place on, of which ``rows_in`` are channels."""
    outputs, kh, kw, inputs = conv.weights.shape
    input_view = _rows_beside(conv.input_view, rows_in)
    output_view = _rows_beside(conv.output_view, rows_out)
    shape = (
        *(rows_out, output_view.channels // rows_out, rows.kernel, kw),
        *(rows_in, input_view.channels // rows_in),
    )
    weights = np.full(shape, conv.weight_zero_point, conv.weights.dtype)
    for row in range(rows_out):
        for tap in range(kh):
            place, part = divmod(row * conv.strides[0] + tap - conv.padding[0], rows_in)
            weights[row, :outputs, place + rows.pad, :, part, :inputs] = conv.weights[:, tap]
    return replace(
        conv,
        parts=(rows_in, rows_out),
        are_rows=True,
        weights=weights.reshape(output_view.channels, rows.kernel, kw, input_view.channels),
        bias=_per_kernel(conv.bias, rows_out, np.int64(0)),
        ratios=_per_kernel(conv.ratios, rows_out, conv.ratios[0]),
        input_view=input_view,
        output_view=output_view,
        strides=(rows.stride, conv.strides[1]),
        padding=(rows.pad, conv.padding[1]),
    )


def planned_cycles(
    chip: Chip, rows: Axis, columns: Axis, channels: int, kernels: int, images: int = 1
) -> int:
    """Return the estimated cycles, launches included, of a dense convolution of int8 with so many
    kernels: on pairs of rows where that is cheaper. Raises LoweringError.
    """
    best = _tiled_cycles(chip, rows, columns, channels, kernels, images)
    for beside, paired in row_pairs(chip, rows, columns.output_size, channels, kernels):
        inputs, outputs = (
            count * CHANNELS_PER_SURFACE if count > 1 else single
            for count, single in zip(beside, (channels, kernels), strict=True)
        )
        with suppress(LoweringError):
            cycles = _tiled_cycles(chip, paired, columns, inputs, outputs, images)
            best = min(best, cycles + chip.rates.kick_cycles)  # see plan_rows
    return best


def _tiled_cycles(
    chip: Chip, rows: Axis, columns: Axis, channels: int, kernels: int, images: int
) -> int:
    return plan_tiles(_geometry(chip, rows, columns, channels, kernels, images)).cost_cycles


def _geometry(
    chip: Chip,
    rows: Axis,
    columns: Axis,
    channels: int,
    kernels: int,
    images: int = 1,
    element_bytes: int = 1,
) -> ConvGeometry:
    return ConvGeometry(
        rows,
        columns,
        align(channels, CHANNELS_PER_SURFACE),
        align(kernels, chip.groups.kernel_unit),
        kernels,
        real_channels=channels,
        images=images,
        chip=chip,
        element_bytes=element_bytes,
    )


def fits_one_task(chip: Chip, image: View, kernels: int, element_bytes: int) -> bool:
    """Return whether a dense convolution of a whole image needs no sums of several tasks."""
    rows, columns = (Axis(side, 1, side) for side in (image.height, image.width))
    try:
        plan_tiles(_geometry(chip, rows, columns, image.channels, kernels, 1, element_bytes))
    except LoweringError:
        return False
    return True


def plan_rows(
    conv: Convolution, parts: Iterable[Convolution] = ()
) -> tuple[Convolution, TilePlan | InputGroups]:
    """Tiles, of rows of the image or of other ones, or of what ``parts`` make of ``conv``; or
    input channels in groups, where no tile fits. Raises LoweringError.
    """
    geometry = conv.geometry
    try:
        tiles = plan_tiles(geometry)
    except LoweringError as error:
        found = _input_groups(conv, geometry)
        if found is None:
            raise
        groups, _, tasks = found
        if tasks > conv.chip.limits.chain_tasks:
            raise LoweringError(
                conv.node,
                TASKS_IN_RANGE,
                f"the input channels need {len(groups)} passes and every pixel tasks of its "
                f"own: {tasks} tasks; the limit is {conv.chip.limits.chain_tasks}",
            ) from error
        return conv, found
    best = conv
    others = [*parts]
    if len(tiles.tiles) > 1:
        wide = [other_rows(form) for form in (conv, *others) if not form.are_rows]
        others += chain.from_iterable(wide)
    for other in others:
        try:
            plan = plan_tiles(other.geometry)
        except LoweringError:
            continue
        # Fewer boards have run tasks with gaps between rows: they have to save a launch.
        margin = conv.chip.rates.kick_cycles if other.are_rows > best.are_rows else 0
        if (plan.cost_cycles + margin, plan.moved_bytes) < tiles.rank:
            best, tiles = other, plan
    return best, tiles


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

    return plan_input_groups(geometry, *sum_work(conv))


# Of rows that are multiples of so many pixels, the longest is tried: whole groups of the array
# (16), whole entries of CBUF (4), any.
GRANULES = (16, 4, 1)


def other_rows(conv: Convolution) -> Iterator[Convolution]:
    """``conv`` with other row lengths, if its kernel sees single pixels."""
    if conv.kernel != (1, 1) or not keeps_pixels(conv):
        return
    for width in row_lengths(conv.chip, conv.input_view):
        height = conv.input_view.pixels // width
        yield replace(
            conv,
            input_view=replace(conv.input_view, height=height, width=width),
            output_view=replace(conv.output_view, height=height, width=width),
        )


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
