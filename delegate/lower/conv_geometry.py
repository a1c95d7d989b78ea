"""Turn a convolution into the tiler's geometry, and choose its plan: tiles, or groups of input
channels.

Other rows for convolutions that see single pixels.

A 1 x 1 kernel of stride 1 without padding does not care how an image's pixels form rows, and a
surface holds them one after the other. Rows of another length can need fewer tasks: an image
wider than a task's 2047 pixels has to be cut into columns, its pixels in shorter rows do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import CHANNELS_PER_SURFACE, Element, align
from delegate.errors import LoweringError
from delegate.lower.conv_spec import Convolution
from delegate.lower.image_parts import keeps_pixels, row_pairs
from delegate.lower.memory.tensors import View
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


def planned_cycles(
    chip: Chip, rows: Axis, columns: Axis, channels: int, kernels: int, images: int = 1
) -> int:
    """Return the estimated cycles, launches included, of a dense convolution of int8 with so many
    kernels: on pairs of rows where that is cheaper. Raises TilingError.
    """
    best = _tiled_cycles(chip, rows, columns, channels, kernels, images)
    for beside, paired in row_pairs(chip, rows, columns.output_size, channels, kernels):
        inputs, outputs = (
            count * CHANNELS_PER_SURFACE if count > 1 else single
            for count, single in zip(beside, (channels, kernels), strict=True)
        )
        with suppress(TilingError):
            cycles = _tiled_cycles(chip, paired, columns, inputs, outputs, images)
            best = min(best, cycles + chip.rates.kick_cycles)  # see plan_rows
    return best


def _tiled_cycles(
    chip: Chip, rows: Axis, columns: Axis, channels: int, kernels: int, images: int
) -> int:
    geometry = ConvGeometry(
        rows,
        columns,
        align(channels, CHANNELS_PER_SURFACE),
        padded_kernels(kernels, chip.groups),
        kernels,
        real_channels=channels,
        images=images,
        chip=chip,
    )
    return plan_tiles(geometry).cost_cycles


def plan_rows(
    conv: Convolution, parts: Iterable[Convolution] = ()
) -> tuple[Convolution, TilePlan | InputGroups]:
    """Tiles, of rows of the image or of other ones, or of what ``parts`` make of ``conv``; or
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
    for other in _other_forms(conv, tuple(parts), len(tiles.tiles)):
        try:
            plan = plan_tiles(geometry_of(other))
        except TilingError:
            continue
        # Fewer boards have run tasks with gaps between rows: they have to save a launch.
        margin = conv.chip.rates.kick_cycles if other.are_rows > best.are_rows else 0
        if (plan.cost_cycles + margin, plan.moved_bytes) < tiles.rank:
            best, tiles = other, plan
    return best, tiles


def _other_forms(
    conv: Convolution, parts: tuple[Convolution, ...], tiles: int
) -> Iterator[Convolution]:
    """Ways to see the same memory. ``tiles``: of rows as they are."""
    yield from parts
    for form in (conv, *parts):
        if tiles > 1 and not form.are_rows:
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


def rows_text(conv: Convolution) -> str:
    """Describe it for the explanation of a plan."""
    view, seen = conv.target.view, conv.output_view
    if view.pixels != seen.pixels or view.width == seen.width:
        return ""
    return f"pixels as {seen.height} x {seen.width}, "
