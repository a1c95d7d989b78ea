"""Operators of two feature maps as tasks of their own: the DPU alone ("flying"), one operand
through MRDMA and BS, the other through ERDMA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE
from delegate.lower.constants import ConstantPool
from delegate.lower.cost import ddr_cycles
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.numerics.pipeline import EwOperation, Pipeline
from delegate.lower.operands import Operand, computed_operand, constant_operand
from delegate.lower.operation import Memory, Planning, layer_name
from delegate.lower.task import (
    BnStage,
    BsStage,
    ElementwiseTask,
    EwStage,
    Layer,
    OutConvert,
    OutputCube,
    Source,
)
from delegate.lower.tiling.bands import RowSharing, Share, bands, is_worth_it
from delegate.lower.weights import depthwise_channels
from delegate.model.graph import Graph, Node

Requantize = Callable[[Sequence[DeviceTensor], DeviceTensor, bool], Pipeline]
"""Stages from the operands, the one that MRDMA reads first, and the result; whether those are in
the other order than the node's."""


def lower_pair(planning: Planning, node: Node, requantize: Requantize, memory: Memory) -> Layer:
    """Tasks for every image, in bands for several cores where that gains. Raises LoweringError."""
    chip, graph, sharing = planning.chip, planning.graph, planning.sharing
    tensors = memory.tensors
    target = tensors[node.outputs[0]]
    main, other = _operands(chip, graph, node, tensors, target.view, memory.constants)
    is_swapped = main.index != node.inputs[0]
    stages = _stages(other, requantize((main, other.tensor), target, is_swapped))
    tasks = tuple(
        _task(main, other, target, stages, image, chunk, surfaces, core)
        for core, chunks in enumerate(_chunks_of_cores(chip, target.view, sharing))
        for image in range(target.view.images)
        for chunk in chunks
        for surfaces in surface_ranges(chip, target.view.channels)
    )
    return Layer(name=layer_name(graph, node), op=node.op, nodes=(node.index,), tasks=tasks)


def _operands(
    chip: Chip,
    graph: Graph,
    node: Node,
    tensors: Mapping[int, DeviceTensor],
    output: View,
    constants: ConstantPool,
) -> tuple[DeviceTensor, Operand]:
    """The operand MRDMA reads, computed and of the output's shape, and the other one."""
    first, second = node.inputs
    if first not in tensors or tensors[first].view != output:
        first, second = second, first
    if second in tensors:
        return tensors[first], computed_operand(tensors[second], output)
    return tensors[first], constant_operand(chip, graph.tensor(second), output, constants)


@dataclass(frozen=True, slots=True)
class PixelChunk:
    """Consecutive pixels of an image, as rows: from ``first`` on, ``height`` x ``width``."""

    first: int
    height: int
    width: int


