"""A second reader for tests: the generated accessors of the public `tflite` package.

Gives the same graph as ``tflite_reader``. Trusts the file; for known files only.
"""

from __future__ import annotations

from dataclasses import fields
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


_TABLES = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
    "ADD": tflite.AddOptions,
    "MUL": tflite.MulOptions,
    "SUB": tflite.SubOptions,
    "DIV": tflite.DivOptions,
    "LEAKY_RELU": tflite.LeakyReluOptions,
    "SOFTMAX": tflite.SoftmaxOptions,
    "GELU": tflite.GeluOptions,
    "CONCATENATION": tflite.ConcatenationOptions,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), tflite.Pool2DOptions),
    **dict.fromkeys(("MEAN", "REDUCE_MAX"), tflite.ReducerOptions),
    "RESIZE_NEAREST_NEIGHBOR": tflite.ResizeNearestNeighborOptions,
    "RESIZE_BILINEAR": tflite.ResizeBilinearOptions,
    "PACK": tflite.PackOptions,
    "UNPACK": tflite.UnpackOptions,
    "MIRROR_PAD": tflite.MirrorPadOptions,
    "SPACE_TO_DEPTH": tflite.SpaceToDepthOptions,
    "DEPTH_TO_SPACE": tflite.DepthToSpaceOptions,
    "TRANSPOSE_CONV": tflite.TransposeConvOptions,
    "STRIDED_SLICE": tflite.StridedSliceOptions,
}
_GETTERS = {
    "activation": "FusedActivationFunction",
    "dilation_w": "DilationWFactor",
    "dilation_h": "DilationHFactor",
    "block": "BlockSize",
    "filter_w": "FilterWidth",
    "filter_h": "FilterHeight",
}


def _options(operator: Any, name: str) -> Options | None:
    if name not in _TABLES:
        return None
    table, kind = _table(operator, _TABLES[name]), OPERATORS[name].options
    assert kind is not None
    values: dict[str, Any] = {}
    for field in fields(kind):
        getter = _GETTERS.get(field.name, field.name.title().replace("_", ""))
        values[field.name] = getattr(table, getter)()
    kinds = {"activation": Activation, "padding": _PADDINGS.__getitem__}
    return kind(**{n: kinds.get(n, lambda value: value)(value) for n, value in values.items()})


def _operator_name(model: Any, operator: Any) -> tuple[str, int]:
    code = model.OperatorCodes(operator.OpcodeIndex())
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    custom = (code.CustomCode() or b"").decode()
    name = f"CUSTOM:{custom}" if _OPERATORS[number] == "CUSTOM" else _OPERATORS[number]
    return name, code.Version()


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
        name, version = _operator_name(model, o)
        options = _options(o, name)
        inputs, outputs = _ints(o.InputsAsNumpy()), _ints(o.OutputsAsNumpy())
        nodes.append(Node(index, name, inputs, outputs, options, version))
    return Graph(
        tuple(tensors), tuple(nodes), _ints(graph.InputsAsNumpy()), _ints(graph.OutputsAsNumpy())
    )
