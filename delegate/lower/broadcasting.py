"""Operands that are smaller than the result they meet, made larger in a work area first.

One channel that meets several: EW reads whole groups of channels, so a 1x1 convolution with weights
of 1 brings the value to all of them. Pixels that meet several are repeated; one of them, a value
per channel, only where no other operand has the result's shape, or on a chip of which no program
reads an operand per channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.errors import LoweringError
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.operation import Memory
from delegate.lower.rearrangement import Rearrangement, rearrangement
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.selection import Moving
from delegate.lower.task import Ref, Task
from delegate.lower.tiling.element_wise import surfaces_touched
from delegate.model.graph import Node
from delegate.model.index_map import tiled


def met_views(chip: Chip, operands: Sequence[View], output: View) -> list[View]:
    """Return what computed ``operands`` have to become to meet in ``output``, which one of them
    does.
    """
    found = [_met(chip, view, output) for view in operands]
    if output not in found:
        images = [view.images for view in found]
        found[images.index(max(images))] = output
    return found


def _met(chip: Chip, view: View, output: View) -> View:
    """Return ``view`` with the channels of ``output``, and its pixels if EW has to read them."""
    is_read = view.pixels > 1 or Primitive.CHANNEL_OPERANDS in chip.lacks
    height, width = (output.height, output.width) if is_read else (1, 1)
    return View(view.images, height, width, output.channels)


def repeats(chip: Chip, view: View, whole: View) -> Rearrangement | None:
    """Return how an image of ``view`` becomes one of ``whole``, which has the same channels; None:
    that is not possible, or not known of ``chip``.
    """
    times = whole.height // view.height, whole.width // view.width, 1
    found = tiled((view.height, view.width, view.channels), times)
    size = view.pixels, view.channels
    repeated = rearrangement(chip, found, size, whole.channels, whole.channels)
    return None if repeated is None else repeated.known()


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
        repeat = _known_repeats(chip, node, view, whole)
        there = replace(operand, view=whole)
        made.append(there.via_scratch(place, repeat.surfaces_written, repeat.surface_pixels))
    return made


def surfaces_read(chip: Chip, view: View, whole: View) -> int:
    """Return the surfaces of an operand of ``view`` that tasks read, of those that make it larger
    if it is not ``whole``.
    """
    is_repeated = view != whole and view.channels == whole.channels
    repeat = repeats(chip, view, whole) if is_repeated else None
    return surfaces_touched(chip, view.channels) if repeat is None else repeat.surfaces_read


def _known_repeats(chip: Chip, node: Node, view: View, whole: View) -> Rearrangement:
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
            tasks += _tasks(moving, source, target)
        tensors[index] = [tensors[index], *made][-1]
        place = place.moved(sum(tensor.size_bytes for tensor in made))
    return tuple(tasks), tensors


def _tasks(moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterator[Task]:
    """Raises LoweringError."""
    for image in range(target.view.images):
        maps = source.image(min(image, source.view.images - 1)), target.image(image)
        if source.view.channels < target.view.channels:
            yield from moving.move(*maps, np.ones((target.view.channels, 1, 1, 1), np.int8))
        else:
            repeat = _known_repeats(moving.chip, moving.node, source.view, target.view)
            yield from repeat.tasks(moving, *maps, maps[1].location)
