"""The tasks of a convolution, one for every image and tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delegate.chip.element import ATOM_BYTES, Element, align
from delegate.errors import LoweringError
from delegate.lower.conv_spec import (
    Convolution,
    programmed_channels,
)
from delegate.lower.legalize import keeps_weights
from delegate.lower.memory.footprint import BN_OPERAND_BYTES
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.operation import ConstantPool
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.task import (
    ConvTask,
    FeatureInput,
    OutputCube,
    Stages,
    Weights,
)
from delegate.lower.tiling.geometry import Part
from delegate.lower.tiling.tiles import Tile, TilePlan, plan_tiles
from delegate.lower.weights import (
    pack_dense,
    pack_depthwise,
)


def tile_tasks(
    conv: Convolution,
    stages: Stages,
    constants: ConstantPool,
    region: tuple[range, range] | None = None,
    summand: DeviceTensor | None = None,
) -> list[ConvTask]:
    """The tasks of ``conv`` on one core, with stages that are no requantisation. ``region``: rows
    and columns of the output that are wanted; None: all. ``summand``: the map that EW adds. Raises
    LoweringError.
    """
    geometry = conv.geometry
    if region is not None:
        rows, columns = region
        geometry = replace(
            geometry,
            rows=replace(geometry.rows, begin=rows.start, output_size=rows.stop),
            columns=replace(geometry.columns, begin=columns.start, output_size=columns.stop),
        )
    return tasks_of_plan(conv, plan_tiles(geometry), pack_weights(conv, constants), stages, summand)


def tasks_of_plan(
    conv: Convolution,
    plan: TilePlan,
    weights: Weights,
    stages: Stages,
    summand: DeviceTensor | None = None,
) -> list[ConvTask]:
    """Return the tasks of ``plan``, part by part. ``summand``: the map that EW adds."""
    tasks: list[ConvTask] = []
    is_alone = len(plan.tiles) == conv.input_view.images == 1
    may_keep = not is_alone and keeps_weights(conv.chip, conv.kind, stages, conv.element)
    parts = dict.fromkeys(tile.part for tile in plan.tiles)
    for part in parts:
        of_part = _operands_of_part(stages, part) if part.first else stages
        own_weights = weights_of_part(conv, weights, part) if len(parts) > 1 else weights
        for image in range(conv.input_view.images):
            for tile in plan.tiles:
                if tile.part != part:
                    continue
                first = image == 0 and tile.first_of_part
                own = of_part if summand is None else _adding(of_part, conv, image, tile, summand)
                tasks.append(
                    ConvTask(
                        tile=_tile_name(conv, image, tile),
                        feature=_feature(conv, image, tile),
                        weights=own_weights,
                        data_banks=tile.data_banks,
                        weight_banks=tile.weight_banks,
                        weight_reuse=may_keep and tile.weights_resident and not first,
                        output=_output(conv, image, tile),
                        strides=conv.strides,
                        dilations=conv.dilations,
                        is_depthwise=conv.is_depthwise,
                        spread=conv.spread,
                        element=conv.element,
                        **own._asdict(),
                    )
                )
    return tasks


def _adding(
    stages: Stages, conv: Convolution, image: int, tile: Tile, summand: DeviceTensor
) -> Stages:
    """Return ``stages`` with the part of ``summand`` where the tile's result is."""
    assert stages.ew is not None
    stride = summand.surface_stride_bytes
    first = summand.pixel(_first_output_pixel(conv, image, tile))
    operand = first.moved(_surface_offset(conv, tile.part, stride))
    return stages._replace(ew=replace(stages.ew, operand=operand, surface_stride_bytes=stride))


def _tile_name(conv: Convolution, image: int, tile: Tile) -> str:
    rows, columns, part = tile.rows, tile.columns, tile.part
    spans = [("rows", rows.output_start, rows.output_size)]
    if columns.output_size < conv.output_view.width:
        spans.append(("columns", columns.output_start, columns.output_size))
    if part.outputs < conv.output_view.channels:
        spans.append(("channels", part.first, part.outputs))
    names = [f"{name} {first}..{first + count - 1}" for name, first, count in spans]
    return " ".join([f"image {image}", *names] if conv.input_view.images > 1 else names)


