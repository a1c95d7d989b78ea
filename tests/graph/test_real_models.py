"""Real models, read and compared with the interpreter."""

from pathlib import Path

import numpy as np
import pytest

from delegate.model.graph import DType, Padding
from delegate.model.tflite_reader import read_model
from delegate.ops.conv_2d import ConvOptions
from tests.loops import for_each
from tests.shared_folder import MODELS, model_files, needs_models, whole_models

WHOLE = whole_models()
SMALL = model_files("layers", "single_op")


@needs_models
def test_all_public_models_are_there() -> None:
    assert len(WHOLE) == 17
    assert len(SMALL) >= 157 + 95


@for_each("path", WHOLE)
def test_constants_are_views_of_the_mapping(path: Path) -> None:
    model = read_model(path)
    mapping = np.frombuffer(model.content, np.uint8)
    constants = [t.constant for t in model.subgraphs[0].tensors if t.constant is not None]
    assert constants
    for constant in constants:
        assert np.shares_memory(constant, mapping)
        assert not constant.flags.writeable
        assert not constant.flags.owndata
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            constant.flags.writeable = True


@for_each("path", WHOLE)
def test_graph_equals_the_interpreters_view(path: Path) -> None:
    runtime = pytest.importorskip("tflite_runtime.interpreter")
    runner = runtime.Interpreter(model_path=str(path))
    graph = read_model(path).subgraphs[0]
    details = {d["index"]: d for d in runner.get_tensor_details()}
    for tensor in graph.tensors:
        if tensor.index not in details:  # the interpreter hides tensors without a name or type
            continue
        detail = details[tensor.index]
        assert tensor.name == detail["name"]
        assert tensor.shape == tuple(detail["shape"])
        assert np.dtype(detail["dtype"]).name == tensor.dtype.name.lower()
        parameters = detail["quantization_parameters"]
        if tensor.quantization is None:
            assert len(parameters["scales"]) == 0
        else:
            scales = np.array(tensor.quantization.scales, np.float32)
            assert np.array_equal(scales, parameters["scales"])
            assert np.array_equal(tensor.quantization.zero_points, parameters["zero_points"])
            assert tensor.quantization.axis == parameters["quantized_dimension"]
    assert [d["index"] for d in runner.get_input_details()] == list(graph.inputs)
    assert [d["index"] for d in runner.get_output_details()] == list(graph.outputs)
    operators = runner._get_ops_details()
    assert len(operators) == len(graph.nodes)
    for node, operator in zip(graph.nodes, operators, strict=True):
        assert node.index == operator["index"]
        assert node.op.removeprefix("CUSTOM:") == operator["op_name"]
        assert node.inputs == tuple(operator["inputs"])
        assert node.outputs == tuple(operator["outputs"])


@needs_models
def test_known_model_by_hand() -> None:
    """MobileNetV1's first convolution, as anyone can see it in a model viewer."""
    graph = read_model(MODELS / "mobilenet_v1_1.0_224_quant.tflite").subgraphs[0]
    node = graph.nodes[0]
    assert node.op == "CONV_2D"
    x, weights, bias = (graph.tensor(t) for t in node.inputs)
    assert (x.shape, weights.shape, bias.shape) == ((1, 224, 224, 3), (32, 3, 3, 3), (32,))
    assert (x.dtype, weights.dtype, bias.dtype) == (DType.UINT8, DType.UINT8, DType.INT32)
    assert x.quantization is not None
    assert (x.quantization.scale, x.quantization.zero_point) == (0.0078125, 128)
    options = node.options_as(ConvOptions)
    assert options is not None
    assert options.padding is Padding.SAME
    assert (options.stride_h, options.stride_w) == (2, 2)
