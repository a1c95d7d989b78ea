"""LiteRT's CompiledModel with the NPU as an accelerator: the real runtime, ai-edge-litert 2.3."""

import ctypes
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import delegate
from delegate.compile import litert_plugin
from delegate.errors import OptionError
from delegate.host.litert import litert_problem
from delegate.host.runtimes import find_runtime
from delegate.model.context_reader import graph_from_snapshot
from delegate.model.graph import ABSENT, Graph, Node, Tensor
from delegate.model.litert_graph import GETTERS, LiteRtSubgraph
from delegate.model.operator_options import FieldKind, fields_of
from delegate.model.stored_options import STORED
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.options import Options
from tests.aot.models import rich_model, two_subgraphs
from tests.inferences import invoke
from tests.shared_folder import DIGITS, model_files, whole_models

PROBLEM = litert_problem()
needs_litert = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)

SIMULATOR = {"device": "simulator", "log_level": "error"}
Arrays = list[npt.NDArray[Any]]


def random_inputs(graph: Graph, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in map(graph.tensor, graph.inputs):
        kind = np.dtype(tensor.dtype.name.lower())
        if kind.kind == "f":
            arrays.append(rng.random(tensor.shape).astype(kind))
        else:
            arrays.append(rng.integers(0, 256, tensor.shape).astype(np.uint8).view(kind))
    return arrays


def by_compiled_model(
    model: Path | bytes, arrays: Arrays, graph: Graph, options: Mapping[str, object] = SIMULATOR
) -> Arrays:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    either = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    environment = delegate.litert_environment(**options)
    if isinstance(model, bytes):
        loaded = CompiledModel.from_buffer(model, either, environment)
    else:
        loaded = CompiledModel.from_file(str(model), either, environment)
    inputs, outputs = loaded.create_input_buffers(0), loaded.create_output_buffers(0)
    for buffer, array in zip(inputs, arrays, strict=True):
        buffer.write(array)
    loaded.run_by_index(0, inputs, outputs)
    results = []
    for buffer, tensor in zip(outputs, map(graph.tensor, graph.outputs), strict=True):
        kind = np.dtype(tensor.dtype.name.lower())
        results.append(buffer.read(int(np.prod(tensor.shape)), kind).reshape(tensor.shape))
    return results


def by_delegate(
    model: Path | bytes, arrays: Arrays, options: Mapping[str, object] = SIMULATOR
) -> Arrays:
    runtime = find_runtime()
    texts = {key: str(value) for key, value in options.items()}
    plugin = runtime.load_delegate(delegate.library_path(), texts)
    return invoke(runtime.interpreter(model, [plugin]), *arrays)


def assert_same(found: Sequence[npt.NDArray[Any]], expected: Sequence[npt.NDArray[Any]]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


REAL = {"mobilenet_v1_0.25_128_quant", "mobilenet_v2_1.0_224_quant", "visual_wake_words_96_int8"}
WHOLE = [path for path in whole_models() if path.stem in REAL] or whole_models()


@needs_litert
@pytest.mark.parametrize("path", [DIGITS, *WHOLE], ids=lambda path: path.stem)
@pytest.mark.parametrize("ahead", [False, True], ids=["just in time", "ahead of time"])
def test_outputs_equal_the_delegates(path: Path, ahead: bool) -> None:
    graph = read_graph(path)
    arrays = random_inputs(graph)
    model = delegate.compile_ahead_of_time(path, litert=True) if ahead else path
    assert_same(by_compiled_model(model, arrays, graph), by_delegate(path, arrays))


@needs_litert
@pytest.mark.parametrize("ahead", [False, True], ids=["just in time", "ahead of time"])
def test_a_model_with_nodes_on_the_cpu_in_between(ahead: bool) -> None:
    model = rich_model()
    graph = read_graph(model)
    arrays = random_inputs(graph)
    options = {**SIMULATOR, "deny_ops": "FULLY_CONNECTED"}
    given = (
        delegate.compile_ahead_of_time(model, litert=True, deny_ops="FULLY_CONNECTED")
        if ahead
        else model
    )
    found = by_compiled_model(given, arrays, graph, options)
    assert_same(found, by_delegate(model, arrays, options))


@needs_litert
def test_a_float_model_in_fp16() -> None:
    files = [path for path in model_files("float") if "face" in path.stem]
    if not files:
        pytest.skip("no float model: ../shared is not there")
    graph = read_graph(files[0])
    arrays = random_inputs(graph)
    ahead = delegate.compile_ahead_of_time(files[0], litert=True)
    expected = by_delegate(files[0], arrays)
    for model in (files[0], ahead):
        assert_same(by_compiled_model(model, arrays, graph), expected)


@needs_litert
@pytest.mark.slow
def test_a_detector_with_a_partition_that_goes_on_behind_nodes_on_the_cpu() -> None:
    """Just in time LiteRT cuts it there, and three nodes more run on the CPU's kernels."""
    files = [path for path in model_files(".") if path.stem == "yolov8n_224_int8"]
    if not files:
        pytest.skip("no detector: ../shared is not there")
    graph = read_graph(files[0])
    arrays = random_inputs(graph)
    (expected,) = by_delegate(files[0], arrays)
    ahead = delegate.compile_ahead_of_time(files[0], litert=True)
    assert_same(by_compiled_model(ahead, arrays, graph), [expected])
    (found,) = by_compiled_model(files[0], arrays, graph)
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert np.mean(found != expected) < 1e-3


class Recorder:
    """Takes the place of the compiler and keeps what it is given to compile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graphs: list[LiteRtSubgraph] = []
        original = litert_plugin.read_subgraph

        def read(context: Any, address: int) -> LiteRtSubgraph:
            found = original(context, address)
            for tensor in found.snapshot["tensors"]:  # the model takes its memory along
                tensor["data"] = None if tensor["data"] is None else tensor["data"].copy()
            self.graphs.append(found)
            return found

        monkeypatch.setattr(litert_plugin, "read_subgraph", read)
        monkeypatch.setattr(litert_plugin.Plugin, "_compiled", lambda *_: [])


def read_by_litert(model: Path, recorder: Recorder) -> Graph:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    recorder.graphs.clear()
    environment = delegate.litert_environment(**SIMULATOR)
    either = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    CompiledModel.from_file(str(model), either, environment)
    (found,) = recorder.graphs
    return graph_from_snapshot(found.snapshot)


def comparable(tensor: Tensor) -> tuple[Any, ...]:
    constant = None if tensor.constant is None else tensor.constant.tobytes()
    quantization = tensor.quantization
    if quantization is not None and not quantization.is_per_channel:
        quantization = (quantization.scale, quantization.zero_point)
    return tensor.name, tensor.shape, tensor.dtype, quantization, constant


def options_of(node: Node) -> Any:
    """Return a node's options by the class of its operator; None for one that the NPU lacks."""
    operator = OPERATORS.get(node.op)
    if operator is None or operator.options is None:
        return None
    return node.options_as(operator.options)


FILES = [DIGITS, *model_files("single_op"), *model_files(".")[:6], *model_files("float")]


@needs_litert
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_litert_tells_what_the_file_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option, tensor and constant by the functions at their places in the runtime's table."""
    expected = read_graph(path)
    found = read_by_litert(path, Recorder(monkeypatch))
    assert [node.op for node in found.nodes] == [node.op for node in expected.nodes]
    for ours, theirs in zip(found.nodes, expected.nodes, strict=True):
        if ours.op in GETTERS or not STORED.get(ours.op):
            assert options_of(ours) == options_of(theirs), theirs
        for a, b in ((ours.inputs, theirs.inputs), (ours.outputs, theirs.outputs)):
            present = [tensor for tensor in b if tensor != ABSENT]
            assert [comparable(found.tensor(t)) for t in a] == [
                comparable(expected.tensor(t)) for t in present
            ]


def test_every_option_has_a_function_of_its_kind() -> None:
    sizes = {FieldKind.BOOL: 1}
    for name, getters in GETTERS.items():
        fields = sorted(
            (field for _, field in fields_of(OPERATORS[name].options)), key=lambda f: f.offset
        )
        assert len(getters) == len(fields), name
        for getter, field in zip(getters, fields, strict=True):
            from_1 = field.kind in (FieldKind.PADDING, FieldKind.ENUM_FROM_1)
            assert getter.add == from_1, name
            assert ctypes.sizeof(getter.kind) == sizes.get(field.kind, 4), name
            is_float = field.kind is FieldKind.FLOAT32
            assert (getter.kind is ctypes.c_float) == is_float, name
    without = {name for name, spans in STORED.items() if spans} - GETTERS.keys()
    # LiteRT tells no option of the one; the place of the other's function is not known.
    assert without == {"REDUCE_PROD", "DIV"}


@needs_litert
def test_a_bad_option_is_an_error_before_anything_is_loaded() -> None:
    with pytest.raises(OptionError, match="device"):
        delegate.litert_environment(device="npu")
    with pytest.raises(OptionError, match="line breaks"):
        delegate.litert_environment(cache_dir="/tmp/a\nb")


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (None, "ai-edge-litert is not installed"),
        ("2.1.6", "ai-edge-litert is 2.1.6; CompiledModel needs 2.3"),
        ("2.3.0", ""),
        ("10.0.0rc1", ""),
    ],
)
def test_versions_of_litert(
    monkeypatch: pytest.MonkeyPatch, version: str | None, problem: str
) -> None:
    def installed(name: str) -> str:
        assert name == "ai-edge-litert"
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", installed)
    said = litert_problem()
    assert problem in said
    assert bool(said) == bool(problem)


