"""Second operands of element-wise operators: packed as feature maps or as one value per channel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.limits import ATOM_BYTES, CHANNELS_PER_SURFACE
from delegate.errors import LoweringError
from delegate.lower.constants import ConstantPool
from delegate.lower.memory.tensors import (
    DeviceTensor,
    View,
    default_surfaces,
    device_zero_point,
    view_of,
)
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.lower.task import BufferId, Ref
from delegate.model.graph import Node, Tensor


@dataclass(frozen=True, slots=True)
class Operand:
    """The second operand of an element-wise operator. ``per_channel``: one value per channel for
    every pixel. ``is_shared``: the same values serve every image.
    """

    tensor: DeviceTensor
    per_channel: bool
    is_shared: bool


def computed_operand(tensor: DeviceTensor, output: View) -> Operand:
    """A feature map of the output's shape, or one pixel per image that meets all of them."""
    per_channel = tensor.view.pixels == 1 and output.pixels > 1
    return Operand(tensor, per_channel, tensor.view.images == 1)


def require_dense(node: Node, tensor: DeviceTensor) -> None:
    """One value per channel is read without gaps; a part of a larger tensor has some between its
    surfaces. Raises LoweringError.
    """
    is_split = tensor.view.channels > CHANNELS_PER_SURFACE
    if is_split and tensor.surface_stride_bytes != ATOM_BYTES:
        problem = f"tensor {tensor.index} has a value per channel and lies inside a larger one"
        raise LoweringError(node.index, TASKS_KEEP_MEMORY, problem)


def constant_operand(chip: Chip, tensor: Tensor, output: View, constants: ConstantPool) -> Operand:
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
    is_whole = own.pixels > 1 or chip.forms.operand_blocks
    height, width = (output.height, output.width) if is_whole else (1, 1)
    view = View(own.images, height, width, output.channels)
    layout = DeviceTensor(
        index=tensor.index,
        view=view,
        scale=tensor.quantization.scale,
        zero_point=device_zero_point(tensor),
        surfaces=default_surfaces(view.channels, chip.groups),
        location=Ref(BufferId.CONSTANTS, 0),
    )
    maps = values.view(np.int8).reshape(own.images, own.height, own.width, own.channels)
    shape = (view.images, view.height, view.width, view.channels)
    content = pack_feature(np.broadcast_to(maps, shape), layout)
    return computed_operand(replace(layout, location=constants.add(content)), output)


def pack_feature(values: npt.NDArray[np.int8], layout: DeviceTensor) -> bytes:
    """NHWC int8 to the memory of ``layout``; spare lanes and gaps hold its zero point."""
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
