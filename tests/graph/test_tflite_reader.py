"""Tests the reader of models built in memory, and the one clear error for everything else."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from delegate.errors import ModelError
from delegate.model.graph import Activation, DType, Padding, Quantization
from delegate.model.tflite_reader import read_graph, read_model
from delegate.ops.add import AddOptions
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.depthwise_conv_2d import DepthwiseOptions
from delegate.ops.fully_connected import FullyConnectedOptions
from rk3588_conformance.builder import (
    Arithmetic,
    Net,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
    options,
)
from tests.graph.comparison import assert_same_graph, constants

SMALL = conv_model(np.random.default_rng(0), 5, 3, 2, 4, 3, 1)


def test_options_of_the_other_operators() -> None:
    rng = np.random.default_rng(1)
    arithmetic = Arithmetic(activation=Activation.RELU)
    model = depthwise_model(rng, 7, 5, 3, 3, 3, 2, 1, 1, 2, multiplier=2, arithmetic=arithmetic)
    expected = DepthwiseOptions(Padding.SAME, 2, 1, 1, 2, Activation.RELU, 2)
    assert read_graph(model).nodes[0].options_as(DepthwiseOptions) == expected
    model = fully_connected_model(rng, (2, 3, 7), 5, keep_num_dims=True, arithmetic=arithmetic)
    expected_fc = FullyConnectedOptions(Activation.RELU, True, 0, False)
    assert read_graph(model).nodes[0].options_as(FullyConnectedOptions) == expected_fc
    model = add_model(rng, (1, 2, 3, 4), activation=Activation.RELU_N1_TO_1)
    node = read_graph(model).nodes[0]
    assert node.options_as(AddOptions) == AddOptions(Activation.RELU_N1_TO_1)


def one_op(op: str | int, builtin_options: options.BuiltinOptions | None, **kwargs: int) -> bytes:
    b = Net()
    x = b.input("x", (1, 2, 2, 1), DType.INT8, Quantization((1.0,), (0,)))
    y = b.tensor("y", (1, 2, 2, 1), DType.INT8, Quantization((1.0,), (0,)))
    b.operator(op, (x, x), (y,), builtin_options, **kwargs)
    return b.build(y)


def test_missing_options_are_defaults_where_the_runtime_has_them() -> None:
    node = read_graph(one_op("ADD", None)).nodes[0]
    assert node.options_as(AddOptions) == AddOptions(Activation.NONE)
    assert read_graph(one_op("CONV_2D", None)).nodes[0].options_as(ConvOptions) is None
    assert read_graph(one_op("CONV_2D", AddOptions())).nodes[0].options_as(ConvOptions) is None


def test_unknown_enumerations_leave_no_options() -> None:
    bad_padding = options.BuiltinOptions(1, {0: b"\x09"})
    assert read_graph(one_op("CONV_2D", bad_padding)).nodes[0].options_as(ConvOptions) is None
    bad_activation = options.BuiltinOptions(11, {0: b"\x4d"})
    assert read_graph(one_op("ADD", bad_activation)).nodes[0].options_as(AddOptions) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [("CUMSUM", "CUMSUM"), (209, "STABLEHLO_CASE"), (300, "UNKNOWN_300"), (127, None)],
)
def test_operator_codes_beyond_eight_bits(code: str | int, name: str | None) -> None:
    expected = name or "PLACEHOLDER_FOR_GREATER_OP_CODES"
    assert read_graph(one_op(code, None)).nodes[0].op == expected


def test_subgraphs_metadata_and_signatures() -> None:
    b = Net("described", name="first")
    x = b.input("x", (2,), DType.INT8)
    b.output(x)
    b.subgraph("second")
    z = b.input("z", (3, 4), DType.FLOAT32)
    b.output(z)
    b.metadata("note", b"words")
    b.signature("serving", {"in": x}, {"out": x}, subgraph=0)
    content = b.build()
    model = read_model(content)
    assert model.description == "described"
    assert [g.name for g in model.subgraphs] == ["first", "second"]
    assert model.metadata["note"].tobytes() == b"words"
    (signature,) = model.signatures
    assert (signature.key, dict(signature.inputs), dict(signature.outputs)) == (
        "serving",
        {"in": 0},
        {"out": 0},
    )
    assert read_graph(content, subgraph=1).tensors[0].shape == (3, 4)
    with pytest.raises(ModelError, match="no subgraph 2; the model has 2"):
        read_graph(content, subgraph=2)


def test_every_kind_of_tensor() -> None:
    b = Net()
    b.tensor("scalar", (), DType.FLOAT32)
    b.tensor("dynamic", (1, 4), DType.INT8, shape_signature=(-1, 4))
    b.tensor("state", (1, 4), DType.INT8, is_variable=True)
    nibbles = np.array([0x21, 0x03], np.uint8)
    b.constant("packed", nibbles, dtype=DType.INT4, shape=(3,))
    b.constant("sparse", np.arange(5, dtype=np.int8), shape=(4, 4), is_sparse=True)
    b.constant("text", np.frombuffer(b"\1\0\0\0", np.uint8), dtype=DType.STRING, shape=(1,))
    b.constant("brain", np.zeros(6, np.uint8), dtype=DType.BFLOAT16, shape=(3,))
    b.constant("wide", np.array([[1.5]], np.float32), Quantization((), ()))
    scales = (0.5, 0.25, 0.125)
    b.constant("broadcast", np.ones((2, 3), np.int8), Quantization(scales, (0,), axis=1))
    graph = read_graph(b.build())
    t = {tensor.name: tensor for tensor in graph.tensors}
    assert t["scalar"].shape == ()
    assert t["dynamic"].shape_signature == (-1, 4)
    assert t["state"].is_variable
    assert t["packed"].dtype is DType.INT4
    assert t["packed"].constant is not None
    assert t["packed"].constant.tolist() == [0x21, 0x03]
    assert t["sparse"].is_sparse
    assert t["sparse"].constant is not None
    assert t["text"].dtype is DType.STRING
    assert t["brain"].constant is not None
    assert t["brain"].constant.shape == (6,)
    assert t["wide"].quantization is None
    assert t["wide"].constant is not None
    assert t["wide"].constant.tolist() == [[1.5]]
    assert t["broadcast"].quantization == Quantization(scales, (0, 0, 0), 1)


def test_constant_beyond_four_gigabytes(tmp_path: Path) -> None:
    """Models over 2 GB keep their constants behind the flatbuffer. The file here is sparse."""
    values = np.arange(20, dtype=np.int16)
    b = Net()
    b.constant("near", np.ones(70_001, np.uint8))
    b.constant("far", values, is_external=True)
    content = b.build()
    offset = len(content) - values.nbytes
    assert content.count(struct.pack("<Q", offset)) == 1
    distant = 5 << 30
    moved = content.replace(struct.pack("<Q", offset), struct.pack("<Q", distant))
    path = tmp_path / "large.tflite"
    with path.open("wb") as file:
        file.write(moved[:offset])
        file.seek(distant)
        file.write(values.tobytes())
    assert np.array_equal(constants(read_graph(path))[1], values)
    os.truncate(path, distant)
    with pytest.raises(ModelError, match=f"40 bytes at byte {distant} leave the file"):
        read_graph(path)


def test_path_and_bytes_give_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(SMALL)
    assert read_graph(path).source == str(path)
    assert_same_graph(read_graph(str(path)), read_graph(bytearray(SMALL)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"TFL3", "truncated: 4 bytes are too few"),
        (b"\x1c\0\0\0TFL2" + bytes(100), "not a .tflite file: it does not have the letters TFL3"),
        (b"<!DOCTYPE html><html>", "not a .tflite file"),
        (b"\xff\xff\xff\x7fTFL3" + bytes(100), "offset 2147483647 at byte 0 leaves the file"),
        (SMALL[: len(SMALL) // 2], "leave"),
    ],
)
def test_bad_content_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.tflite"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        read_graph(tmp_path / "absent.tflite")
    with pytest.raises(ModelError, match="is a directory"):
        read_graph(tmp_path)
    with pytest.raises(ModelError, match="is a device"):
        read_graph("/dev/zero")
    with pytest.raises(ModelError, match="cannot be read"):
        read_graph("nul\0character.tflite")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="is a pipe"):
        read_graph(pipe)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    path = tmp_path / "model.tflite"
    path.write_bytes(SMALL)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        read_graph(path)
