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
