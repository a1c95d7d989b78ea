"""Builtin options of operators, as the flatbuffer fields that ``ModelBuilder`` writes.

Comes from: keyword arguments in the schema's terms. Goes to: ``ModelBuilder.operator``. A field
that equals the schema's default is left out of the file, as the converter does, so that readers
meet their own default paths.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from delegate.model import operator_options
from delegate.model.graph import Activation, Padding
from delegate.model.operator_options import Options, fields_of, file_value
from delegate.model.tflite_schema import OptionsType
from delegate.ops.add import AddOptions
from delegate.ops.concatenation import ConcatenationOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from delegate.ops.resize_nearest_neighbor import ResizeNearestOptions
from delegate.ops.shared.pooling import PoolOptions
from delegate.ops.shared.reductions import ReducerOptions
from delegate.ops.strided_slice import StridedSliceOptions


class FieldKind(enum.Enum):
    INT8 = "int8"
    INT32 = "int32"
    BOOL = "bool"
    FLOAT32 = "float32"
    INT32_VECTOR = "int32 vector"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an options table. ``default`` is the schema's."""

    slot: int
    kind: FieldKind
    value: int | float | bool | Sequence[int]
    default: int | float | bool = 0


@dataclass(frozen=True, slots=True)
class BuiltinOptions:
    """A table of the ``BuiltinOptions`` union: its number and its fields."""

    union_type: int
    fields: tuple[Field, ...] = ()


_KINDS = {
    operator_options.FieldKind.PADDING: FieldKind.INT8,
    operator_options.FieldKind.ACTIVATION: FieldKind.INT8,
    operator_options.FieldKind.ENUM: FieldKind.INT8,
    operator_options.FieldKind.ENUM_FROM_1: FieldKind.INT8,
    operator_options.FieldKind.INT32: FieldKind.INT32,
    operator_options.FieldKind.BOOL: FieldKind.BOOL,
    operator_options.FieldKind.FLOAT32: FieldKind.FLOAT32,
}


def of(options: Options) -> BuiltinOptions:
    """The table of an operator of ``delegate.ops``."""
    return BuiltinOptions(
        options.UNION_TYPE,
        tuple(
            Field(f.slot, _KINDS[f.kind], file_value(f, getattr(options, name)), f.default)
            for name, f in sorted(fields_of(type(options)), key=lambda item: item[1].slot)
        ),
    )


def _int8(slot: int, value: int) -> Field:
    return Field(slot, FieldKind.INT8, value)


def _int32(slot: int, value: int, default: int = 0) -> Field:
    return Field(slot, FieldKind.INT32, value, default)


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
    return BuiltinOptions(OptionsType.MUL, (_int8(0, activation.value),))


def sub(activation: Activation = Activation.NONE) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.SUB, (_int8(0, activation.value),))


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
    return BuiltinOptions(OptionsType.SOFTMAX, (Field(0, FieldKind.FLOAT32, beta, 0.0),))


def concatenation(axis: int, activation: Activation = Activation.NONE) -> BuiltinOptions:
    return of(ConcatenationOptions(axis, activation))


def reshape(new_shape: Sequence[int]) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.RESHAPE, (Field(0, FieldKind.INT32_VECTOR, tuple(new_shape)),)
    )


def reducer(keep_dims: bool = False) -> BuiltinOptions:
    return of(ReducerOptions(keep_dims))


def split(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.SPLIT, (_int32(0, num_splits),))


def split_v(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.SPLIT_V, (_int32(0, num_splits),))


def strided_slice(
    begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, shrink_axis_mask: int = 0
) -> BuiltinOptions:
    return of(StridedSliceOptions(begin_mask, end_mask, ellipsis_mask, 0, shrink_axis_mask))


def leaky_relu(alpha: float) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.LEAKY_RELU, (Field(0, FieldKind.FLOAT32, alpha, 0.0),))


def resize_nearest(align_corners: bool = False, half_pixel_centers: bool = False) -> BuiltinOptions:
    return of(ResizeNearestOptions(align_corners, half_pixel_centers))


def empty(union_type: int = OptionsType.NONE) -> BuiltinOptions:
    """Options without fields (PAD, QUANTIZE, TRANSPOSE, ...) or, with NONE, no options at all."""
    return BuiltinOptions(union_type)
