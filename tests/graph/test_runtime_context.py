"""The graph of a running interpreter equals the graph of its file; so do the partitions."""

from pathlib import Path

import numpy as np
import pytest

from delegate.model.graph import Activation, DType, Graph, Padding, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.add import AddOptions
from delegate.partition.partitioner import select_nodes
from delegate.partition.partitions import partition_graph
from rk3588_conformance.builder import (
    Arithmetic,
    Net,
    add_model,
    conv_model,
    depthwise_model,
    fully_connected_model,
)
from tests.graph.comparison import assert_same_graph
from tests.graph.runtime_context import Preview, capture, runtime_or_skip
from tests.loops import for_each
from tests.models.blocks import conv_conv_add_model
from tests.shared_folder import whole_models

WHOLE = whole_models()


def odd_tensors() -> bytes:
    """A variable, and a constant whose channels have zero points of their own."""
    b, same = Net("odd"), Quantization((0.5,), (3,))
    x = b.input("x", (1, 4), DType.INT8, same)
    state = b.tensor("state", (1, 4), DType.INT8, same, is_variable=True)
    own = Quantization((0.5, 0.25), (1, -2), 0)
    rows = b.constant("rows", np.ones((2, 4), np.int8), own)
    y = b.result("ADD", (x, state), "y", options=AddOptions())
    return b.build(y, b.reshape(rows, (2, 4, 1)))


RNG = np.random.default_rng(11)
BUILT = {
    "conv": conv_model(
        RNG, 7, 5, 3, 4, 3, 2, 2, 1, 1, 1, arithmetic=Arithmetic(activation=Activation.RELU6)
    ),
    "conv_per_channel": conv_model(RNG, 7, 5, 3, 4, 3, 2, arithmetic=Arithmetic(per_channel=True)),
    "conv_valid": conv_model(
        RNG, 9, 11, 3, 4, 2, 3, 1, 1, 3, 2, padding=Padding.VALID, dtype=DType.UINT8
    ),
    "depthwise": depthwise_model(RNG, 7, 5, 3, 3, 2, 2, 3, multiplier=2),
    "fully_connected": fully_connected_model(RNG, (2, 3, 4), 5, keep_num_dims=True),
    "fully_connected_without_bias": fully_connected_model(
        RNG, (2, 4), 5, arithmetic=Arithmetic(has_bias=False)
    ),
    "add": add_model(RNG, (1, 2, 3, 4), activation=Activation.RELU_N1_TO_1),
    "add_constant": add_model(RNG, (1, 2, 3, 4), other_shape=(4,), is_constant=True),
    "odd": odd_tensors(),
    "residual": conv_conv_add_model(RNG, 7, 5, 3, 4, 3, 3, dtype=DType.UINT8),
}


def without_temporaries(graph: Graph) -> Graph:
    """Kernels append scratch tensors to the context, which no node names as input or output."""
    named = {t for node in graph.nodes for t in (*node.inputs, *node.outputs)}
    return Graph(graph.tensors[: max(named) + 1], graph.nodes)


@pytest.mark.parametrize("name", BUILT)
def test_built_model_in_the_runtime_equals_its_file(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = capture(BUILT[name], monkeypatch)
    assert_same_graph(read_graph(BUILT[name]), without_temporaries(graph), has_ends=False)


@pytest.mark.parametrize("path", WHOLE, ids=lambda p: p.stem)
def test_real_model_in_the_runtime_equals_its_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = capture(path, monkeypatch)
    read = read_graph(path)
    assert_same_graph(read, without_temporaries(graph), has_ends=False)
    runner = runtime_or_skip().Interpreter(model_path=str(path))
    assert tuple(d["index"] for d in runner.get_input_details()) == read.inputs
    assert tuple(d["index"] for d in runner.get_output_details()) == read.outputs


@pytest.mark.parametrize("path", WHOLE, ids=lambda p: p.stem)
def test_real_model_is_partitioned_as_the_runtime_would(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Supported nodes, all convolutions, every other node, random halves."""
    graph = read_graph(path)
    everything = [node.index for node in graph.nodes]
    rng = np.random.default_rng(3)
    choices = [
        sorted(select_nodes(graph)[0]),
        [node.index for node in graph.nodes if "CONV" in node.op],
        everything[::2],
        *(sorted(i for i in everything if rng.random() < share) for share in (0.5, 0.8, 0.95)),
    ]
    check_previews(graph, path, choices, monkeypatch)


def check_previews(
    graph: Graph, model: Path | bytes, choices: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(preview: Preview) -> list[object]:
        return [preview(choice) for choice in choices]

    _, previews = capture(model, monkeypatch, ask)
    for choice, preview in zip(choices, previews, strict=True):
        own = [
            (list(p.nodes), list(p.inputs), list(p.outputs)) for p in partition_graph(graph, choice)
        ]
        assert own == [tuple(part) for part in preview]


def random_model(seed: int) -> bytes:
    """Up to 25 NEG, ADD and RELU nodes on random earlier tensors; several outputs."""
    rng = np.random.default_rng(seed)
    quantization = Quantization((0.5,), (0,))
    b = Net()
    tensors = [
        b.input(f"in{i}", (1, 4), DType.INT8, quantization) for i in range(rng.integers(1, 4))
    ]
    produced = []
    for index in range(rng.integers(1, 26)):
        y = b.tensor(f"y{index}", (1, 4), DType.INT8, quantization)
        near = tensors[-4:]
        a, c = (int(rng.choice(near if rng.random() < 0.7 else tensors)) for _ in range(2))
        if rng.random() < 0.5:
            b.operator("ADD", (a, c), (y,), AddOptions(), version=2)
        else:
            b.operator("RELU", (a,), (y,), version=2)
        tensors.append(y)
        produced.append(y)
    for tensor in sorted({produced[-1], *rng.choice(produced, 2).tolist()}):
        b.output(int(tensor))
    return b.build()


@for_each("seed", range(40))
def test_random_model_is_partitioned_as_the_runtime_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_model(seed)
    graph = read_graph(model)
    rng = np.random.default_rng(seed)
    choices = [
        [n.index for n in graph.nodes if rng.random() < share]
        for share in (0.2, 0.5, 0.5, 0.8, 1.0)
    ]
    check_previews(graph, model, choices, monkeypatch)
