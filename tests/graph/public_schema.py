"""A second reader for tests: the generated accessors of the public `tflite` package.

Gives the same graph as ``tflite_reader``, and the snapshot that native code would take of a context
holding the model, with the runtime's own numbers. Trusts the file; for known files only.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import tflite

from delegate.model.graph import Activation, DType, Graph, Node, Padding, Quantization, Tensor
from delegate.model.operator_options import Options
from delegate.ops import OPERATORS

_OPERATORS = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
_TYPES = {v: k for k, v in vars(tflite.TensorType).items() if isinstance(v, int)}
_PADDINGS = {tflite.Padding.SAME: Padding.SAME, tflite.Padding.VALID: Padding.VALID}
_NUMPY = {"INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32, "FLOAT32": np.float32}
_NUMPY["INT64"] = np.int64


def _ints(vector: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in np.atleast_1d(vector)) if not np.isscalar(vector) else ()


def _table(operator: Any, kind: type) -> Any:
    table = kind()
    union = operator.BuiltinOptions()
    table.Init(union.Bytes, union.Pos)
    return table


# Struct layouts of the runtime's builtin_op_data.h; the file's fields in the order of the struct.
_STRUCTS: dict[str, tuple[str, type, tuple[str, ...]]] = {
    "CONV_2D": (
        "<6i",
        tflite.Conv2DOptions,
        ("padding", "stride_w", "stride_h", "activation", "dilation_w", "dilation_h"),
    ),
    "DEPTHWISE_CONV_2D": (
        "<7i",
        tflite.DepthwiseConv2DOptions,
        (
            *("padding", "stride_w", "stride_h", "depth_multiplier"),
            *("activation", "dilation_w", "dilation_h"),
        ),
    ),
    "FULLY_CONNECTED": (
        "<2i2?",
        tflite.FullyConnectedOptions,
        ("activation", "weights_format", "keep_num_dims", "asymmetric_quantize_inputs"),
    ),
    "ADD": ("<i", tflite.AddOptions, ("activation",)),
    "MUL": ("<i", tflite.MulOptions, ("activation",)),
    "SUB": ("<i", tflite.SubOptions, ("activation",)),
    "DIV": ("<i", tflite.DivOptions, ("activation",)),
    "LEAKY_RELU": ("<f", tflite.LeakyReluOptions, ("alpha",)),
    "SOFTMAX": ("<f", tflite.SoftmaxOptions, ("beta",)),
    "GELU": ("<?", tflite.GeluOptions, ("approximate",)),
    "CONCATENATION": ("<2i", tflite.ConcatenationOptions, ("axis", "activation")),
    **dict.fromkeys(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D"),
        (
            "<6i",
            tflite.Pool2DOptions,
            ("padding", "stride_w", "stride_h", "filter_w", "filter_h", "activation"),
        ),
    ),
    **dict.fromkeys(("MEAN", "REDUCE_MAX"), ("<?", tflite.ReducerOptions, ("keep_dims",))),
    "RESIZE_NEAREST_NEIGHBOR": (
        "<2?",
        tflite.ResizeNearestNeighborOptions,
        ("align_corners", "half_pixel_centers"),
    ),
    "RESIZE_BILINEAR": (
        "<2?",
        tflite.ResizeBilinearOptions,
        ("align_corners", "half_pixel_centers"),
    ),
    "PACK": ("<2i", tflite.PackOptions, ("values_count", "axis")),
    "UNPACK": ("<2i", tflite.UnpackOptions, ("num", "axis")),
    "MIRROR_PAD": ("<i", tflite.MirrorPadOptions, ("mode",)),
    "SPACE_TO_DEPTH": ("<i", tflite.SpaceToDepthOptions, ("block",)),
    "DEPTH_TO_SPACE": ("<i", tflite.DepthToSpaceOptions, ("block",)),
    "TRANSPOSE_CONV": (
        "<4i",
        tflite.TransposeConvOptions,
        ("padding", "stride_w", "stride_h", "activation"),
    ),
    "STRIDED_SLICE": (
        "<5i",
        tflite.StridedSliceOptions,
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"),
    ),
}
_GETTERS = {
    "activation": "FusedActivationFunction",
    "dilation_w": "DilationWFactor",
    "dilation_h": "DilationHFactor",
    "block": "BlockSize",
    "filter_w": "FilterWidth",
    "filter_h": "FilterHeight",
}


def _raw_options(operator: Any, name: str) -> dict[str, int] | None:
    """Options by the names of the option classes, with the file's numbers."""
    if name not in _STRUCTS:
        return None
    _, kind, names = _STRUCTS[name]
    table = _table(operator, kind)
    getters = {n: _GETTERS.get(n, n.title().replace("_", "")) for n in names}
    return {n: getattr(table, getter)() for n, getter in getters.items()}


