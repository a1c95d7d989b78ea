"""Files that ``compile -o`` writes: what stays, what goes, and that they run the same."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delegate
from delegate.compile.aot.rewrite import OPERATOR_NAME, compile_ahead_of_time
from delegate.compile.compiler import compile_model
from delegate.errors import ModelError
from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType
from delegate.model.tflite_reader import read_graph, read_model
from delegate.options import Options
from tests.aot.models import LABELS, rich_model, two_subgraphs, with_labels
from tests.shared_folder import whole_models

tflite = pytest.importorskip("tflite")


def rewritten(model: bytes | Path, **options: object) -> bytes:
    return compile_ahead_of_time(model, Options.from_mapping(options)).content


def inputs_for(interpreter: Any, seed: int = 0) -> list[tuple[int, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        (item["index"], rng.integers(0, 256, item["shape"]).astype(np.uint8).view(item["dtype"]))
        for item in interpreter.get_input_details()
    ]


def outputs(model: bytes | Path, device: str = "simulator") -> list[tuple[str, np.ndarray]]:
    """Names and values of the model's outputs, through the delegate."""
    runtime = find_runtime()
    plugin = runtime.load_delegate(
        delegate.library_path(), {"device": device, "log_level": "error"}
    )
    interpreter = runtime.interpreter(model, [plugin])
    for index, values in inputs_for(interpreter):
        interpreter.set_tensor(index, values)
    interpreter.invoke()
    return [
        (item["name"], interpreter.get_tensor(item["index"]).copy())
        for item in interpreter.get_output_details()
    ]


def assert_same(a: Sequence[tuple[str, np.ndarray]], b: Sequence[tuple[str, np.ndarray]]) -> None:
    assert [name for name, _ in a] == [name for name, _ in b]
    for (name, x), (_, y) in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes(), name


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_outputs_are_those_of_the_model_compiled_just_in_time(dtype):
    model = rich_model(dtype=dtype)
    assert_same(outputs(model), outputs(rewritten(model)))


REAL = {"mobilenet_v1_0.25_128_quant", "visual_wake_words_96_int8", "yolo_fastest_160_person_int8"}
MODELS = [path for path in whole_models() if path.stem in REAL] or whole_models()


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_give_the_same_bytes(path):
    assert_same(outputs(path), outputs(rewritten(path)))


def test_same_model_and_options_give_the_same_file():
    model = rich_model()
    assert rewritten(model) == rewritten(model)
    assert rewritten(model) != rewritten(model, deny_ops="FULLY_CONNECTED")


