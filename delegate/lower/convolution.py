"""What dense, depthwise and fully connected convolutions share: from resolved integers to a layer
of tasks.

In: a ``Convolution`` (weights and bias in the device's int8 domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.errors import LoweringError
from delegate.graph import Activation
from delegate.lower.constants import ConstantPool
from delegate.lower.fused_add import FusedAdd, FusedRequantization, fuse_requantization
from delegate.lower.hw import (
    ATOM_BYTES,
    CHANNELS_PER_SURFACE,
    DENSE_KERNEL_GROUP,
    DEPTHWISE_GROUP,
    MAX_BYTES_PER_KERNEL,
    MAX_CUBE_SIZE,
    MAX_FEATURE_SIZE,
    MAX_KERNEL_SIZE,
    MAX_KERNELS,
    align,
)
from delegate.lower.requantize import (
    UNIT_SCALE,
    UNIT_SHIFT,
    Clamp,
    Int64Array,
    Requantization,
    accumulator_bounds,
    requantize,
)
from delegate.lower.task import (
    BnStage,
    BsStage,
    CbufPlan,
    ConvTask,
    EwStage,
    FeatureInput,
    Layer,
    OutConvert,
    OutputCube,
    Source,
    Weights,
)
from delegate.lower.tensors import DeviceTensor, View, check_cube
from delegate.lower.tiling import ConvGeometry, RowTile, TilePlan, TilingError, plan_tiles
from delegate.lower.weights import (
    depthwise_channels,
    pack_bias,
    pack_bn_multipliers,
    pack_dense,
    pack_depthwise,
    pack_operand_blocks,
    padded_kernels,
)


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """One convolution, resolved. ``weights``: int8 OHWI (dense) or HWC (depthwise), zero point not
    taken off.

    ``multipliers``: real sx * sw_c / sy, one per output channel. ``input_view``/``output_view`` say
    how the convolution looks at its tensors: the tensors' own views, or a fully connected reading
    of the same bytes.
    """

    node: int
    name: str
    op: str
    nodes: tuple[int, ...]
    weights: npt.NDArray[np.int8]
    weight_zero_point: int
    bias: Int64Array
    multipliers: npt.NDArray[np.float64]
    per_channel: bool
    activation: Activation
    output_scale: float
    output_zero_point: int
    source: DeviceTensor
    target: DeviceTensor
    input_view: View
    output_view: View
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    is_depthwise: bool
    fused: FusedAdd | None = None


class FusionNotExactError(Exception):
    """The requested fusion would not meet the numeric contract; lower the two nodes apart
    instead.
    """

    def __init__(self, node: int) -> None:
        super().__init__(f"node {node}: fusion not exact enough")
        self.node = node


def lower_convolution(conv: Convolution, constants: ConstantPool) -> Layer:
    """Packs the constants, chooses the stages and tiles the rows of every image. Raises
    LoweringError.
    """
    kh, kw = conv.weights.shape[:2] if conv.is_depthwise else conv.weights.shape[1:3]
    outputs = conv.output_view.channels
    check_cube(conv.node, conv.input_view, MAX_FEATURE_SIZE, "input")
    check_cube(conv.node, conv.output_view, MAX_CUBE_SIZE, "output")
    if max(kh, kw) > MAX_KERNEL_SIZE:
        raise LoweringError(
            conv.node,
            "kernel_size_in_range",
            f"the kernel is {kh} x {kw}; the NPU takes sides up to {MAX_KERNEL_SIZE}",
        )
    group = DEPTHWISE_GROUP if conv.is_depthwise else DENSE_KERNEL_GROUP
    cube_channels = align(outputs, group)
    if cube_channels > MAX_CUBE_SIZE:
        raise LoweringError(
            conv.node,
            "output_channels_in_range",
            f"{outputs} output channels; the NPU takes up to {MAX_CUBE_SIZE // group * group}",
        )
    weights = _pack_weights(conv, kh, kw, constants)
    plan = _plan(conv, kh, weights)
    bs, bn, ew, convert = _stages(conv, cube_channels, constants)
    tasks = []
    for image in range(conv.input_view.images):
        for number, tile in enumerate(plan.tiles):
            first = image == 0 and number == 0
            tasks.append(
                ConvTask(
                    tile=_tile_name(conv, image, tile),
                    feature=_feature(conv, image, tile, plan),
                    weights=weights,
                    cbuf=CbufPlan(
                        data_banks=plan.data_banks,
                        weight_banks=plan.weight_banks,
                        weight_reuse=plan.weights_resident and not first,
                    ),
                    output=_output(conv, image, tile, cube_channels),
                    bs=bs,
                    bn=bn,
                    ew=_operand_of_tile(conv, ew, image, tile),
                    out_convert=convert,
                    stride_h=conv.stride_h,
                    stride_w=conv.stride_w,
                    dilation_h=conv.dilation_h,
                    dilation_w=conv.dilation_w,
                    is_depthwise=conv.is_depthwise,
                )
            )
    return Layer(name=conv.name, op=conv.op, nodes=conv.nodes, tasks=tuple(tasks))


def _tile_name(conv: Convolution, image: int, tile: RowTile) -> str:
    rows = f"rows {tile.output_start}..{tile.output_start + tile.output_rows - 1}"
    return rows if conv.input_view.images == 1 else f"image {image} {rows}"


def programmed_channels(channels: int, is_depthwise: bool) -> int:
    """Input channels a task is programmed with: whole surfaces."""
    return depthwise_channels(channels) if is_depthwise else align(channels, CHANNELS_PER_SURFACE)


def _pack_weights(conv: Convolution, kh: int, kw: int, constants: ConstantPool) -> Weights:
    lanes = programmed_channels(conv.input_view.channels, conv.is_depthwise)
    if conv.is_depthwise:
        packed = pack_depthwise(conv.weights, conv.weight_zero_point)
        kernels, per_kernel = 1, len(packed)
    else:
        packed = pack_dense(conv.weights, conv.weight_zero_point)
        kernels, per_kernel = padded_kernels(conv.weights.shape[0]), kh * kw * lanes
    if per_kernel > MAX_BYTES_PER_KERNEL or kernels > MAX_KERNELS:
        raise LoweringError(
            conv.node,
            "weights_in_range",
            f"{kernels} kernels of {per_kernel} bytes; the NPU takes up to {MAX_KERNELS} of "
            f"{MAX_BYTES_PER_KERNEL}",
        )
    return Weights(constants.add(packed), len(packed), per_kernel, kernels, kh, kw)


def _plan(conv: Convolution, kh: int, weights: Weights) -> TilePlan:
    group = 1 if conv.is_depthwise else min(weights.kernels, DENSE_KERNEL_GROUP)
    geometry = ConvGeometry(
        input_height=conv.input_view.height,
        input_width=conv.input_view.width,
        channels=programmed_channels(conv.input_view.channels, conv.is_depthwise),
        output_height=conv.output_view.height,
        kernel_height=kh,
        stride_h=conv.stride_h,
        dilation_h=conv.dilation_h,
        pad_top=conv.pad_top,
        weight_bytes=weights.total_bytes,
        bytes_per_kernel_group=group * weights.bytes_per_kernel,
    )
    try:
        return plan_tiles(geometry)
    except TilingError as error:
        raise LoweringError(conv.node, error.rule, str(error)) from error


def _feature(conv: Convolution, image: int, tile: RowTile, plan: TilePlan) -> FeatureInput:
    view = conv.input_view
    first_pixel = image * view.pixels + tile.input_start * view.width
    channels = programmed_channels(view.channels, conv.is_depthwise)
    # A surface that only completes a group counts as real: the CNA must fetch it.
    is_widened = channels > align(view.channels, CHANNELS_PER_SURFACE)
    return FeatureInput(
        source=conv.source.pixel(first_pixel),
        height=tile.input_rows,
        width=view.width,
        channels=channels,
        channels_real=channels if is_widened else view.channels,
        line_stride_bytes=view.width * ATOM_BYTES,
        surface_stride_bytes=conv.source.surface_stride_bytes,
        entries_per_row=plan.entries_per_row,
        pad_top=tile.pad_top,
        pad_left=conv.pad_left,
        pad_value=conv.source.zero_point,
    )


def _first_output_pixel(conv: Convolution, image: int, tile: RowTile) -> int:
    return image * conv.output_view.pixels + tile.output_start * conv.output_view.width


def _output(conv: Convolution, image: int, tile: RowTile, channels: int) -> OutputCube:
    group = DEPTHWISE_GROUP if conv.is_depthwise else DENSE_KERNEL_GROUP
    return OutputCube(
        target=conv.target.pixel(_first_output_pixel(conv, image, tile)),
        height=tile.output_rows,
        width=conv.output_view.width,
        channels=channels,
        channels_real=conv.output_view.channels,
        surface_stride_bytes=conv.target.surface_stride_bytes,
        surfaces_per_group=group // CHANNELS_PER_SURFACE,
    )


def _operand_of_tile(
    conv: Convolution, ew: EwStage | None, image: int, tile: RowTile
) -> EwStage | None:
    if ew is None or conv.fused is None:
        return ew
    operand = conv.fused.operand.pixel(_first_output_pixel(conv, image, tile))
    return replace(ew, operand=operand)


def _stages(
    conv: Convolution, cube_channels: int, constants: ConstantPool
) -> tuple[BsStage, BnStage, EwStage | None, OutConvert]:
    """The DPU stages. The accumulator's bounds come from the weights themselves."""
    terms = _terms(conv)
    bounds = accumulator_bounds(terms, conv.bias, conv.source.zero_point)
    hardware_bias = conv.bias - conv.source.zero_point * terms.sum(axis=1)
    if conv.fused is not None:
        fused = fuse_requantization(
            conv.fused, conv.multipliers, hardware_bias, bounds, conv.activation
        )
        if fused is None:
            raise FusionNotExactError(conv.node)
        return _fused_stages(conv, conv.fused, fused, cube_channels, constants)
    chosen = requantize(
        conv.node,
        conv.multipliers,
        hardware_bias,
        bounds,
        conv.per_channel,
        conv.activation,
        conv.output_scale,
        conv.output_zero_point,
    )
    bs = _bs_stage(conv, chosen.bias, chosen.multipliers, chosen.bs_shift, cube_channels, constants)
    bn = _bn_stage(chosen, cube_channels, constants)
    convert = OutConvert(
        scale=UNIT_SCALE,
        shift=UNIT_SHIFT + chosen.unit_bits,
        offset=chosen.output_zero_point + chosen.clamp.low_lsb,
        ties_away=True,
    )
    return bs, bn, _ew_stage(chosen.clamp), convert


