"""Builtin options of the operators that lowering knows, from the tables of a .tflite file.

Comes from: an operator's options table. Goes to: ``Node.options``. An options table that is missing
or carries an enumeration this schema does not know gives None, which the constraints reject.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

from delegate.flatbuffer_reader import Table
from delegate.graph import (
    Activation,
    AddOptions,
    ConcatenationOptions,
    ConvOptions,
    DepthwiseOptions,
    FullyConnectedOptions,
    NodeOptions,
    StridedSliceOptions,
)
from delegate.tflite_schema import (
    ACTIVATIONS,
    PADDINGS,
    WEIGHTS_FORMAT_DEFAULT,
    AddSlot,
    ConcatenationSlot,
    Conv2DSlot,
    DepthwiseConv2DSlot,
    FullyConnectedSlot,
    OptionsType,
    StridedSliceSlot,
)

_INT8 = struct.Struct("<b")
_INT32 = struct.Struct("<i")


def read_options(op: str, union_type: int, table: Table | None) -> NodeOptions:
    """The options of ``op``; ``union_type`` says which table of the schema ``table`` is.

    ADD, FULLY_CONNECTED, CONCATENATION and STRIDED_SLICE without options have the schema's
    defaults, as in the runtime.
    """
    reader = _READERS.get(op)
    if reader is None:
        return None
    expected, read = reader
    if table is None or union_type != expected:
        return _DEFAULTS.get(op)
    return read(table)


def _conv_2d(table: Table) -> NodeOptions:
    padding = PADDINGS.get(table.number(Conv2DSlot.PADDING, _INT8))
    activation = ACTIVATIONS.get(table.number(Conv2DSlot.ACTIVATION, _INT8))
    if padding is None or activation is None:
        return None
    return ConvOptions(
        padding=padding,
        stride_h=table.number(Conv2DSlot.STRIDE_H, _INT32),
        stride_w=table.number(Conv2DSlot.STRIDE_W, _INT32),
        dilation_h=table.number(Conv2DSlot.DILATION_H, _INT32, default=1),
        dilation_w=table.number(Conv2DSlot.DILATION_W, _INT32, default=1),
        activation=activation,
    )


def _depthwise_conv_2d(table: Table) -> NodeOptions:
    padding = PADDINGS.get(table.number(DepthwiseConv2DSlot.PADDING, _INT8))
    activation = ACTIVATIONS.get(table.number(DepthwiseConv2DSlot.ACTIVATION, _INT8))
    if padding is None or activation is None:
        return None
    return DepthwiseOptions(
        padding=padding,
        stride_h=table.number(DepthwiseConv2DSlot.STRIDE_H, _INT32),
        stride_w=table.number(DepthwiseConv2DSlot.STRIDE_W, _INT32),
        dilation_h=table.number(DepthwiseConv2DSlot.DILATION_H, _INT32, default=1),
        dilation_w=table.number(DepthwiseConv2DSlot.DILATION_W, _INT32, default=1),
        activation=activation,
        depth_multiplier=table.number(DepthwiseConv2DSlot.DEPTH_MULTIPLIER, _INT32),
    )


def _fully_connected(table: Table) -> NodeOptions:
    activation = ACTIVATIONS.get(table.number(FullyConnectedSlot.ACTIVATION, _INT8))
    if activation is None:
        return None
    weights_format = table.number(FullyConnectedSlot.WEIGHTS_FORMAT, _INT8)
    return FullyConnectedOptions(
        activation=activation,
        keep_num_dims=table.number(FullyConnectedSlot.KEEP_NUM_DIMS, _INT8) != 0,
        is_shuffled=weights_format != WEIGHTS_FORMAT_DEFAULT,
        asymmetric_quantize_inputs=(
            table.number(FullyConnectedSlot.ASYMMETRIC_QUANTIZE_INPUTS, _INT8) != 0
        ),
    )


def _add(table: Table) -> NodeOptions:
    activation = ACTIVATIONS.get(table.number(AddSlot.ACTIVATION, _INT8))
    return None if activation is None else AddOptions(activation)


def _concatenation(table: Table) -> NodeOptions:
    activation = ACTIVATIONS.get(table.number(ConcatenationSlot.ACTIVATION, _INT8))
    if activation is None:
        return None
    return ConcatenationOptions(table.number(ConcatenationSlot.AXIS, _INT32), activation)


def _strided_slice(table: Table) -> NodeOptions:
    return StridedSliceOptions(
        begin_mask=table.number(StridedSliceSlot.BEGIN_MASK, _INT32),
        end_mask=table.number(StridedSliceSlot.END_MASK, _INT32),
        ellipsis_mask=table.number(StridedSliceSlot.ELLIPSIS_MASK, _INT32),
        new_axis_mask=table.number(StridedSliceSlot.NEW_AXIS_MASK, _INT32),
        shrink_axis_mask=table.number(StridedSliceSlot.SHRINK_AXIS_MASK, _INT32),
    )


_READERS: Mapping[str, tuple[OptionsType, Callable[[Table], NodeOptions]]] = MappingProxyType(
    {
        "CONV_2D": (OptionsType.CONV_2D, _conv_2d),
        "DEPTHWISE_CONV_2D": (OptionsType.DEPTHWISE_CONV_2D, _depthwise_conv_2d),
        "FULLY_CONNECTED": (OptionsType.FULLY_CONNECTED, _fully_connected),
        "ADD": (OptionsType.ADD, _add),
        "CONCATENATION": (OptionsType.CONCATENATION, _concatenation),
        "STRIDED_SLICE": (OptionsType.STRIDED_SLICE, _strided_slice),
    }
)

_DEFAULTS: Mapping[str, NodeOptions] = MappingProxyType(
    {
        "FULLY_CONNECTED": FullyConnectedOptions(
            activation=Activation.NONE,
            keep_num_dims=False,
            is_shuffled=False,
            asymmetric_quantize_inputs=False,
        ),
        "ADD": AddOptions(Activation.NONE),
        "CONCATENATION": ConcatenationOptions(0, Activation.NONE),
        "STRIDED_SLICE": StridedSliceOptions(0, 0, 0, 0, 0),
    }
)
