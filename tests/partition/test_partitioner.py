"""Partitions are convex, complete, in order, and the ones that the runtime itself would make."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Graph, Node, Partition, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from delegate.partition.partitioner import node_macs, select_nodes
from delegate.partition.partitions import partition_graph
from rk3588_conformance.builder import (
    Net,
    conv_model,
    depthwise_model,
    fully_connected_model,
    layers,
)
from rk3588_conformance.builder.ranges import random_quantization
from tests.models.blocks import conv_conv_add_model
from tests.partition.random_graphs import graphs_and_nodes, tensor

QUIET = settings(max_examples=300, deadline=None)


def runtime_epochs(graph: Graph, supported: frozenset[int]) -> list[list[int]]:
    """The runtime's algorithm as it is described: passes over the whole plan, nothing clever."""
    computed = {t for node in graph.nodes for t in node.outputs}
    ready = {t.index for t in graph.tensors} - computed
    assigned: set[int] = set()
    epochs: list[list[int]] = []
    while True:
        kind: bool | None = None
        members: list[int] = []
        did_something = True
        while did_something:
            did_something = False
            for node in graph.nodes:
                if node.index in assigned or not ready.issuperset(node.inputs):
                    continue
                if kind is None:
                    kind = node.index in supported
                if kind == (node.index in supported):
                    assigned.add(node.index)
                    members.append(node.index)
                    ready.update(node.outputs)
                    did_something = True
        if not members:
            return epochs
        epochs.append(members)