def test_file_is_read_by_the_public_schema():
    content = rewritten(rich_model())
    assert tflite.Model.ModelBufferHasIdentifier(content, 0)
    model = tflite.Model.GetRootAsModel(content, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    names = [code.CustomCode() for code in codes if code.CustomCode()]
    assert names == [OPERATOR_NAME.encode()]
    graph = model.Subgraphs(0)
    assert graph.Name() == b"classifier"
    programs = [
        graph.Operators(i).CustomOptionsAsNumpy().tobytes()
        for i in range(graph.OperatorsLength())
        if codes[graph.Operators(i).OpcodeIndex()].CustomCode()
    ]
    assert all(program[4:8] == b"RKNP" for program in programs)
    assert len(programs) == 2


def test_all_that_is_not_compiled_stays():
    before, after = read_model(rich_model()), read_model(rewritten(rich_model()))
    assert after.description == before.description
    assert {k: v.tobytes() for k, v in after.metadata.items()} == {
        k: v.tobytes() for k, v in before.metadata.items()
    }
    old, new = before.subgraphs[0], after.subgraphs[0]
    assert [new.tensor(i).name for i in new.inputs] == [old.tensor(i).name for i in old.inputs]
    assert [new.tensor(i).name for i in new.outputs] == [old.tensor(i).name for i in old.outputs]
    assert [node.op for node in new.nodes if not node.op.startswith("CUSTOM")] == ["RESHAPE"]
    shape = next(tensor for tensor in new.tensors if tensor.name == "shape")
    assert shape.constant is not None
    assert shape.constant.tolist() == [1, 703]
    (signature,) = after.signatures
    assert signature.key == "serving_default"
    names = {k: new.tensor(t).name for k, t in {**signature.inputs, **signature.outputs}.items()}
    assert names["image"] == "image"
    assert names["map"] == "map"


def test_quantisation_of_the_tensors_that_stay_is_unchanged():
    old, new = read_graph(rich_model()), read_graph(rewritten(rich_model()))
    by_name = {tensor.name: tensor for tensor in old.tensors}
    for tensor in new.tensors:
        assert tensor.quantization == by_name[tensor.name].quantization
        assert tensor.shape == by_name[tensor.name].shape


def test_constants_of_compiled_operators_are_dropped():
    content = rewritten(rich_model())
    names = {tensor.name for tensor in read_graph(content).tensors if tensor.constant is not None}
    assert names == {"shape"}
    model = tflite.Model.GetRootAsModel(content, 0)
    # The empty one, the shape, the metadata.
    assert model.BuffersLength() == 3
    assert model.Buffers(0).DataLength() == 0


def test_programs_and_constants_are_aligned_to_16_bytes():
    content = rewritten(rich_model())
    model = read_model(content)
    assert content.index(b"some metadata") % 16 == 0
    program = (
        compile_ahead_of_time(rich_model(), Options(numerics="exact"))
        .results[0]
        .partitions[0]
        .program
    )
    assert (content.index(program[4:64]) - 4) % 16 == 0
    assert model.subgraphs[0].nodes


def test_every_denied_operator_stays():
    content = rewritten(rich_model(), deny_ops="CONV_2D,FULLY_CONNECTED")
    ops = [node.op for node in read_graph(content).nodes]
    assert sorted(ops) == sorted(node.op for node in read_graph(rich_model()).nodes)
    assert not any(op.startswith("CUSTOM") for op in ops)


def test_content_outside_the_flatbuffer_is_brought_inside():
    model = rich_model(is_external=True)
    assert_same(outputs(rich_model()), outputs(rewritten(model)))


def test_archive_behind_the_model_is_kept():
    content = rewritten(with_labels(rich_model()))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("labels.txt") == LABELS
        assert archive.testzip() is None
    assert_same(outputs(rich_model()), outputs(content))


def test_every_subgraph_is_compiled():
    model = read_model(rewritten(two_subgraphs()))
    for graph in model.subgraphs:
        assert [node.op for node in graph.nodes] == [f"CUSTOM:{OPERATOR_NAME}"]
    assert [graph.name for graph in model.subgraphs] == ["main", "other"]
    assert_same(outputs(two_subgraphs()), outputs(rewritten(two_subgraphs())))


def test_compiled_model_is_not_compiled_again():
    with pytest.raises(ModelError, match="compiled ahead of time already"):
        rewritten(rewritten(rich_model()))


def test_programs_name_the_tensors_of_the_new_file():
    from delegate.npu.program import parse

    content = rewritten(rich_model())
    graph = read_graph(content)
    model = tflite.Model.GetRootAsModel(content, 0)
    for i, node in enumerate(graph.nodes):
        if node.op != f"CUSTOM:{OPERATOR_NAME}":
            continue
        program = parse(model.Subgraphs(0).Operators(i).CustomOptionsAsNumpy().tobytes())
        for binding, tensor in zip(
            (*program.inputs, *program.outputs), (*node.inputs, *node.outputs), strict=True
        ):
            assert binding.tensor == tensor
            assert binding.name == graph.tensor(tensor).name
            assert binding.shape == graph.tensor(tensor).shape


def test_runtime_without_the_delegate_names_the_missing_operator():
    runtime = find_runtime()
    with pytest.raises(ModelError, match=OPERATOR_NAME):
        runtime.interpreter(rewritten(rich_model()))


def test_delegation_reports_what_was_compiled():
    from delegate.host.delegation import collect_delegations

    with collect_delegations() as found:
        outputs(rewritten(rich_model()), "null")
    assert [(d.delegated_nodes, d.total_nodes, d.partitions) for d in found] == [(2, 3, 2)]


def test_compile_result_is_that_of_a_plain_compilation():
    plain = compile_model(rich_model(), Options(numerics="exact"))
    (ahead,) = compile_ahead_of_time(rich_model(), Options(numerics="exact")).results
    assert [p.program for p in ahead.partitions] == [p.program for p in plain.partitions]