@needs_litert
def test_litert_finds_a_link_in_its_own_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ai_edge_litert import environment

    folder = tmp_path / "a_rk3588"
    folder.mkdir()
    for kind in ("compiler", "dispatch"):
        (folder / kind).symlink_to(delegate.litert_folder())
    monkeypatch.setattr(environment, "_vendors_dir", lambda: str(tmp_path))
    found = environment.Environment.create().options
    assert Path(found.dispatch_library_path) == folder / "dispatch"
    assert Path(found.compiler_plugin_path) == folder / "compiler"


@needs_litert
def test_two_environments_have_options_of_their_own(capfd: pytest.CaptureFixture[str]) -> None:
    graph = read_graph(DIGITS)
    arrays = random_inputs(graph)
    expected = by_delegate(DIGITS, arrays)
    for device, is_right in (("simulator", True), ("null", False), ("simulator", True)):
        options = {"device": device, "log_level": "info"}
        found = by_compiled_model(DIGITS, arrays, graph, options)
        assert f"{device}: program" in capfd.readouterr().err
        assert (found[0].tobytes() == expected[0].tobytes()) == is_right


@needs_litert
def test_ahead_of_time_the_whole_model_is_compiled() -> None:
    model = two_subgraphs()
    content = delegate.compile_ahead_of_time(model, litert=True)
    graphs = [read_graph(content, subgraph) for subgraph in range(2)]
    assert all(any(n.custom_name == "DISPATCH_OP" for n in g.nodes) for g in graphs)


def test_the_same_model_and_options_give_the_same_file() -> None:
    first, second = (delegate.compile_ahead_of_time(DIGITS, litert=True) for _ in range(2))
    assert first == second
    assert first != delegate.compile_ahead_of_time(DIGITS)


def test_litert_s_cache_goes_by_the_options() -> None:
    def version(**options: object) -> str:
        plugin = litert_plugin.Plugin.__new__(litert_plugin.Plugin)
        plugin._session = type("Session", (), {"options": Options.from_mapping(options)})
        return plugin.version

    assert version() == version(log_level="info")
    versions = {version(), version(numerics="auto"), version(chip="rk3576"), version(float="off")}
    assert len(versions) == 4
