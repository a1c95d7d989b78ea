"""The tasks of a convolution, one for every image and tile."""

from __future__ import annotations

from dataclasses import replace

from delegate.chip.element import Element
from delegate.chip.limits import ATOM_BYTES, align
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.conv_geometry import geometry_of, group_of, programmed_channels
from delegate.lower.conv_weights import pack_weights, weights_of_part
from delegate.lower.known_stages import keeps_weights
from delegate.lower.memory.footprint import BN_OPERAND_BYTES
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.resolved import Convolution
from delegate.lower.task import (
    CbufPlan,
    ConvTask,
    FeatureInput,
    OutputCube,
    Stages,
    Weights,
)
from delegate.lower.tiling.geometry import Part
from delegate.lower.tiling.tiles import Tile, TilePlan, TilingError, plan_tiles


def operand_channels(conv: Convolution) -> int:
    """Channels that operands of the stages are packed for: parts of the kernels may end a surface
    after the cube of all of them.
    """
    return align(conv.output_view.channels, group_of(conv)) + conv.element.lanes


def tile_tasks(
    conv: Convolution,
    stages: Stages,
    constants: ConstantPool,
    region: tuple[range, range] | None = None,
) -> list[ConvTask]:
    """The tasks of ``conv`` on one core, with stages that are no requantisation. ``region``: rows
    and columns of the output that are wanted; None: all. Raises LoweringError.
    """
    geometry = geometry_of(conv)
    if region is not None:
        rows, columns = region
        geometry = replace(
            geometry,
            rows=replace(geometry.rows, begin=rows.start, output_size=rows.stop),
            columns=replace(geometry.columns, begin=columns.start, output_size=columns.stop),
        )
    try:
        plan = plan_tiles(geometry)
    except TilingError as error:
        raise LoweringError(conv.node, error.rule, str(error)) from error
    return tasks_of_plan(conv, plan, pack_weights(conv, constants), stages)


def tasks_of_plan(
    conv: Convolution,
    plan: TilePlan,
    weights: Weights,
    stages: Stages,
) -> list[ConvTask]:
    """Return the tasks of ``plan``, part by part."""
    tasks = []
    may_keep = keeps_weights(conv.chip, conv.kind, stages, conv.element)
    for part in dict.fromkeys(tile.part for tile in plan.tiles):
        of_part = _operands_of_part(stages, part)
        for image in range(conv.input_view.images):
            for tile in plan.tiles:
                if tile.part != part:
                    continue
                first = image == 0 and tile.first_of_part
                tasks.append(
                    ConvTask(
                        tile=_tile_name(conv, image, tile),
                        feature=_feature(conv, image, tile),
                        weights=weights_of_part(conv, weights, part),
                        cbuf=CbufPlan(
                            data_banks=tile.data_banks,
                            weight_banks=tile.weight_banks,
                            weight_reuse=may_keep and tile.weights_resident and not first,
                        ),
                        output=_output(conv, image, tile),
                        strides=conv.strides,
                        dilations=conv.dilations,
                        is_depthwise=conv.is_depthwise,
                        spread=conv.spread,
                        element=conv.element,
                        **of_part._asdict(),
                    )
                )
    return tasks


def folded_text(conv: Convolution) -> str:
    """Describe what the host folds, for the description of a layer."""
    fold = conv.source.fold
    if fold is None:
        return ""
    lanes = f"{fold.window_h} x {fold.window_w} x {fold.channels}"
    return f"input folded by the host ({lanes} as {fold.lanes} channels), "


def _tile_name(conv: Convolution, image: int, tile: Tile) -> str:
    names = [f"rows {_span(tile.rows.output_start, tile.rows.output_size)}"]
    if tile.columns.output_size < conv.output_view.width:
        names.append(f"columns {_span(tile.columns.output_start, tile.columns.output_size)}")
    if tile.part.outputs < conv.output_view.channels:
        names.append(f"channels {_span(tile.part.first, tile.part.outputs)}")
    if conv.input_view.images > 1:
        names.insert(0, f"image {image}")
    return " ".join(names)


