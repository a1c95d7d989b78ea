"""Float models are made ready for the quantiser without a change of what they compute."""

from pathlib import Path

import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.flatbuffer_tables import write_file
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_model
from delegate.model.tflite_schema import FILE_IDENTIFIER, ModelSlot, OperatorCodeSlot
from delegate.ops.conv_2d import ConvOptions
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.sparse import Tree, encoded
from rk3588_conformance.cut_model import parse
from rk3588_vision.quantization.float_model import SIGNATURE, FloatModel
from tests.cli.conftest import MODEL as QUANTISED
from tests.inferences import assert_same, outputs
from tests.quantization.float_models import SIDE, conv, two_heads
from tests.shared_folder import MODELS, needs_models


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "float.tflite"


def image_for(model: FloatModel) -> np.ndarray:
    shape = model.graph.tensor(model.graph.inputs[0]).shape
    return np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)


def same_results(path: Path) -> FloatModel:
    """Read ``path`` and compare what both models compute."""
    model = FloatModel.read(path)
    image = image_for(model)
    assert_same(outputs(path.read_bytes(), image), outputs(model.content, image))
    return model


def test_float16_constants_are_folded_and_dropped(path: Path) -> None:
    path.write_bytes(two_heads(half=True))
    model = same_results(path)
    assert "DEQUANTIZE" not in {node.op for node in model.graph.nodes}
    assert {tensor.dtype for tensor in model.graph.tensors} == {DType.FLOAT32, DType.INT32}
    dense = len(two_heads(half=False))
    assert len(model.content) < dense + 1000  # the halves are gone


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_sparse_weights_are_folded(path: Path, half: bool) -> None:
    builder = Net("sparse")
    x = builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32)
    dense = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    dense[:, :, :, 1] = 0
    if half:
        dense = dense.astype(np.float16)
    values, sparsity = encoded(dense, Tree((0, 1, 2, 3), (False, False, False, True)))
    kernel = builder.constant("kernel", values, shape=dense.shape, sparsity=sparsity)
    kernel = builder.result("DENSIFY", [kernel], "dense", dense.shape)
    if half:
        kernel = builder.result("DEQUANTIZE", [kernel], "single", dtype=DType.FLOAT32)
    y = builder.result("CONV_2D", [x, kernel, -1], "y", (1, SIDE, SIDE, 4), options=ConvOptions())
    path.write_bytes(builder.build(y))
    model = FloatModel.read(path)
    (node,) = model.graph.nodes
    np.testing.assert_array_equal(model.graph.tensor(node.inputs[1]).constant, dense)


def test_a_signature_is_added_and_an_old_one_kept(path: Path) -> None:
    path.write_bytes(two_heads())
    (signature,) = read_model(FloatModel.read(path).content).signatures
    assert signature.key == SIGNATURE
    names = [FloatModel.read(path).graph.tensor(t).name for t in signature.outputs.values()]
    assert names == ["joined"]

    builder = Net("signed")
    x = builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32)
    y = conv(builder, x, 4, "y", seed=1, half=True)
    builder.signature("mine", {"in": x}, {"out": y})
    path.write_bytes(builder.build(y))
    model = FloatModel.read(path)
    (signature,) = read_model(model.content).signatures
    assert signature.key == "mine"
    assert model.graph.tensor(signature.outputs["out"]).name == "y"  # numbers have moved


def test_every_tensor_gets_a_name_of_its_own(path: Path) -> None:
    builder = Net("names")
    x = builder.input("image", (1, SIDE, SIDE, 3), DType.FLOAT32)
    y = conv(builder, x, 3, "same", seed=1)
    y = conv(builder, y, 3, "same", seed=2)
    y = builder.result("RELU", [y], "")
    path.write_bytes(builder.build(y))
    names = [tensor.name for tensor in same_results(path).graph.tensors]
    assert len(set(names)) == len(names)
    assert "same" in names
    assert "" not in names


def test_operator_codes_of_old_files_are_filled(path: Path) -> None:
    root = parse(two_heads())
    for code in root.children(ModelSlot.OPERATOR_CODES):
        del code.fields[OperatorCodeSlot.BUILTIN_CODE]
    path.write_bytes(write_file(root, FILE_IDENTIFIER))
    for code in parse(same_results(path).content).children(ModelSlot.OPERATOR_CODES):
        old = code.number(OperatorCodeSlot.DEPRECATED_BUILTIN_CODE)
        assert code.number(OperatorCodeSlot.BUILTIN_CODE) == old > 0


@needs_models
@pytest.mark.parametrize("name", ["face_detection_short_range", "hand_landmark_lite"])
def test_published_models_compute_the_same(name: str) -> None:
    model = same_results(MODELS / "float" / f"mediapipe_{name}.tflite")
    assert "DEQUANTIZE" not in {node.op for node in model.graph.nodes}


def test_models_that_cannot_be_quantised_are_refused(path: Path) -> None:
    with pytest.raises(ModelError, match=r"quantised already .*give the float model"):
        FloatModel.read(QUANTISED)

    builder = Net("two")
    x, y = (builder.input(name, (1, 4, 4, 3), DType.FLOAT32) for name in "xy")
    path.write_bytes(builder.build(builder.result("MUL", [x, y], "z")))
    with pytest.raises(ModelError, match="has 2 inputs"):
        FloatModel.read(path)

    builder = Net("integers")
    x = builder.input("x", (1, 4, 4, 3), DType.INT32)
    path.write_bytes(builder.build(builder.result("ABS", [x], "y")))
    with pytest.raises(ModelError, match="'x' is int32, not float32"):
        FloatModel.read(path)

    builder = Net("compiled")
    x = builder.input("x", (1, 4, 4, 3), DType.FLOAT32)
    path.write_bytes(builder.build(builder.result("CUSTOM:rk3588-npu", [x], "y")))
    with pytest.raises(ModelError, match="compiled for the NPU already"):
        FloatModel.read(path)

    builder = Net("branches")
    x = builder.input("x", (1, 4, 4, 3), DType.FLOAT32)
    builder.output(builder.result("ABS", [x], "y"))
    builder.subgraph("other")
    path.write_bytes(builder.build())
    with pytest.raises(ModelError, match="2 subgraphs"):
        FloatModel.read(path)
