"""Operands that are smaller than the result they meet, made larger in a work area first.

One channel that meets several: EW reads whole groups of channels, so a 1x1 convolution with weights
of 1 brings the value to all of them. One pixel that meets several, on a chip of which no program
reads an operand per channel: copies of the pixel, and of all those that are there, until the map is
full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from delegate.chip.chip import Chip
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import Moving, is_depthwise, surfaces_written
from delegate.lower.task import ConvTask, Ref


def is_copied(chip: Chip, operand: View, output: View) -> bool:
    """Whether a pixel meets several, and no program is known to have that."""
    return chip.forms.operand_blocks and operand.pixels == 1 < output.pixels


def stretched(chip: Chip, operand: DeviceTensor, output: View, place: Ref) -> list[DeviceTensor]:
    """Return what is made of ``operand``, one behind the other from ``place`` on: a map with the
    channels of ``output``, then one with its pixels, as far as it lacks those.
    """
    made: list[DeviceTensor] = []
    view = operand.view
    if view.channels == 1 < output.channels:
        view = replace(view, channels=output.channels)
        surfaces = chip.groups.surfaces_written(output.channels, is_depthwise=False)
        made.append(replace(operand.alone(view, place), surfaces=surfaces))
        place = place.moved(made[0].size_bytes)
    if is_copied(chip, view, output):
        view = replace(view, height=output.height, width=output.width)
        surfaces = surfaces_written(chip, view.channels)
        made.append(replace(operand.alone(view, place), surfaces=surfaces))
    return made


def stretching_tasks(
    moving: Moving, operand: DeviceTensor, made: list[DeviceTensor]
) -> Iterator[ConvTask]:
    """``made`` of ``operand``. Raises LoweringError."""
    for source, target in pairwise((operand, *made)):
        for image in range(source.view.images):
            maps = source.image(image), target.image(image)
            if source.view.channels < target.view.channels:
                ones = np.ones((target.view.channels, 1, 1, 1), np.int8)
                yield from moving.move(*maps, ones)
            else:
                yield from _copies(moving, *maps)


def _copies(moving: Moving, there: DeviceTensor, whole: DeviceTensor) -> Iterator[ConvTask]:
    pixels, done = whole.view.pixels, 0
    unit = moving.chip.forms.surface_pixels(is_depthwise=True)
    depthwise = is_depthwise(moving.chip, whole.view.channels) and pixels % unit == 0
    while done < pixels:
        count = min(max(done, 1), pixels - done)
        yield from moving.select(there, whole.part(done, count, 1), depthwise=depthwise)
        done += count
        there = whole.part(0, min(done, pixels - done), 1)