def _span(first: int, count: int) -> str:
    return f"{first}..{first + count - 1}"


def _operands_of_part(stages: Stages, part: Part) -> Stages:
    if part.first == 0:
        return stages
    bs, bn, ew = stages.bs, stages.bn, stages.ew
    assert bs.operands is not None
    bs = replace(bs, operands=bs.operands.moved(part.first * bs.bytes_per_channel))
    if bn.operands is not None:
        bn = replace(bn, operands=bn.operands.moved(part.first * BN_OPERAND_BYTES))
    if ew is not None and ew.operand is not None:
        ew = replace(ew, operand=ew.operand.moved(part.first * ew.operand_bytes))
    return stages._replace(bs=bs, bn=bn, ew=ew)


def _surface_offset(conv: Convolution, part: Part, surface_stride_bytes: int) -> int:
    return part.first // conv.element.lanes * surface_stride_bytes


def _feature(conv: Convolution, image: int, tile: Tile) -> FeatureInput:
    view = conv.input_view
    first_pixel = image * view.pixels + tile.rows.input_start * view.width
    first_pixel += tile.columns.input_start
    source = conv.source.pixel(first_pixel)
    channels = programmed_channels(conv)
    real = view.channels
    if conv.is_depthwise:
        stride = conv.source.surface_stride_bytes
        source = source.moved(_surface_offset(conv, tile.part, stride))
        channels, real = tile.part.kernels, tile.part.outputs
    # A surface that only completes a group counts as real: the CNA must fetch it.
    is_widened = channels > align(real, conv.element.lanes)
    return FeatureInput(
        source=source,
        height=tile.rows.input_size,
        width=tile.columns.input_size,
        channels=channels,
        channels_real=channels if is_widened else real,
        line_stride_bytes=_line_stride_bytes(conv.source, view),
        surface_stride_bytes=conv.source.surface_stride_bytes,
        entries_per_row=tile.entries_per_row,
        pad_top=tile.rows.pad,
        pad_left=tile.columns.pad,
        pad_value=conv.source.zero_point,
        channels_used=real,
    )


def _first_output_pixel(conv: Convolution, image: int, tile: Tile) -> int:
    first = image * conv.output_view.pixels + tile.columns.output_start
    return first + tile.rows.output_start * conv.output_view.width


def _output(conv: Convolution, image: int, tile: Tile) -> OutputCube:
    lanes = conv.element.lanes
    surfaces = tile.part.surfaces(group_of(conv), lanes)
    stride = conv.target.surface_stride_bytes
    target = conv.target.pixel(_first_output_pixel(conv, image, tile))
    width, line_bytes = tile.columns.output_size, _line_stride_bytes(conv.target, conv.output_view)
    return OutputCube(
        target=target.moved(surfaces.start * stride),
        height=tile.rows.output_size,
        width=width,
        channels=len(surfaces) * lanes,
        channels_real=_written_channels(conv, tile.part),
        surface_stride_bytes=stride,
        surfaces_per_group=group_of(conv) // lanes,
        line_stride_bytes=line_bytes if line_bytes > width * ATOM_BYTES else None,
        element_bytes=conv.element.bytes,
    )


def _written_channels(conv: Convolution, part: Part) -> int:
    """Channels with a value: of fp16 also the spare lanes of the last surface, see
    ``programmed_kernels``.
    """
    if conv.element is Element.FP16:
        return align(part.outputs, conv.element.lanes)
    return part.outputs


def _line_stride_bytes(tensor: DeviceTensor, view: View) -> int:
    """Return the bytes from a row of ``view`` to the next. Where rows lie apart, it is the tensor's
    own.
    """
    if tensor.elements == view:
        return tensor.line_stride_bytes
    assert tensor.within is None or tensor.within.line_bytes is None
    return view.width * ATOM_BYTES
