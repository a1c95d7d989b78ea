"""Operators of two feature maps as tasks of their own: the DPU alone ("flying"), one operand
through MRDMA and BS, the other through ERDMA.

Operands that are smaller than the result are made larger in a work area first. One channel that
meets several: EW reads whole groups of channels, so a 1x1 convolution with weights of 1 brings the
value to all of them. Pixels that meet several are repeated; one of them, a value per channel, only
where no other operand has the result's shape, or on a chip of which no program reads an operand per
channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import ATOM_BYTES, CHANNELS_PER_SURFACE
from delegate.errors import LoweringError
from delegate.lower.legalize import bn_stage
from delegate.lower.memory.tensors import (
    DeviceTensor,
    View,
    default_surfaces,
    view_of,
)
from delegate.lower.numerics.pipeline import EwOperation, Pipeline
from delegate.lower.operation import ConstantPool, Memory
from delegate.lower.rearrangement import rearrangement
from delegate.lower.rules import FORM_IS_KNOWN, TASKS_KEEP_MEMORY
from delegate.lower.selection import Move, Moving
from delegate.lower.task import (
    BsStage,
    BufferId,
    ElementwiseTask,
    EwStage,
    Ref,
    Source,
    Stages,
    Task,
)
from delegate.lower.tiling.element_wise import map_parts
from delegate.model.graph import Graph, Node, Tensor
from delegate.model.index_map import tiled

Requantize = Callable[[Sequence[DeviceTensor], DeviceTensor, bool], Pipeline]
"""Stages from the operands, the one that MRDMA reads first, and the result; whether those are in
the other order than the node's."""


def pair_tasks(
    chip: Chip,
    operands: tuple[DeviceTensor, DeviceTensor],
    target: DeviceTensor,
    pipeline: Pipeline,
) -> tuple[ElementwiseTask, ...]:
    """Return the tasks of ``pipeline`` on two operands, the first of which MRDMA reads. The second
    has the shape of ``target``, or a pixel that meets all of them: a value per channel. One image
    of it serves every image.
    """
    main, other = operands
    stages = _stages(other, pipeline, per_channel=other.view.pixels == 1 < target.view.pixels)
    assert stages.ew is not None
    tasks = []
    for part in map_parts(chip, target.view):
        pixel = 0 if other.view.images == 1 else part.image * other.view.pixels
        if not stages.ew.per_channel:
            pixel += part.first
        operand = other.pixel(pixel).moved(part.surfaces.start * stages.ew.surface_stride_bytes)
        own = stages._replace(ew=replace(stages.ew, operand=operand))
        tasks.append(part.task(main, target, own))
    return tuple(tasks)


def pair_operands(
    chip: Chip,
    graph: Graph,
    node: Node,
    tensors: Mapping[int, DeviceTensor],
    output: View,
    constants: ConstantPool,
) -> tuple[DeviceTensor, DeviceTensor]:
    """Return the operand MRDMA reads, computed and of the output's shape, and the other one."""
    first, second = node.inputs
    if first not in tensors or tensors[first].view != output:
        first, second = second, first
    if second in tensors:
        if tensors[second].view.pixels == 1 < output.pixels:
            require_dense(node, tensors[second])
        return tensors[first], tensors[second]
    constant = whole_constant(graph.tensor(second), graph.tensor(node.outputs[0]))
    return tensors[first], constant_operand(chip, constant, output, constants)


def whole_constant(tensor: Tensor, result: Tensor) -> Tensor:
    """Return a constant as it is, or with every element of ``result`` where it is repeated along
    some of several dimensions that are one to the device, as the heads that share a mask are.
    """
    assert tensor.constant is not None
    wide = (1,) * (len(result.shape) - len(tensor.shape)) + tuple(tensor.shape)
    view, whole = view_of(tensor.shape), view_of(result.shape)
    sizes = zip(astuple(view), astuple(whole), strict=True)
    if view == view_of(wide) and all(own in (1, most) for own, most in sizes):
        return tensor
    try:
        values = np.broadcast_to(tensor.constant, result.shape)
    except ValueError:
        return tensor
    return replace(tensor, constant=values, shape=result.shape)


