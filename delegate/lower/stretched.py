"""An operand of one channel that meets several: EW reads whole groups of channels, so a 1x1
convolution with weights of 1 brings the value to all of them first, in a work area.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from delegate.chip.chip import Chip
from delegate.lower.constants import ConstantPool
from delegate.lower.memory.tensors import DeviceTensor, View
from delegate.lower.selection import Selection, moving_tasks
from delegate.lower.task import ConvTask, Ref
from delegate.model.graph import Node


def is_stretched(operand: View, output: View) -> bool:
    """Whether one channel meets several."""
    return operand.channels == 1 < output.channels


def stretched(chip: Chip, operand: DeviceTensor, output: View, place: Ref) -> DeviceTensor:
    """``operand`` with the channels of ``output``, at ``place``."""
    surfaces = chip.groups.surfaces_written(output.channels, is_depthwise=False)
    view = replace(operand.view, channels=output.channels)
    return replace(operand.alone(view, place), surfaces=surfaces)


def stretched_bytes(chip: Chip, operand: DeviceTensor, output: View) -> int:
    """That it takes."""
    there = stretched(chip, operand, output, operand.location)
    return there.view.images * there.image_stride_bytes


def stretching_tasks(
    chip: Chip, node: Node, source: DeviceTensor, target: DeviceTensor, constants: ConstantPool
) -> Iterator[ConvTask]:
    """``target`` from ``source``. Raises LoweringError."""
    ones = np.ones((target.view.channels, 1, 1, 1), np.int8)
    for image in range(source.view.images):
        maps = source.image(image), target.image(image)
        yield from moving_tasks(chip, node, *maps, ones, Selection(), constants)