def pixel_chunks(chip: Chip, view: View) -> Iterator[PixelChunk]:
    """An image as one cube if its sides fit the DPU's fields, else its pixels in a row, in pieces.

    An element-wise task sees only pixels, so any rectangle of the right size will do.
    """
    if max(view.height, view.width) <= chip.limits.cube_size:
        yield PixelChunk(0, view.height, view.width)
        return
    first = 0
    while first < view.pixels:
        left = view.pixels - first
        width = min(left, chip.limits.cube_size)
        height = min(left // width, chip.limits.cube_size)
        yield PixelChunk(first, height, width)
        first += height * width


def surface_ranges(chip: Chip, channels: int) -> Iterator[range]:
    """All surfaces that a reader may fetch, in as many parts as cubes have to be.

    That is whole surfaces, and one more where a depthwise convolution would widen its last group.
    """
    count = depthwise_channels(channels, chip.groups) // CHANNELS_PER_SURFACE
    most = chip.limits.cube_size // CHANNELS_PER_SURFACE
    for first in range(0, count, most):
        yield range(first, min(first + most, count))


def surfaces_touched(chip: Chip, channels: int) -> int:
    """Surfaces of operands and result that the tasks read and write."""
    return max(surfaces.stop for surfaces in surface_ranges(chip, channels))


def _chunks_of_cores(
    chip: Chip, view: View, sharing: RowSharing | None
) -> tuple[tuple[PixelChunk, ...], ...]:
    """The chunks of one core, or rows of the image for each of several."""
    alone = (tuple(pixel_chunks(chip, view)),)
    if sharing is None or len(alone[0]) > 1:
        return alone
    shared = tuple(
        (PixelChunk(begin * view.width, end - begin, view.width),)
        for begin, end in bands(view.height, sharing.cores)
    )
    row_bytes = view.images * view.width * depthwise_channels(view.channels, chip.groups)

    def share(rows: int) -> Share:
        moved = 3 * rows * row_bytes  # two operands and the result
        return Share(chip.rates.kick_cycles * view.images + ddr_cycles(chip, moved), moved)

    shares = [share(chunks[0].height) for chunks in shared]
    gains = is_worth_it(sharing, share(view.height), shares, view.height * row_bytes)
    return shared if gains else alone


def _stages(other: Operand, pipeline: Pipeline) -> tuple[BsStage, BnStage, EwStage, OutConvert]:
    """``pipeline`` with registers for BS and BN, and ``other`` in EW."""
    bs, bn, ew, out = pipeline.bs, pipeline.bn, pipeline.ew, pipeline.out
    assert isinstance(bs.add, int)
    assert isinstance(bs.multiply, int)
    assert isinstance(bn.add, int)
    assert isinstance(bn.multiply, int)
    assert ew is not None
    is_bypassed = ew.operation in (EwOperation.MAX, EwOperation.MIN)
    return (
        BsStage()
        if is_bypassed
        else BsStage(
            alu=Source.REGISTER,
            alu_operand=bs.add,
            mul=Source.REGISTER,
            mul_operand=bs.multiply,
        ),
        BnStage(alu_operand=bn.add or None)
        if bn.multiply == 1
        else BnStage(
            mul=Source.REGISTER,
            mul_operand=bn.multiply,
            shift=bn.shift,
            shift_negative=bn.shift,
        ),
        EwStage(
            per_channel=other.per_channel,
            surface_stride_bytes=(
                ATOM_BYTES if other.per_channel else other.tensor.surface_stride_bytes
            ),
            operation=ew.operation,
            offset=ew.offset,
            scale=ew.scale,
            truncate=ew.shift,
            relu=ew.relu,
            relux_max=ew.relux,
        ),
        OutConvert(scale=out.scale, shift=out.shift, offset=out.offset, ties_away=not is_bypassed),
    )


def _task(
    main: DeviceTensor,
    other: Operand,
    target: DeviceTensor,
    stages: tuple[BsStage, BnStage, EwStage, OutConvert],
    image: int,
    chunk: PixelChunk,
    surfaces: range,
    core: int,
) -> ElementwiseTask:
    bs, bn, ew, convert = stages
    view = target.view
    # All lanes count as real: the element-wise cube may not end a surface earlier than it says.
    channels = len(surfaces) * CHANNELS_PER_SURFACE
    pixel = image * view.pixels + chunk.first
    other_image = 0 if other.is_shared else image
    other_pixel = other_image * other.tensor.view.pixels
    if not other.per_channel:
        other_pixel += chunk.first
    name = f"image {image} pixels {chunk.first}..{chunk.first + chunk.height * chunk.width - 1}"
    if channels < view.channels:
        first = surfaces.start * CHANNELS_PER_SURFACE
        name += f" channels {first}..{first + channels - 1}"
    operand = other.tensor.pixel(other_pixel)
    return ElementwiseTask(
        tile=name,
        source=main.pixel(pixel).moved(surfaces.start * main.surface_stride_bytes),
        source_surface_stride_bytes=main.surface_stride_bytes,
        output=OutputCube(
            target=target.pixel(pixel).moved(surfaces.start * target.surface_stride_bytes),
            height=chunk.height,
            width=chunk.width,
            channels=channels,
            channels_real=channels,
            surface_stride_bytes=target.surface_stride_bytes,
            surfaces_per_group=1,
        ),
        bs=bs,
        bn=bn,
        ew=replace(ew, operand=operand.moved(surfaces.start * ew.surface_stride_bytes)),
        out_convert=convert,
        core=core,
    )
