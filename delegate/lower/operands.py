"""Constant operands of additions: packed as feature maps or as one value per channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.graph import DType, Tensor
from delegate.lower.constants import ConstantPool
from delegate.lower.hw import CHANNELS_PER_SURFACE
from delegate.lower.tensors import (
    UINT8_OFFSET,
    DeviceTensor,
    View,
    default_surfaces,
    device_zero_point,
    view_of,
)


@dataclass(frozen=True, slots=True)
class Operand:
    """The second operand of an addition. ``per_channel``: one value per channel for every pixel.

    ``is_shared``: the same values serve every image.
    """

    tensor: DeviceTensor
    per_channel: bool
    is_shared: bool


def computed_operand(tensor: DeviceTensor, output: View) -> Operand:
    """A feature map of the output's shape, or one pixel that is added to all."""
    per_channel = tensor.view.pixels == 1 and output.pixels > 1
    return Operand(tensor, per_channel, tensor.view.images == 1)


def constant_operand(tensor: Tensor, output: View, constants: ConstantPool) -> Operand:
    """Packs ``tensor``, broadcast to the output's channels, and to its pixels if they differ."""
    assert tensor.constant is not None
    assert tensor.quantization is not None
    values = tensor.constant
    if tensor.dtype is DType.UINT8:
        values = np.bitwise_xor(values.view(np.uint8), np.uint8(UINT8_OFFSET))
    own = view_of(tensor.shape)
    maps = values.view(np.int8).reshape(own.images, own.height, own.width, own.channels)
    per_channel = own.images == 1 and own.pixels == 1
    view = View(1, 1, 1, output.channels) if per_channel else output
    shape = (view.images, view.height, view.width, view.channels)
    zero_point = device_zero_point(tensor)
    placed = DeviceTensor(
        index=tensor.index,
        view=view,
        scale=tensor.quantization.scale,
        zero_point=zero_point,
        surfaces=default_surfaces(view.channels),
        location=constants.add(pack_feature(np.broadcast_to(maps, shape), zero_point)),
    )
    return Operand(placed, per_channel and output.pixels > 1, view.images == 1)


def pack_feature(values: npt.NDArray[np.int8], fill: int) -> bytes:
    """NHWC int8 to NC1HWC2 with the surfaces of ``default_surfaces``; spare lanes hold ``fill``.

    Only for constants of additions, whose images are whole multiples of the DMA alignment.
    """
    images, height, width, channels = values.shape
    surfaces = default_surfaces(channels)
    padded = np.full((images, height, width, surfaces * CHANNELS_PER_SURFACE), fill, np.int8)
    padded[..., :channels] = values
    split = padded.reshape(images, height, width, surfaces, CHANNELS_PER_SURFACE)
    return split.transpose(0, 3, 1, 2, 4).tobytes()