def _ew_stage(clamp: Clamp) -> EwStage | None:
    """Only a lower bound that is not the zero point needs EW."""
    if clamp.low is None:
        return None
    return EwStage(register_operand=-clamp.low, relu=True, relux_max=clamp.relux_max)


def _terms(conv: Convolution) -> Int64Array:
    """Weights without their zero point as [output channels, terms]."""
    weights = conv.weights.astype(np.int64) - conv.weight_zero_point
    if conv.is_depthwise:
        return weights.reshape(-1, weights.shape[-1]).T
    return weights.reshape(weights.shape[0], -1)


def _bs_stage(
    conv: Convolution,
    bias: Int64Array,
    multipliers: Int64Array,
    shift: int,
    cube_channels: int,
    constants: ConstantPool,
) -> BsStage:
    """BS with the bias from memory, and the multiplier from memory where channels differ."""
    if not conv.per_channel:
        return BsStage(
            alu=Source.MEMORY,
            mul=Source.REGISTER,
            mul_operand=int(multipliers[0]),
            shift=shift,
            shift_negative=shift,
            ow=Source.REGISTER,
            ow_operand=-conv.weight_zero_point,
            operands=constants.add(pack_bias(bias, cube_channels)),
        )
    # Per-channel weights have zero point 0 (TFLite), so the OW operands of the blocks are 0.
    return BsStage(
        alu=Source.MEMORY,
        mul=Source.MEMORY,
        shift=shift,
        shift_negative=shift,
        ow=Source.MEMORY,
        operands=constants.add(pack_operand_blocks(bias, multipliers, cube_channels)),
    )


