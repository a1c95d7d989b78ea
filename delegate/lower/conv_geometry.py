"""Turn a convolution into the tiler's geometry, and choose its plan: tiles, or groups of input
channels.
"""

from __future__ import annotations

from collections.abc import Iterator

from delegate.chip.element import Element
from delegate.chip.limits import align
from delegate.errors import LoweringError
from delegate.lower.resolved import Convolution
from delegate.lower.rules import TASKS_IN_RANGE
from delegate.lower.tiling.geometry import Axis, ConvGeometry
from delegate.lower.tiling.input_groups import InputGroups
from delegate.lower.tiling.pixel_rows import other_rows
from delegate.lower.tiling.sections import sections_of
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
    if conv.is_depthwise or conv.chip.forms.whole_kernel_groups:
        # Without whole groups sources differ on how many entries of CBUF 48 channels take.
        size = conv.element.bytes
        return depthwise_channels(channels * size, conv.chip.groups) // size
    return align(channels, conv.element.lanes)


def programmed_kernels(conv: Convolution) -> int:
    """Kernels that a dense convolution is programmed with. Those of fp16 fill their last surface,
    as its spare lanes are read: 0 times what is there must not be NaN.
    """
    outputs = conv.output_view.channels
    if conv.element is Element.FP16:
        return align(outputs, conv.element.lanes)
    return padded_kernels(outputs, conv.chip)


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
        from delegate.lower.half.weights import stored_lanes

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
    """None of a depthwise or transposed convolution, and of fp16: their sums are not known in
    parts.
    """
    if conv.is_depthwise or conv.spread != (1, 1):
        return None
    if conv.element is Element.FP16 or not conv.chip.forms.writes_sums:
        return None
    # On demand: few models need groups.
    from delegate.lower.tiling.input_groups import plan_input_groups
    from delegate.lower.tiling.sum_passes import sum_work

    return plan_input_groups(geometry, sum_work(conv))