def _options(name: str, raw: dict[str, int] | None) -> Options | None:
    if raw is None:
        return None
    values: dict[str, Any] = dict(raw)
    if "activation" in raw:
        values["activation"] = Activation(raw["activation"])
    if "padding" in raw:
        values["padding"] = _PADDINGS[raw["padding"]]
    kind = OPERATORS[name].options
    assert kind is not None
    return kind(**values)


def _struct(name: str, raw: dict[str, int] | None) -> bytes | None:
    """The runtime's struct: TfLitePadding counts from 1."""
    if raw is None:
        return None
    layout, _, names = _STRUCTS[name]
    return struct.pack(layout, *(raw[n] + (n in ("padding", "mode")) for n in names))


def _operator_name(model: Any, operator: Any) -> tuple[str, int, str, int]:
    code = model.OperatorCodes(operator.OpcodeIndex())
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    custom = (code.CustomCode() or b"").decode()
    name = f"CUSTOM:{custom}" if _OPERATORS[number] == "CUSTOM" else _OPERATORS[number]
    return name, number, custom, code.Version()


def graph_of_file(content: bytes) -> Graph:
    model = tflite.Model.GetRootAs(content, 0)
    graph = model.Subgraphs(0)
    tensors = []
    for index in range(graph.TensorsLength()):
        t = graph.Tensors(index)
        dtype = DType[_TYPES[t.Type()]]
        shape = _ints(t.ShapeAsNumpy())
        q = t.Quantization()
        quantization = None
        if q is not None and q.ScaleLength():
            zero_points = _ints(q.ZeroPointAsNumpy())
            scales = tuple(float(s) for s in q.ScaleAsNumpy())
            quantization = Quantization(scales, zero_points, q.QuantizedDimension())
        buffer = model.Buffers(t.Buffer())
        constant = None
        if buffer.DataLength():
            constant = buffer.DataAsNumpy().view(_NUMPY[dtype.name]).reshape(shape)
        signature = _ints(t.ShapeSignatureAsNumpy()) if t.ShapeSignatureLength() else ()
        name = t.Name().decode()
        tensors.append(
            Tensor(
                index,
                name,
                shape,
                dtype,
                quantization,
                constant,
                signature,
                t.IsVariable(),
                t.Sparsity() is not None,
            )
        )
    nodes = []
    for index in range(graph.OperatorsLength()):
        o = graph.Operators(index)
        name, _, _, version = _operator_name(model, o)
        options = _options(name, _raw_options(o, name))
        inputs, outputs = _ints(o.InputsAsNumpy()), _ints(o.OutputsAsNumpy())
        nodes.append(Node(index, name, inputs, outputs, options, version))
    return Graph(
        tuple(tensors),
        tuple(nodes),
        _ints(graph.InputsAsNumpy()),
        _ints(graph.OutputsAsNumpy()),
    )


def snapshot_of_file(content: bytes) -> dict[str, Any]:
    """Return what native code would hand over for an interpreter that holds this file."""
    model = tflite.Model.GetRootAs(content, 0)
    graph = graph_of_file(content)
    tensors = []
    for t in graph.tensors:
        data = None
        if t.constant is not None:
            data = np.frombuffer(t.constant.tobytes(), np.uint8)
        quantization = None
        if t.quantization is not None:
            quantization = {
                "type": 1,
                "scale": np.array(t.quantization.scales, np.float32),
                "zero_point": np.array(t.quantization.zero_points, np.int32),
                "axis": t.quantization.axis,
            }
        tensors.append(
            {
                "index": t.index,
                "name": t.name,
                "type": t.dtype.value,
                "shape": t.shape,
                "shape_signature": t.shape_signature,
                "allocation_type": 2 if data is None else 1,
                "is_variable": t.is_variable,
                "is_sparse": t.is_sparse,
                "quantization": quantization,
                "data": data,
            }
        )
    nodes = []
    for node in graph.nodes:
        o = model.Subgraphs(0).Operators(node.index)
        _, code, custom, version = _operator_name(model, o)
        nodes.append(
            {
                "index": node.index,
                "builtin_code": code,
                "custom_name": custom or None,
                "version": version,
                "inputs": node.inputs,
                "outputs": node.outputs,
                "options": _struct(node.op, _raw_options(o, node.op)),
            }
        )
    return {"tensors": tensors, "nodes": nodes}