def test_a_node_without_inputs_stays_on_the_cpu() -> None:
    graph = read_graph(conv_conv_add_model(np.random.default_rng(3), 5, 9, 16, 24, 3, 3))
    empty = replace(graph.nodes[-1], inputs=())
    damaged = replace(graph, nodes=(*graph.nodes[:-1], empty))
    result = compile_model(damaged, Options.from_mapping({"deny_ops": ""}, {}))
    rules = {one.node: one.rule for one in result.rejections}
    assert rules[empty.index] == "tensors_as_defined"


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same nodes in an arbitrary execution order, which a file may have too."""
    order = np.random.default_rng(seed).permutation(len(graph.nodes))
    nodes = tuple(graph.nodes[i] for i in order)
    return Graph(graph.tensors, nodes, graph.inputs, graph.outputs)


def ancestors(graph: Graph) -> dict[int, set[int]]:
    producer = {t: node.index for node in graph.nodes for t in node.outputs}
    found: dict[int, set[int]] = {}
    for node in graph.nodes:
        direct = {producer[t] for t in node.inputs if t in producer}
        found[node.index] = direct.union(*(found[d] for d in direct))
    return found


@QUIET
@given(graphs_and_nodes())
def test_partitions_are_the_runtimes_epochs(drawn: tuple[Graph, frozenset[int]]) -> None:
    graph, supported = drawn
    for variant in (graph, shuffled(graph, 1), shuffled(graph, 2)):
        expected = [e for e in runtime_epochs(variant, supported) if e[0] in supported]
        assert [list(p.nodes) for p in partition_graph(variant, supported)] == expected
    partitions = partition_graph(graph, supported)
    holds_every_node_once_and_no_path_back(graph, supported, partitions)
    has_what_crosses_the_border(graph, partitions)
    gives_what_nobody_reads(graph, partition_graph(Graph(graph.tensors, graph.nodes), supported))


def holds_every_node_once_and_no_path_back(
    graph: Graph, supported: frozenset[int], partitions: Sequence[Partition]
) -> None:
    members = [node for p in partitions for node in p.nodes]
    assert sorted(members) == sorted(supported)
    before = ancestors(graph)
    for partition in partitions:
        inside = set(partition.nodes)
        for node in inside:
            # A path that leaves and returns passes an outer node with an ancestor inside.
            outside = before[node] - inside
            assert not any(before[o] & inside for o in outside)


def has_what_crosses_the_border(graph: Graph, partitions: Sequence[Partition]) -> None:
    for partition in partitions:
        inside = [graph.node(n) for n in partition.nodes]
        outside = [n for n in graph.nodes if n.index not in partition.nodes]
        written = {t for n in inside for t in n.outputs}
        read = {t for n in inside for t in n.inputs}
        read_outside = {t for n in outside for t in n.inputs} | set(graph.outputs)
        assert partition.inputs == tuple(sorted(read - written))
        assert partition.outputs == tuple(sorted(written & read_outside))
        available = set(partition.inputs)  # nodes come in an order that can run
        for node in inside:
            assert available.issuperset(node.inputs)
            available.update(node.outputs)


def gives_what_nobody_reads(graph: Graph, partitions: Sequence[Partition]) -> None:
    """Also where no output is named."""
    read = {t for n in graph.nodes for t in n.inputs}
    for partition in partitions:
        written = {t for n in partition.nodes for t in graph.node(n).outputs}
        assert written - read <= set(partition.outputs)


def chain(ops: list[str]) -> Graph:
    nodes = tuple(Node(i, op, (i,), (i + 1,)) for i, op in enumerate(ops))
    count = len(ops) + 1
    return Graph(tuple(tensor(i) for i in range(count)), nodes, (0,), (count - 1,))


def test_unconnected_parts_of_one_epoch_stay_together() -> None:
    nodes = (Node(0, "ADD", (0, 0), (2,)), Node(1, "ADD", (1, 1), (3,)))
    graph = Graph(tuple(tensor(i) for i in range(4)), nodes, (0, 1), (2, 3))
    assert partition_graph(graph, {0, 1}) == [Partition((0, 1), (0, 1), (2, 3))]


def test_constants_and_variables_are_no_inputs() -> None:
    tensors = (
        tensor(0),
        tensor(1, constant=np.zeros((1, 2, 3, 4), np.int8)),
        tensor(2, is_variable=True),
        tensor(3),
    )
    graph = Graph(tensors, (Node(0, "ADD", (0, 1, 2, -1), (3,)),), (0,), (3,))
    assert partition_graph(graph, {0}) == [Partition((0,), (0,), (3,))]


def test_long_alternating_chain_is_fast() -> None:
    """A pass over the plan per epoch would take the square of the length: minutes, not a second."""
    graph = chain(["ADD", "NEG"] * 20_000)
    started = time.perf_counter()
    partitions = partition_graph(graph, set(range(0, 40_000, 2)))
    assert len(partitions) == 20_000
    assert time.perf_counter() - started < 10


def test_nodes_on_a_cycle_are_rejected() -> None:
    b = Net()
    quantization = random_quantization(np.random.default_rng(0), DType.INT8)
    x = b.input("x", (1, 2, 2, 4), DType.INT8, quantization)
    y, z = (b.tensor(name, (1, 2, 2, 4), DType.INT8, quantization) for name in "yz")
    b.operator("ADD", (x, z), (y,))
    b.operator("ADD", (y, x), (z,))
    graph = read_graph(b.build(z))
    supported, rejections = select_nodes(graph)
    assert not supported
    assert {r.rule for r in rejections} == {"nodes_in_order"}
    assert partition_graph(graph, {0, 1}) == []


def residual() -> Graph:
    return read_graph(conv_conv_add_model(np.random.default_rng(0), 7, 5, 3, 4, 3, 3))


@pytest.mark.parametrize(
    ("denied", "left"),
    [
        (("ADD",), {0, 1}),
        (("add",), {0, 1}),
        (("1",), {0, 2}),
        (("CONV_2D", "0"), {2}),
        (("CUSTOM", "NEG", "77"), {0, 1, 2}),
    ],
)
def test_denied_operators_and_nodes(denied: tuple[str, ...], left: set[int]) -> None:
    supported, rejections = select_nodes(residual(), denied)
    assert supported == left
    assert {r.rule for r in rejections} <= {"not_denied"}
    assert {r.node for r in rejections} == {0, 1, 2} - left


def test_denied_custom_operators() -> None:
    graph = chain(["CUSTOM:Some_Op", "CUSTOM:Other"])
    _, rejections = select_nodes(graph, ("CUSTOM:SOME_OP",))
    assert [r.rule for r in rejections] == ["not_denied", "operator_supported"]
    _, rejections = select_nodes(graph, ("CUSTOM",))
    assert [r.rule for r in rejections] == ["not_denied", "not_denied"]


def test_multiplications_of_each_operator() -> None:
    rng = np.random.default_rng(0)
    cases = [
        (conv_model(rng, 7, 5, 3, 4, 3, 2, padding=layers.Padding.VALID), 5 * 4 * 4 * 3 * 2 * 3),
        (depthwise_model(rng, 7, 5, 3, 3, 2), 7 * 5 * 3 * 3 * 2),
        (fully_connected_model(rng, (2, 3, 7), 5, inputs=21), 2 * 21 * 5),
    ]
    for model, macs in cases:
        graph = read_graph(model)
        assert node_macs(graph, graph.nodes[0]) == macs
    graph = residual()
    assert node_macs(graph, graph.nodes[2]) == 0


def test_an_empty_graph_has_no_partitions() -> None:
    result = compile_model(Graph((), ()), Options(numerics="exact"))
    assert result.partitions == result.rejections == ()


QUANTIZATION = Quantization((0.1,), (3,))
DOUBLINGS = 17
RESHAPES = 400
SECONDS = 5


def _delegated(model: bytes) -> int:
    started = time.process_time()
    result = compile_model(model, Options.from_mapping({"numerics": "exact", "deny_ops": ""}, {}))
    assert time.process_time() - started < SECONDS
    return sum(len(item.partition.delegated) for item in result.partitions)


def test_a_tensor_beside_itself_again_and_again() -> None:
    """Boxes double with every node: those of the last are never counted out."""
    builder = Net()
    x = builder.input("x", (1, 1, 1, 1), DType.INT8, QUANTIZATION)
    y = builder.add(x, x, output_scale=0.1, output_zero_point=3)
    for _ in range(DOUBLINGS):
        y = builder.concatenation((y, y), 3)
    assert _delegated(builder.build(y)) == DOUBLINGS + 1


def test_reshapes_behind_one_another_without_end() -> None:
    builder = Net()
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, QUANTIZATION)
    y = x
    for number in range(RESHAPES):
        y = builder.reshape(y, ((1, 4, 4, 16), (1, 2, 8, 16))[number % 2])
    y = builder.add(y, y, output_scale=0.1, output_zero_point=3)
    assert _delegated(builder.build(y)) == RESHAPES + 1