def _bn_stage(chosen: Requantization, cube_channels: int, constants: ConstantPool) -> BnStage:
    clamps_in_bn = chosen.clamp.low is None
    relu = chosen.clamp.relu and clamps_in_bn
    relux_max = chosen.clamp.relux_max if clamps_in_bn else None
    if chosen.exponents is None:
        return BnStage(
            mul=Source.REGISTER,
            mul_operand=chosen.bn_multiplier,
            shift=chosen.bn_shift,
            shift_negative=chosen.bn_shift,
            relu=relu,
            relux_max=relux_max,
        )
    return BnStage(
        mul=Source.MEMORY,
        relu=relu,
        relux_max=relux_max,
        operands=constants.add(pack_bn_multipliers(chosen.exponents, cube_channels)),
    )


def _fused_stages(
    conv: Convolution,
    add: FusedAdd,
    chosen: FusedRequantization,
    cube_channels: int,
    constants: ConstantPool,
) -> tuple[BsStage, BnStage, EwStage, OutConvert]:
    bs = _bs_stage(conv, chosen.bias, chosen.multipliers, chosen.bs_shift, cube_channels, constants)
    bs = replace(bs, relu=True, relux_max=chosen.relux_max)
    bn = BnStage(
        alu_operand=chosen.low or None,
        mul=Source.REGISTER,
        mul_operand=chosen.scales.first,
    )
    ew = EwStage(
        operand=add.operand.location,
        surface_stride_bytes=add.operand.surface_stride_bytes,
        offset=-add.operand.zero_point,
        scale=chosen.scales.second,
        relu=chosen.relu,
        relux_max=chosen.sum_relux_max,
    )
    convert = OutConvert(
        scale=chosen.scales.scale,
        shift=chosen.scales.shift,
        offset=add.output_zero_point,
        ties_away=True,
    )
    return bs, bn, ew, convert
