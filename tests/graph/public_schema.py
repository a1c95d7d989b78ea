"""A second reader for tests: the generated accessors of the public `tflite` package.

Gives the same graph as ``tflite_reader``, and the snapshot that native code would take of a context
holding the model, with the runtime's own numbers. Trusts the file; for known files only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite

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


def _raw_options(operator: Any, name: str) -> dict[str, int] | None:
    """Options by the names of a context snapshot, with the file's numbers."""
    if name == "CONV_2D":
        o = _table(operator, tflite.Conv2DOptions)
    elif name == "DEPTHWISE_CONV_2D":
        o = _table(operator, tflite.DepthwiseConv2DOptions)
    elif name == "FULLY_CONNECTED":
        o = _table(operator, tflite.FullyConnectedOptions)
        return {
            "activation": o.FusedActivationFunction(),
            "weights_format": o.WeightsFormat(),
            "keep_num_dims": o.KeepNumDims(),
            "asymmetric_quantize_inputs": o.AsymmetricQuantizeInputs(),
        }
    elif name == "ADD":
        return {"activation": _table(operator, tflite.AddOptions).FusedActivationFunction()}
    elif name == "CONCATENATION":
        o = _table(operator, tflite.ConcatenationOptions)
        return {"axis": o.Axis(), "activation": o.FusedActivationFunction()}
    elif name == "STRIDED_SLICE":
        o = _table(operator, tflite.StridedSliceOptions)
        return {
            "begin_mask": o.BeginMask(),
            "end_mask": o.EndMask(),
            "ellipsis_mask": o.EllipsisMask(),
            "new_axis_mask": o.NewAxisMask(),
            "shrink_axis_mask": o.ShrinkAxisMask(),
        }
    else:
        return None
    values = {
        "padding": o.Padding(),
        "stride_h": o.StrideH(),
        "stride_w": o.StrideW(),
        "dilation_h": o.DilationHFactor(),
        "dilation_w": o.DilationWFactor(),
        "activation": o.FusedActivationFunction(),
    }
    if name == "DEPTHWISE_CONV_2D":
        values["depth_multiplier"] = o.DepthMultiplier()
    return values


def _options(name: str, raw: dict[str, int] | None) -> NodeOptions:
    if raw is None:
        return None
    values: dict[str, Any] = dict(raw)
    if name == "STRIDED_SLICE":
        return StridedSliceOptions(**values)
    values["activation"] = Activation(raw["activation"])
    if name == "FULLY_CONNECTED":
        is_shuffled = values.pop("weights_format") != 0
        return FullyConnectedOptions(is_shuffled=is_shuffled, **values)
    if name == "ADD":
        return AddOptions(**values)
    if name == "CONCATENATION":
        return ConcatenationOptions(**values)
    values["padding"] = _PADDINGS[raw["padding"]]
    kind = ConvOptions if name == "CONV_2D" else DepthwiseOptions
    return kind(**values)


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
    """What native code would hand over for an interpreter that holds this file."""
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
        options = _raw_options(o, node.op)
        if options is not None and "padding" in options:
            options["padding"] += 1  # TfLitePadding counts from 1
        nodes.append(
            {
                "index": node.index,
                "builtin_code": code,
                "custom_name": custom or None,
                "version": version,
                "inputs": node.inputs,
                "outputs": node.outputs,
                "options": options,
            }
        )
    return {"tensors": tensors, "nodes": nodes}