def _stages(other: DeviceTensor, pipeline: Pipeline, *, per_channel: bool) -> Stages:
    """``pipeline`` with registers for BS and BN, and ``other`` in EW."""
    bs, bn, ew = pipeline.bs, pipeline.bn, pipeline.ew
    assert isinstance(bs.add, int)
    assert isinstance(bs.multiply, int)
    assert ew is not None
    # Vendor's products have no multiplication in BS, its other operators have one.
    is_product = ew.operation is EwOperation.MULTIPLY
    return Stages(
        BsStage(
            alu=Source.REGISTER,
            alu_operand=bs.add,
            mul=Source.OFF if is_product and bs.multiply == 1 else Source.REGISTER,
            mul_operand=bs.multiply,
        ),
        bn_stage(bn),
        EwStage(
            per_channel=per_channel,
            surface_stride_bytes=ATOM_BYTES if per_channel else other.surface_stride_bytes,
            operation=ew.operation,
            offset=ew.offset,
            scale=ew.scale,
            truncate=ew.shift,
            relu=ew.relu,
            relux_max=ew.relux,
        ),
        pipeline.out,
    )


def require_dense(node: Node, tensor: DeviceTensor) -> None:
    """One value per channel is read without gaps; a part of a larger tensor has some between its
    surfaces. Raises LoweringError.
    """
    is_split = tensor.view.channels > CHANNELS_PER_SURFACE
    if is_split and tensor.surface_stride_bytes != ATOM_BYTES:
        problem = f"tensor {tensor.index} has a value per channel and lies inside a larger one"
        raise LoweringError(node.index, TASKS_KEEP_MEMORY, problem)


def constant_operand(
    chip: Chip, tensor: Tensor, output: View, constants: ConstantPool
) -> DeviceTensor:
    """Packs ``tensor`` like a computed operand, broadcast to the output's channels, and to its
    pixels if they differ from one another, or no program with a value per channel is known.
    """
    assert tensor.constant is not None
    assert tensor.quantization is not None
    values = tensor.constant
    offset = tensor.dtype.element.offset
    if offset:
        values = np.bitwise_xor(values.view(np.uint8), np.uint8(offset))
    own = view_of(tensor.shape)
    is_whole = own.pixels > 1 or Primitive.CHANNEL_OPERANDS in chip.lacks
    height, width = (output.height, output.width) if is_whole else (1, 1)
    view = View(own.images, height, width, output.channels)
    layout = DeviceTensor(
        index=tensor.index,
        view=view,
        scale=tensor.quantization.scale,
        zero_point=tensor.quantization.zero_point - offset,
        surfaces=default_surfaces(view.channels, chip.groups),
        location=Ref(BufferId.CONSTANTS, 0),
    )
    maps = values.view(np.int8).reshape(own.images, own.height, own.width, own.channels)
    shape = (view.images, view.height, view.width, view.channels)
    content = pack_feature(np.broadcast_to(maps, shape), layout)
    return replace(layout, location=constants.add(content))


def pack_feature(values: npt.NDArray[np.int8], layout: DeviceTensor) -> bytes:
    """NHWC int8 to the memory of ``layout``; group padding and gaps hold its zero point."""
    images, height, width, channels = values.shape
    surfaces = layout.surfaces
    memory = np.full((images, layout.image_stride_bytes), layout.zero_point, np.int8)
    used = surfaces * layout.surface_stride_bytes
    padded = np.full(
        (images, height * width, surfaces * CHANNELS_PER_SURFACE), layout.zero_point, np.int8
    )
    padded[..., :channels] = values.reshape(images, height * width, channels)
    split = padded.reshape(images, height * width, surfaces, CHANNELS_PER_SURFACE)
    memory[:, :used] = split.transpose(0, 2, 1, 3).reshape(images, used)
    return memory.tobytes()


