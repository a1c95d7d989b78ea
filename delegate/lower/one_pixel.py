"""An operand of one pixel that meets several, on a chip of which no program reads an operand per
channel: copies of the pixel, and of all those that are there, until the map is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.lower.constants import ConstantPool
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import Selection, is_depthwise, selection_tasks, surfaces_written
from delegate.lower.task import ConvTask, Ref
from delegate.model.graph import Node


def is_copied(chip: Chip, operand: View, output: View) -> bool:
    """Whether a pixel meets several, and no program is known to have that."""
    return chip.forms.operand_blocks and operand.pixels == 1 < output.pixels


def copied(chip: Chip, operand: DeviceTensor, output: View, place: Ref) -> DeviceTensor:
    """``operand`` with the pixels of ``output``, at ``place``."""
    view = replace(operand.view, height=output.height, width=output.width)
    surfaces = surfaces_written(chip, view.channels)
    return replace(operand.alone(view, place), surfaces=surfaces)


def copied_bytes(chip: Chip, operand: DeviceTensor, output: View) -> int:
    """That it takes."""
    there = copied(chip, operand, output, operand.location)
    return there.view.images * there.image_stride_bytes


def copying_tasks(
    chip: Chip, node: Node, source: DeviceTensor, target: DeviceTensor, constants: ConstantPool
) -> Iterator[ConvTask]:
    """``target`` from ``source``. Raises LoweringError."""
    pixels = target.view.pixels
    unit = chip.forms.surface_pixels(is_depthwise=True)
    depthwise = is_depthwise(chip, target.view.channels) and pixels % unit == 0
    for image in range(source.view.images):
        there, whole, done = source.image(image), target.image(image), 0
        while done < pixels:
            count = min(max(done, 1), pixels - done)
            here = whole.part(done, count, 1)
            yield from selection_tasks(
                *(chip, node, there, here, Selection(), constants), depthwise=depthwise
            )
            done += count
            there = whole.part(0, min(done, pixels - done), 1)
