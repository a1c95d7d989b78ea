"""What dense, depthwise and fully connected convolutions share: from resolved integers to a layer
of tasks.

In: a ``Convolution`` (weights and bias in the device's domain, geometry, placed tensors). Out:
a ``Layer`` whose tasks cover every image and output row exactly once. Refuses what does not fit
CBUF or a register field.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from delegate.chip.element import Element
from delegate.chip.limits import ATOM_BYTES, align
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.conv_stages import FusedStages, conv_stages, fused_stages
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.fused_prover import Added, LookedUp, LookedUpAndAdded
from delegate.lower.operation import Follower, Memory, Operation, Plan, Planning
from delegate.lower.partial_sums import lower_input_groups, work_bytes
from delegate.lower.resolved import Convolution
from delegate.lower.rules import FORM_IS_KNOWN, KERNEL_SIZE_IN_RANGE, TASKS_IN_RANGE
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
    TableUse,
    Weights,
)
from delegate.lower.tiling.bands import RowSharing, Share, over_cores
from delegate.lower.tiling.geometry import Axis, ConvGeometry, Part
from delegate.lower.tiling.input_groups import InputGroups, plan_input_groups
from delegate.lower.tiling.pixel_rows import other_rows, rows_text
from delegate.lower.tiling.sum_passes import sum_cost
from delegate.lower.tiling.tiles import Tile, TilePlan, TilingError, plan_tiles
from delegate.lower.weights import (
    depthwise_channels,
    pack_dense,
    pack_depthwise,
    pack_depthwise_pairs,
    padded_kernels,
)

# Bytes per channel of the operands that a task's stages read: dense bias, blocks of bias, OW and
# multiplier (64 bytes for 8 channels), dense BN multipliers.
BIAS_BYTES = 4
BLOCK_BYTES_PER_CHANNEL = 8
PAIR_BLOCK_BYTES_PER_CHANNEL = 6  # of RK3576's depthwise convolutions: bias and multiplier
MULTIPLIER_BYTES = 2


@dataclass(frozen=True, slots=True, eq=False)
class PlannedConvolution:
    """How ``conv``, whose tensors need no place yet, becomes tasks: tiles for each core that takes
    part, or groups of input channels. ``note``: what its explanation begins with.
    """

    operation: Operation
    conv: Convolution
    plan: tuple[TilePlan, ...] | InputGroups
    fused: FusedStages | None = None
    note: str = ""

    @property
    def footprint(self) -> Footprint:
        operation = self.operation
        source, *others = operation.operands
        reads = ((source, self.surfaces_read), *((t, self.surfaces_written) for t in others))
        written = self.surfaces_written
        work = work_bytes(self.conv) if isinstance(self.plan, InputGroups) else 0
        return Footprint(operation.node, reads, operation.result, written, work_bytes=work)

    def followed_by(self, planning: Planning, plan: Follower, tensor: int) -> Plan | None:
        """Both in one task per tile."""
        if isinstance(self.plan, InputGroups) or self.conv.element is Element.FP16:
            return None
        following, other = plan.following(tensor)
        if self.fused is not None:
            before = self.fused.following
            if not (isinstance(before, LookedUp) and isinstance(following, Added)):
                return None
            following = LookedUpAndAdded(before, following)
        result, writes = plan.operation.result, plan.footprint.writes
        if result in planning.joined and writes != self.surfaces_written:
            return None
        if other is not None and not self._can_read(planning.tensor(other)):
            return None
        fused = fused_stages(self.conv, following)
        if fused is None:
            return None
        after = plan.operation
        operation = replace(
            self.operation,
            nodes=(*self.operation.nodes, *after.nodes),
            operands=(self.operation.operands[0], *(() if other is None else (other,))),
            result=after.result,
        )
        conv = replace(self.conv, nodes=operation.nodes)
        return replace(self, operation=operation, conv=conv, fused=fused)

    def _can_read(self, other: DeviceTensor) -> bool:
        """Whether tasks read what they add: whole rows of whole groups of channels, which is known
        of dense convolutions.
        """
        assert not isinstance(self.plan, InputGroups)
        if self.conv.is_depthwise:
            return False
        out, group = self.conv.output_view, _group(self.conv)
        return (other.view.images, other.view.pixels) == (out.images, out.pixels) and all(
            tile.columns.output_size == out.width and tile.part.first % group == 0
            for plan in self.plan
            for tile in plan.tiles
        )

    def lower(self, memory: Memory) -> Layer:
        """Packs the constants, chooses the stages and makes the tasks. Raises LoweringError."""
        source, *others = (memory.tensors[t] for t in self.operation.operands)
        target = memory.tensors[self.operation.result]
        conv = replace(self.conv, source=source, target=target)
        layer = _lower(conv, self.plan, memory, self.fused, others[0] if others else None)
        return replace(layer, choice=self.note + layer.choice) if self.note else layer

    @property
    def surfaces_read(self) -> int:
        """Surfaces of the source that tasks read, from the first one on."""
        channels = programmed_channels(self.conv)
        return channels // self.conv.element.lanes

    @property
    def surfaces_written(self) -> int:
        """Surfaces of the target that tasks write, from the first one on: whole groups."""
        if isinstance(self.plan, InputGroups):
            channels, is_depthwise = self.conv.output_view.channels, self.conv.is_depthwise
            return self.conv.chip.groups.surfaces_written(channels, is_depthwise=is_depthwise)
        group, lanes = _group(self.conv), self.conv.element.lanes
        return max(tile.part.surfaces(group, lanes).stop for p in self.plan for tile in p.tiles)


def _group(conv: Convolution) -> int:
    """Output channels that are written together."""
    return conv.chip.groups.outputs(conv.is_depthwise) // conv.element.bytes


def _kernel_size(conv: Convolution) -> tuple[int, int]:
    kh, kw = conv.weights.shape[:2] if conv.is_depthwise else conv.weights.shape[1:3]
    return kh, kw


def planned_convolution(
    operation: Operation, conv: Convolution, sharing: RowSharing | None = None
) -> PlannedConvolution:
    """Tiles the rows of every image, in bands for several cores if ``sharing`` is given and gains.
    Raises LoweringError.
    """
    kh, kw = _kernel_size(conv)
    if max(kh, kw) > conv.chip.limits.kernel_size:
        raise LoweringError(
            conv.node,
            KERNEL_SIZE_IN_RANGE,
            f"it is {kh} x {kw}, the limit {conv.chip.limits.kernel_size}",
        )
    unknown = _unknown_form(conv, kh, kw)
    if unknown:
        raise LoweringError(conv.node, FORM_IS_KNOWN, unknown)
    conv, plan = _plan(conv, kh, kw)
    if not isinstance(plan, InputGroups):
        bands = _bands(conv, geometry_of(conv, kh, kw), plan, sharing)
        return PlannedConvolution(operation, conv, bands)
    return PlannedConvolution(operation, conv, plan)


def _unknown_form(conv: Convolution, kh: int, kw: int) -> str:
    """What no program of the chip is known to have; "" if there is nothing."""
    forms, out = conv.chip.forms, conv.output_view
    pairs = {
        "kernel": (kh, kw),
        "strides": (conv.stride_h, conv.stride_w),
        "dilations": (conv.dilation_h, conv.dilation_w),
    }
    if forms.equal_sides:
        for name, (rows, columns) in pairs.items():
            if rows != columns:
                return f"{name} {rows} x {columns}"
    if conv.is_depthwise and out.pixels % forms.depthwise_surface_pixels:
        return f"a depthwise result of {out.height} x {out.width} pixels"
    return ""


def _lower(
    conv: Convolution,
    plans: tuple[TilePlan, ...] | InputGroups,
    memory: Memory,
    fused: FusedStages | None,
    other: DeviceTensor | None,
) -> Layer:
    kh, kw = _kernel_size(conv)
    constants = memory.constants
    if isinstance(plans, InputGroups):
        return lower_input_groups(
            conv, geometry_of(conv, kh, kw), plans, constants, memory.work.place
        )
    weights = _pack_weights(conv, kh, kw, constants)
    stages = conv_stages(conv, operand_channels(conv), constants, fused, other)
    tasks = [
        task
        for core, plan in enumerate(plans)
        for task in _tasks_of_plan(conv, plan, weights, stages, core, other)
    ]
    if fused is not None and fused.pipeline.table is not None:
        table = fused.pipeline.table
        use = TableUse((table.results.astype(np.int8).tobytes(),), 0, table.first)
        tasks = [replace(task, table=use) for task in tasks]
    choice = _folded_text(conv) + rows_text(conv) + plans[0].choice
    if len(plans) > 1:
        choice = f"rows over {len(plans)} cores; the first: {choice}"
    difference = None if fused is None else fused.difference
    return Layer(conv.name, conv.op, conv.nodes, tuple(tasks), choice, difference)


def operand_channels(conv: Convolution) -> int:
    """Channels that operands of the stages are packed for: parts of the kernels may end a surface
    after the cube of all of them.
    """
    return align(conv.output_view.channels, _group(conv)) + conv.element.lanes


def tile_tasks(
    conv: Convolution,
    stages: tuple[BsStage, BnStage, EwStage | None, OutConvert],
    constants: ConstantPool,
    region: tuple[range, range] | None = None,
) -> list[ConvTask]:
    """The tasks of ``conv`` on one core, with stages that are no requantisation. ``region``: rows
    and columns of the output that are wanted; None: all. Raises LoweringError.
    """
    kh, kw = _kernel_size(conv)
    geometry = geometry_of(conv, kh, kw)
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
    return _tasks_of_plan(conv, plan, _pack_weights(conv, kh, kw, constants), stages, core=0)


def _tasks_of_plan(
    conv: Convolution,
    plan: TilePlan,
    weights: Weights,
    stages: tuple[BsStage, BnStage, EwStage | None, OutConvert],
    core: int,
    other: DeviceTensor | None = None,
) -> list[ConvTask]:
    bs, bn, ew, convert = stages
    tasks = []
    for part in dict.fromkeys(tile.part for tile in plan.tiles):
        part_bs, part_bn = _operands_of_part(bs, bn, part)
        for image in range(conv.input_view.images):
            for tile in plan.tiles:
                if tile.part != part:
                    continue
                first = image == 0 and tile.first_of_part
                tasks.append(
                    ConvTask(
                        tile=_tile_name(conv, image, tile),
                        feature=_feature(conv, image, tile),
                        weights=_weights_of_part(conv, weights, part),
                        cbuf=CbufPlan(
                            data_banks=tile.data_banks,
                            weight_banks=tile.weight_banks,
                            weight_reuse=tile.weights_resident and not first,
                        ),
                        output=_output(conv, image, tile),
                        bs=part_bs,
                        bn=part_bn,
                        ew=(
                            _operand_of_part(ew, part)
                            if other is None
                            else _operand_of_tile(conv, ew, other, image, tile)
                        ),
                        out_convert=convert,
                        stride_h=conv.stride_h,
                        stride_w=conv.stride_w,
                        dilation_h=conv.dilation_h,
                        dilation_w=conv.dilation_w,
                        is_depthwise=conv.is_depthwise,
                        core=core,
                        spread_h=conv.spread_h,
                        spread_w=conv.spread_w,
                        element=conv.element,
                    )
                )
    return tasks


def _folded_text(conv: Convolution) -> str:
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


def programmed_channels(conv: Convolution) -> int:
    """Input channels a task is programmed with: whole surfaces."""
    channels = conv.input_view.channels
    if conv.is_depthwise or conv.chip.forms.whole_kernel_groups:
        # Without whole groups sources differ on how many entries of CBUF 48 channels take.
        size = conv.element.bytes
        return depthwise_channels(channels * size, conv.chip.groups) // size
    return align(channels, conv.element.lanes)


def _kernels(conv: Convolution) -> int:
    """Kernels that a dense convolution is programmed with. Those of fp16 fill their last surface,
    as its spare lanes are read: 0 times what is there must not be NaN.
    """
    outputs = conv.output_view.channels
    if conv.element is Element.FP16:
        return align(outputs, conv.element.lanes)
    return padded_kernels(outputs, conv.chip)


def _pack_weights(conv: Convolution, kh: int, kw: int, constants: ConstantPool) -> Weights:
    lanes = programmed_channels(conv)
    if conv.element is Element.FP16:
        return _pack_half_weights(conv, kh, kw, constants)
    if conv.is_depthwise:
        packed = _packed_depthwise(conv)
        kernels, per_kernel = 1, len(packed)
    else:
        group = geometry_of(conv, kh, kw).unit
        kernels, per_kernel = padded_kernels(conv.weights.shape[0], conv.chip), kh * kw * lanes
        weights = conv.weights
        if conv.chip.forms.whole_kernel_groups:
            weights = np.full((kernels, kh, kw, lanes), conv.weight_zero_point, np.int8)
            weights[: len(conv.weights), :, :, : conv.weights.shape[3]] = conv.weights
        packed = pack_dense(weights, conv.weight_zero_point, conv.chip.groups, group)
    # A tile of fewer and larger kernels would not have fitted CBUF.
    assert per_kernel <= conv.chip.limits.bytes_per_kernel or conv.is_depthwise
    return Weights(constants.add(packed), len(packed), per_kernel, kernels, kh, kw)


def _packed_depthwise(conv: Convolution) -> bytes:
    if not conv.chip.forms.depthwise_pairs:
        return pack_depthwise(conv.weights, conv.weight_zero_point, conv.chip.groups)
    try:
        return pack_depthwise_pairs(conv.weights, conv.weight_zero_point, conv.chip.groups)
    except ValueError as error:
        raise LoweringError(conv.node, FORM_IS_KNOWN, str(error)) from None


def _pack_half_weights(conv: Convolution, kh: int, kw: int, constants: ConstantPool) -> Weights:
    from delegate.lower.half.weights import pack_dense_half, pack_depthwise_half

    groups = conv.chip.groups
    if conv.is_depthwise:
        packed = pack_depthwise_half(conv.weights, groups)
        return Weights(constants.add(packed), len(packed), len(packed), 1, kh, kw)
    kernels = _kernels(conv)
    packed = pack_dense_half(conv.weights, kernels, groups, geometry_of(conv, kh, kw).unit)
    return Weights(constants.add(packed), len(packed), len(packed) // kernels, kernels, kh, kw)


def geometry_of(conv: Convolution, kh: int, kw: int) -> ConvGeometry:
    """What the tiler sees of ``conv``."""
    view, out = conv.input_view, conv.output_view
    rows = Axis(
        *(view.height, out.height, kh, conv.stride_h, conv.dilation_h, conv.pad_top),
        spread=conv.spread_h,
    )
    columns = Axis(
        *(view.width, out.width, kw, conv.stride_w, conv.dilation_w, conv.pad_left),
        spread=conv.spread_w,
    )
    channels = programmed_channels(conv)
    kernels = channels if conv.is_depthwise else _kernels(conv)
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


def _plan(conv: Convolution, kh: int, kw: int) -> tuple[Convolution, TilePlan | InputGroups]:
    """Tiles, of rows of the image or of other ones; or input channels in groups, where no tile fits
    or where that is cheaper.
    """
    geometry = geometry_of(conv, kh, kw)
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
    if len(tiles.tiles) == 1:
        return conv, tiles
    best = conv
    for other in other_rows(conv, kh, kw):
        try:
            plan = plan_tiles(geometry_of(other, kh, kw))
        except TilingError:
            continue
        if plan.rank < tiles.rank:
            best, tiles = other, plan
    groups = _input_groups(conv, geometry)
    if groups is None or groups.cost_cycles >= tiles.cost_cycles:
        return best, tiles
    return conv, groups


def _input_groups(conv: Convolution, geometry: ConvGeometry) -> InputGroups | None:
    """None of a depthwise or transposed convolution, and of fp16: their sums are not known in
    parts.
    """
    if conv.is_depthwise or max(conv.spread_h, conv.spread_w) > 1:
        return None
    if conv.element is Element.FP16 or not conv.chip.knows("sums_written"):
        return None
    return plan_input_groups(geometry, sum_cost(conv))


def _bands(
    conv: Convolution, geometry: ConvGeometry, alone: TilePlan, sharing: RowSharing | None
) -> tuple[TilePlan, ...]:
    """The tiles of one core, or of each of several."""

    def part(begin: int, end: int) -> TilePlan:
        rows = replace(geometry.rows, begin=begin, output_size=end)
        return plan_tiles(replace(geometry, rows=rows))

    def share(plan: TilePlan) -> Share:
        return Share(plan.cost_cycles, plan.moved_bytes)

    out = conv.output_view
    output_bytes = out.images * out.pixels * out.channels * conv.element.bytes
    return over_cores(sharing, geometry.rows.output_size, alone, part, share, output_bytes)


def _weights_of_part(conv: Convolution, weights: Weights, part: Part) -> Weights:
    """Kernel groups lie one after the other, so a part is a range of bytes."""
    taps = weights.kh * weights.kw * conv.element.bytes
    per_kernel = weights.bytes_per_kernel
    if conv.is_depthwise:
        per_kernel = 2 * taps if conv.chip.forms.depthwise_pairs else taps
    size = part.kernels * per_kernel
    if size == weights.total_bytes:
        return weights
    return replace(
        weights,
        source=weights.source.moved(part.first * per_kernel),
        total_bytes=size,
        bytes_per_kernel=size if conv.is_depthwise else weights.bytes_per_kernel,
        kernels=1 if conv.is_depthwise else part.kernels,
    )


def _operands_of_part(bs: BsStage, bn: BnStage, part: Part) -> tuple[BsStage, BnStage]:
    if part.first == 0:
        return bs, bn
    assert bs.operands is not None
    per_channel = BLOCK_BYTES_PER_CHANNEL if bs.mul is Source.MEMORY else BIAS_BYTES
    if bs.scalars is not None and bs.ow is Source.OFF:
        per_channel = PAIR_BLOCK_BYTES_PER_CHANNEL
    bs = replace(bs, operands=bs.operands.moved(part.first * per_channel))
    if bn.operands is not None:
        bn = replace(bn, operands=bn.operands.moved(part.first * MULTIPLIER_BYTES))
    return bs, bn


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
    )


def _first_output_pixel(conv: Convolution, image: int, tile: Tile) -> int:
    first = image * conv.output_view.pixels + tile.columns.output_start
    return first + tile.rows.output_start * conv.output_view.width


def _output(conv: Convolution, image: int, tile: Tile) -> OutputCube:
    lanes = conv.element.lanes
    surfaces = tile.part.surfaces(_group(conv), lanes)
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
        surfaces_per_group=_group(conv) // lanes,
        line_stride_bytes=line_bytes if line_bytes > width * ATOM_BYTES else None,
        element_bytes=conv.element.bytes,
    )


def _written_channels(conv: Convolution, part: Part) -> int:
    """Channels with a value: of fp16 also the spare lanes of the last surface, see ``_kernels``."""
    if conv.element is Element.FP16:
        return align(part.outputs, conv.element.lanes)
    return part.outputs


def _line_stride_bytes(tensor: DeviceTensor, view: View) -> int:
    """From a row of ``view`` to the next. Where rows lie apart, it is the tensor's own."""
    if tensor.elements == view:
        return tensor.line_stride_bytes
    assert tensor.within is None or tensor.within.line_bytes is None
    return view.width * ATOM_BYTES


def _operand_of_tile(
    conv: Convolution, ew: EwStage | None, other: DeviceTensor, image: int, tile: Tile
) -> EwStage:
    assert ew is not None
    operand = other.pixel(_first_output_pixel(conv, image, tile))
    offset = _surface_offset(conv, tile.part, other.surface_stride_bytes)
    return replace(ew, operand=operand.moved(offset))


def _operand_of_part(ew: EwStage | None, part: Part) -> EwStage | None:
    if ew is None or ew.operand is None:
        return ew
    return replace(ew, operand=ew.operand.moved(part.first * ew.operand_bytes))
