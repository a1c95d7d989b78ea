"""Builds the graph of a running interpreter from a snapshot of its TfLiteContext.

Comes from: the dictionary that native code fills in delegate Prepare, raw integers of the runtime's
C structs and views of its memory. Goes to: the same ``Graph`` that ``tflite_reader`` gives for the
file. Refuses nothing: a value this schema does not know becomes an absent option, an unknown type
or an unknown operator, all of which the constraints reject.

The runtime's numbers differ from the file's: TfLiteType counts from 1 (``DType`` has its values),
TfLitePadding is SAME 1, VALID 2, and an operator without options has all of them zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.graph import (
    Activation,
    AddOptions,
    ConcatenationOptions,
    ConvOptions,
    DepthwiseOptions,
    DType,
    FullyConnectedOptions,
    Graph,
    Node,
    NodeOptions,
    Padding,
    Quantization,
    StridedSliceOptions,
    Tensor,
)
from delegate.tensor_content import dense_bytes, view_content
from delegate.tflite_operators import operator_name

# TfLiteAllocationType: what makes a tensor a constant, and what makes its shape unknown.
ALLOCATION_MMAP_RO = 1
ALLOCATION_DYNAMIC = 4
ALLOCATION_PERSISTENT_RO = 5
CONSTANT_ALLOCATIONS = (ALLOCATION_MMAP_RO, ALLOCATION_PERSISTENT_RO)

# TfLiteQuantizationType: only this one has scale and zero_point as TfLiteAffineQuantization does.
AFFINE_QUANTIZATION = 1

_DTYPES = MappingProxyType({dtype.value: dtype for dtype in DType})
_PADDINGS = MappingProxyType({padding.value: padding for padding in Padding})
_ACTIVATIONS = MappingProxyType({activation.value: activation for activation in Activation})


def graph_from_snapshot(snapshot: Mapping[str, Any]) -> Graph:
    """The graph of ``snapshot``: {"tensors": [...], "nodes": [...]}, nodes in execution order.

    A tensor: index, name, type, shape, shape_signature, allocation_type, is_variable, is_sparse,
    quantization (None or type, scale float32[n], zero_point int32[n or 1], axis), data (read-only
    uint8[bytes] or None). A node: index, builtin_code, custom_name, version, inputs, outputs,
    options (None or raw integers by the names of the option classes).
    """
    return Graph(
        tensors=tuple(_tensor(entry) for entry in snapshot["tensors"]),
        nodes=tuple(_node(entry) for entry in snapshot["nodes"]),
    )


def _ints(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    shape = _ints(entry["shape"])
    signature = _ints(entry["shape_signature"])
    if entry["allocation_type"] == ALLOCATION_DYNAMIC and not any(d < 0 for d in signature):
        # The shape is known only during Invoke; a signature says so in the file, if at all.
        signature = (-1,) * max(len(shape), 1)
    dtype = _DTYPES.get(int(entry["type"]), DType.OTHER)
    is_sparse = bool(entry["is_sparse"])
    constant = None
    if entry["allocation_type"] in CONSTANT_ALLOCATIONS:
        constant = _constant(entry["data"], dtype, shape, is_sparse)
    return Tensor(
        index=int(entry["index"]),
        name=entry["name"] or "",
        shape=shape,
        dtype=dtype,
        quantization=_quantization(entry["quantization"]),
        constant=constant,
        shape_signature=signature,
        is_variable=bool(entry["is_variable"]),
        is_sparse=is_sparse,
    )


def _constant(
    content: npt.NDArray[np.uint8] | None, dtype: DType, shape: tuple[int, ...], is_sparse: bool
) -> npt.NDArray[np.generic] | None:
    if content is None or content.size == 0:
        return None
    expected = dense_bytes(dtype, shape)
    if expected is not None and not is_sparse and expected != content.size:
        return None
    return view_content(content, dtype, shape, is_sparse)


def _quantization(entry: Mapping[str, Any] | None) -> Quantization | None:
    if entry is None or entry["type"] != AFFINE_QUANTIZATION:
        return None
    scales = tuple(float(s) for s in entry["scale"])
    zero_points = _ints(entry["zero_point"])
    if not scales or len(zero_points) not in (1, len(scales)):
        return None
    if len(zero_points) == 1:
        zero_points *= len(scales)
    return Quantization(scales, zero_points, int(entry["axis"]))


def _node(entry: Mapping[str, Any]) -> Node:
    op = operator_name(int(entry["builtin_code"]), entry["custom_name"] or "")
    read = _OPTIONS.get(op)
    options = entry["options"]
    return Node(
        index=int(entry["index"]),
        op=op,
        inputs=_ints(entry["inputs"]),
        outputs=_ints(entry["outputs"]),
        options=None if read is None or options is None else read(options),
        version=int(entry["version"]),
    )


def _conv_2d(options: Mapping[str, Any]) -> NodeOptions:
    padding = _PADDINGS.get(int(options["padding"]))
    activation = _ACTIVATIONS.get(int(options["activation"]))
    if padding is None or activation is None:
        return None
    return ConvOptions(
        padding=padding,
        stride_h=int(options["stride_h"]),
        stride_w=int(options["stride_w"]),
        dilation_h=int(options["dilation_h"]),
        dilation_w=int(options["dilation_w"]),
        activation=activation,
    )


def _depthwise_conv_2d(options: Mapping[str, Any]) -> NodeOptions:
    padding = _PADDINGS.get(int(options["padding"]))
    activation = _ACTIVATIONS.get(int(options["activation"]))
    if padding is None or activation is None:
        return None
    return DepthwiseOptions(
        padding=padding,
        stride_h=int(options["stride_h"]),
        stride_w=int(options["stride_w"]),
        dilation_h=int(options["dilation_h"]),
        dilation_w=int(options["dilation_w"]),
        activation=activation,
        depth_multiplier=int(options["depth_multiplier"]),
    )


def _fully_connected(options: Mapping[str, Any]) -> NodeOptions:
    activation = _ACTIVATIONS.get(int(options["activation"]))
    if activation is None:
        return None
    return FullyConnectedOptions(
        activation=activation,
        keep_num_dims=bool(options["keep_num_dims"]),
        is_shuffled=int(options["weights_format"]) != 0,
        asymmetric_quantize_inputs=bool(options["asymmetric_quantize_inputs"]),
    )


def _add(options: Mapping[str, Any]) -> NodeOptions:
    activation = _ACTIVATIONS.get(int(options["activation"]))
    return None if activation is None else AddOptions(activation)


def _concatenation(options: Mapping[str, Any]) -> NodeOptions:
    activation = _ACTIVATIONS.get(int(options["activation"]))
    return None if activation is None else ConcatenationOptions(int(options["axis"]), activation)


def _strided_slice(options: Mapping[str, Any]) -> NodeOptions:
    return StridedSliceOptions(
        begin_mask=int(options["begin_mask"]),
        end_mask=int(options["end_mask"]),
        ellipsis_mask=int(options["ellipsis_mask"]),
        new_axis_mask=int(options["new_axis_mask"]),
        shrink_axis_mask=int(options["shrink_axis_mask"]),
    )


_OPTIONS: Mapping[str, Callable[[Mapping[str, Any]], NodeOptions]] = MappingProxyType(
    {
        "CONV_2D": _conv_2d,
        "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
        "FULLY_CONNECTED": _fully_connected,
        "ADD": _add,
        "CONCATENATION": _concatenation,
        "STRIDED_SLICE": _strided_slice,
    }
)