def met_views(chip: Chip, operands: Sequence[View], output: View) -> list[View]:
    """Return what computed ``operands`` have to become to meet in ``output``, which one of them
    does.
    """
    found = []
    for view in operands:  # the pixels as well, if EW has to read them
        is_read = view.pixels > 1 or Primitive.CHANNEL_OPERANDS in chip.lacks
        height, width = (output.height, output.width) if is_read else (1, 1)
        found.append(View(view.images, height, width, output.channels))
    if output not in found:
        images = [view.images for view in found]
        found[images.index(max(images))] = output
    return found


def repeats(chip: Chip, view: View, whole: View) -> Move | None:
    """Return how an image of ``view`` becomes one of ``whole``, which has the same channels; None:
    that is not possible, or not known of ``chip``.
    """
    times = whole.height // view.height, whole.width // view.width, 1
    found = tiled((view.height, view.width, view.channels), times)
    one, made = replace(view, images=1), replace(whole, images=1)
    return rearrangement(chip, found, one, made, whole.channels, is_known=True)


def broadcast(
    chip: Chip, node: Node, operand: DeviceTensor, whole: View, place: Ref
) -> list[DeviceTensor]:
    """Return what is made of ``operand``, one behind the other from ``place`` on: a map with the
    channels of ``whole``, then one with its pixels and images, as far as it lacks those. Raises
    LoweringError.
    """
    made: list[DeviceTensor] = []
    view = operand.view
    if view.channels == 1 < whole.channels:
        view = replace(view, channels=whole.channels)
        surfaces = chip.groups.surfaces_written(whole.channels, is_depthwise=False)
        made.append(replace(operand.alone(view, place), surfaces=surfaces))
        place = place.moved(made[0].size_bytes)
    if view != whole:
        repeat = known_repeats(chip, node, view, whole)
        there = replace(operand, view=whole)
        made.append(there.via_scratch(place, repeat.writes, repeat.surface_pixels))
    return made


def known_repeats(chip: Chip, node: Node, view: View, whole: View) -> Move:
    found = repeats(chip, view, whole)
    if found is None:
        problem = f"pixels are repeated from {view} to {whole}"
        raise LoweringError(node.index, FORM_IS_KNOWN, problem)
    return found


def with_broadcast(
    chip: Chip, node: Node, output: View, memory: Memory, place: Ref
) -> tuple[tuple[Task, ...], Mapping[int, DeviceTensor]]:
    """Return tasks that make operands as large as they have to be to meet in ``output``, from
    ``place`` on, and all tensors, with those where they are then. Raises LoweringError.
    """
    tensors = dict(memory.tensors)
    moving = Moving(chip, node, memory.constants)
    tasks: list[Task] = []
    operands = [index for index in dict.fromkeys(node.inputs) if index in tensors]
    views = met_views(chip, [tensors[index].view for index in operands], output)
    for index, view in zip(operands, views, strict=True):
        made = broadcast(chip, node, tensors[index], view, place)
        for source, target in pairwise((tensors[index], *made)):
            tasks += _enlarging(moving, source, target)
        tensors[index] = [tensors[index], *made][-1]
        place = place.moved(sum(tensor.size_bytes for tensor in made))
    return tuple(tasks), tensors


def _enlarging(moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
    """Raises LoweringError."""
    for image in range(target.view.images):
        maps = source.image(min(image, source.view.images - 1)), target.image(image)
        if source.view.channels < target.view.channels:
            yield from moving.move(*maps, np.ones((target.view.channels, 1, 1, 1), np.int8))
        else:
            repeat = known_repeats(moving.chip, moving.node, source.view, target.view)
            yield from repeat.tasks(moving, *maps, maps[1].location)