def _operands_of_part(stages: Stages, part: Part) -> Stages:
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
    lanes, group = conv.element.lanes, conv.geometry.group
    surfaces = tile.part.surfaces(group, lanes)
    stride = conv.target.surface_stride_bytes
    target = conv.target.pixel(_first_output_pixel(conv, image, tile))
    real = tile.part.outputs  # of fp16 also the padding of the last surface has a value
    width, line_bytes = tile.columns.output_size, _line_stride_bytes(conv.target, conv.output_view)
    return OutputCube(
        target=target.moved(surfaces.start * stride),
        height=tile.rows.output_size,
        width=width,
        channels=len(surfaces) * lanes,
        channels_real=align(real, lanes) if conv.element is Element.FP16 else real,
        surface_stride_bytes=stride,
        surfaces_per_group=group // lanes,
        line_stride_bytes=line_bytes if line_bytes > width * ATOM_BYTES else None,
        element_bytes=conv.element.bytes,
    )


def _line_stride_bytes(tensor: DeviceTensor, view: View) -> int:
    """Return the bytes from a row of ``view`` to the next. Where rows lie apart, it is the tensor's
    own.
    """
    if tensor.elements == view:
        return tensor.line_stride_bytes
    assert tensor.within is None or tensor.within.line_bytes is None
    return view.width * ATOM_BYTES


def pack_weights(conv: Convolution, constants: ConstantPool) -> Weights:
    """Adds them to ``constants``. Raises LoweringError where the chip has no form for them."""
    (kh, kw), lanes = conv.kernel, programmed_channels(conv)
    if conv.element is Element.FP16:
        return _pack_half_weights(conv, constants)
    if conv.is_depthwise:
        packed = _packed_depthwise(conv)
        kernels, per_kernel = 1, len(packed)
    else:
        kernels = conv.geometry.kernels
        per_kernel = kh * kw * lanes
        weights = conv.weights
        if conv.chip.groups.fills_inputs:
            weights = np.full((kernels, kh, kw, lanes), conv.weight_zero_point, np.int8)
            weights[: len(conv.weights), :, :, : conv.weights.shape[3]] = conv.weights
        unit = conv.geometry.unit
        packed = pack_dense(weights, conv.weight_zero_point, conv.chip.groups, unit)
    # A tile of fewer and larger kernels would not have fitted CBUF.
    assert per_kernel <= conv.chip.limits.bytes_per_kernel or conv.is_depthwise
    return Weights(constants.add(packed), len(packed), per_kernel, kernels, kh, kw)


def _packed_depthwise(conv: Convolution) -> bytes:
    try:
        return pack_depthwise(conv.weights, conv.weight_zero_point, conv.chip.groups)
    except ValueError as error:
        raise LoweringError(conv.node, FORM_IS_KNOWN, str(error)) from None


def _pack_half_weights(conv: Convolution, constants: ConstantPool) -> Weights:
    from delegate.lower.weights import pack_dense_half, pack_depthwise_half

    groups = conv.chip.groups
    if conv.is_depthwise:
        kernels, packed = 1, pack_depthwise_half(conv.weights, groups)
    else:
        kernels = conv.geometry.kernels
        packed = pack_dense_half(conv.weights, kernels, groups, conv.geometry.unit)
    size = len(packed)
    return Weights(constants.add(packed), size, size // kernels, kernels, *conv.kernel)


def weights_of_part(conv: Convolution, weights: Weights, part: Part) -> Weights:
    """Kernel groups lie one after the other, so a part is a range of bytes."""
    taps = weights.kh * weights.kw * conv.element.bytes
    per_kernel = weights.bytes_per_kernel
    if conv.is_depthwise:
        per_kernel = taps * conv.chip.groups.depthwise_weight_bytes
    size = part.kernels * per_kernel
    return replace(
        weights,
        source=weights.source.moved(part.first * per_kernel),
        total_bytes=size,
        bytes_per_kernel=size if conv.is_depthwise else weights.bytes_per_kernel,
        kernels=1 if conv.is_depthwise else part.kernels,
    )
