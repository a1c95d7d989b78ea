"""Builtin options of operators, as the flatbuffer fields that ``ModelBuilder`` writes.

Comes from: keyword arguments in the schema's terms. Goes to: ``ModelBuilder.operator``. A field
that equals the schema's default is left out of the file, as the converter does, so that readers
meet their own default paths.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from delegate.graph import Activation, Padding
from delegate.tflite_schema import (
    PADDINGS,
    AddSlot,
    Conv2DSlot,
    DepthwiseConv2DSlot,
    FullyConnectedSlot,
    OptionsType,
    StridedSliceSlot,
)

_PADDING_NUMBER = {padding: number for number, padding in PADDINGS.items()}


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
    return BuiltinOptions(
        OptionsType.CONV_2D,
        (
            _int8(Conv2DSlot.PADDING, _PADDING_NUMBER[padding]),
            _int32(Conv2DSlot.STRIDE_W, stride_w),
            _int32(Conv2DSlot.STRIDE_H, stride_h),
            _int8(Conv2DSlot.ACTIVATION, activation.value),
            _int32(Conv2DSlot.DILATION_W, dilation_w, default=1),
            _int32(Conv2DSlot.DILATION_H, dilation_h, default=1),
        ),
    )


def depthwise_conv_2d(
    padding: Padding = Padding.SAME,
    stride_h: int = 1,
    stride_w: int = 1,
    dilation_h: int = 1,
    dilation_w: int = 1,
    activation: Activation = Activation.NONE,
    depth_multiplier: int = 1,
) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.DEPTHWISE_CONV_2D,
        (
            _int8(DepthwiseConv2DSlot.PADDING, _PADDING_NUMBER[padding]),
            _int32(DepthwiseConv2DSlot.STRIDE_W, stride_w),
            _int32(DepthwiseConv2DSlot.STRIDE_H, stride_h),
            _int32(DepthwiseConv2DSlot.DEPTH_MULTIPLIER, depth_multiplier),
            _int8(DepthwiseConv2DSlot.ACTIVATION, activation.value),
            _int32(DepthwiseConv2DSlot.DILATION_W, dilation_w, default=1),
            _int32(DepthwiseConv2DSlot.DILATION_H, dilation_h, default=1),
        ),
    )


def fully_connected(
    activation: Activation = Activation.NONE,
    weights_format: int = 0,
    keep_num_dims: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.FULLY_CONNECTED,
        (
            _int8(FullyConnectedSlot.ACTIVATION, activation.value),
            _int8(FullyConnectedSlot.WEIGHTS_FORMAT, weights_format),
            Field(FullyConnectedSlot.KEEP_NUM_DIMS, FieldKind.BOOL, keep_num_dims, False),
            Field(
                FullyConnectedSlot.ASYMMETRIC_QUANTIZE_INPUTS,
                FieldKind.BOOL,
                asymmetric_quantize_inputs,
                False,
            ),
        ),
    )


def add(activation: Activation = Activation.NONE) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.ADD, (_int8(AddSlot.ACTIVATION, activation.value),))


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
    """Pool2DOptions: padding, stride_w, stride_h, filter_width, filter_height, activation."""
    return BuiltinOptions(
        OptionsType.POOL_2D,
        (
            _int8(0, _PADDING_NUMBER[padding]),
            _int32(1, stride_w),
            _int32(2, stride_h),
            _int32(3, filter_w),
            _int32(4, filter_h),
            _int8(5, activation.value),
        ),
    )


def softmax(beta: float = 1.0) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.SOFTMAX, (Field(0, FieldKind.FLOAT32, beta, 0.0),))


def concatenation(axis: int, activation: Activation = Activation.NONE) -> BuiltinOptions:
    fields = (_int32(0, axis), _int8(1, activation.value))
    return BuiltinOptions(OptionsType.CONCATENATION, fields)


def reshape(new_shape: Sequence[int]) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.RESHAPE, (Field(0, FieldKind.INT32_VECTOR, tuple(new_shape)),)
    )


def reducer(keep_dims: bool = False) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.REDUCER, (Field(0, FieldKind.BOOL, keep_dims, False),))


def split(num_splits: int) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.SPLIT, (_int32(0, num_splits),))


def strided_slice(
    begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, shrink_axis_mask: int = 0
) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.STRIDED_SLICE,
        (
            _int32(StridedSliceSlot.BEGIN_MASK, begin_mask),
            _int32(StridedSliceSlot.END_MASK, end_mask),
            _int32(StridedSliceSlot.ELLIPSIS_MASK, ellipsis_mask),
            _int32(StridedSliceSlot.SHRINK_AXIS_MASK, shrink_axis_mask),
        ),
    )


def leaky_relu(alpha: float) -> BuiltinOptions:
    return BuiltinOptions(OptionsType.LEAKY_RELU, (Field(0, FieldKind.FLOAT32, alpha, 0.0),))


def resize_nearest(align_corners: bool = False, half_pixel_centers: bool = False) -> BuiltinOptions:
    return BuiltinOptions(
        OptionsType.RESIZE_NEAREST_NEIGHBOR,
        (
            Field(0, FieldKind.BOOL, align_corners, False),
            Field(1, FieldKind.BOOL, half_pixel_centers, False),
        ),
    )


def empty(union_type: int = OptionsType.NONE) -> BuiltinOptions:
    """Options without fields (PAD, QUANTIZE, TRANSPOSE, ...) or, with NONE, no options at all."""
    return BuiltinOptions(union_type)
