"""Builtin options of operators, as the flatbuffer fields that ``ModelBuilder`` writes.

Comes from: keyword arguments in the schema's terms. Goes to: ``ModelBuilder.operator``. A field
that equals the schema's default is left out of the file, as the converter does, so that readers
meet their own default paths.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.model.flatbuffer_tables import Items, Value
from delegate.model.graph import Activation, Padding
from delegate.model.operator_options import Options, fields_of, file_bytes
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.mul import MulOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.sub import SubOptions

# Numbers in the schema's ``BuiltinOptions`` of operators whose options nobody reads.
_SOFTMAX, _RESHAPE, _SPLIT, _SPLIT_V = 9, 17, 35, 79


@dataclass(frozen=True, slots=True)
class BuiltinOptions:
    """A table of the ``BuiltinOptions`` union: its number and its fields by slot, as the file has
    them.
    """

    union_type: int
    fields: Mapping[int, Value] = field(default_factory=dict)


def of(options: Options | BuiltinOptions | None) -> BuiltinOptions:
    """The table of an operator of ``delegate.ops``, of another, or none."""
    if not isinstance(options, Options):
        return options or BuiltinOptions(0)
    found = {
        row.slot: file_bytes(row, getattr(options, name)) for name, row in fields_of(type(options))
    }
    return BuiltinOptions(
        options.UNION_TYPE, {slot: value for slot, value in found.items() if value is not None}
    )


def conv_2d(
    padding: Padding = Padding.SAME,
    stride_h: int = 1,
    stride_w: int = 1,
    dilation_h: int = 1,
    dilation_w: int = 1,
    activation: Activation = Activation.NONE,
) -> BuiltinOptions:
    return of(ConvOptions(padding, stride_h, stride_w, dilation_h, dilation_w, activation))


def depthwise_conv_2d(
    padding: Padding = Padding.SAME,
    stride_h: int = 1,
    stride_w: int = 1,
    dilation_h: int = 1,
    dilation_w: int = 1,
    activation: Activation = Activation.NONE,
    depth_multiplier: int = 1,
) -> BuiltinOptions:
    geometry = (padding, stride_h, stride_w, dilation_h, dilation_w, activation)
    return of(DepthwiseOptions(*geometry, depth_multiplier))


def fully_connected(
    activation: Activation = Activation.NONE,
    weights_format: int = 0,
    keep_num_dims: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> BuiltinOptions:
    return of(
        FullyConnectedOptions(activation, keep_num_dims, weights_format, asymmetric_quantize_inputs)
    )


def add(activation: Activation = Activation.NONE) -> BuiltinOptions:
    return of(AddOptions(activation))


def mul(activation: Activation = Activation.NONE) -> BuiltinOptions:
    return of(MulOptions(activation))


def sub(activation: Activation = Activation.NONE) -> BuiltinOptions:
    return of(SubOptions(activation))


def pool_2d(
    padding: Padding = Padding.VALID,
    stride_h: int = 1,
    stride_w: int = 1,
    filter_h: int = 1,
    filter_w: int = 1,
    activation: Activation = Activation.NONE,
) -> BuiltinOptions:
    """Of MAX_POOL_2D and AVERAGE_POOL_2D."""
    return of(PoolOptions(padding, stride_w, stride_h, filter_w, filter_h, activation))


def softmax(beta: float = 1.0) -> BuiltinOptions:
    return BuiltinOptions(_SOFTMAX, {0: struct.pack("<f", beta)})


def reshape(new_shape: Sequence[int]) -> BuiltinOptions:
    return BuiltinOptions(_RESHAPE, {0: Items(np.array(new_shape, "<i4").tobytes(), 4, 4)})


def split(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(_SPLIT, {0: struct.pack("<i", num_splits)})


def split_v(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(_SPLIT_V, {0: struct.pack("<i", num_splits)})


def resize_nearest(align_corners: bool = False, half_pixel_centers: bool = False) -> BuiltinOptions:
    return of(ResizeNearestOptions(align_corners, half_pixel_centers))
