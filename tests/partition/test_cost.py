"""Partitions by cost: never slower than what is left out or kept alone, by estimate."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.compile import compiler
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Graph, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.program import build_program
from delegate.options import Options
from delegate.partition.epochs import partition_graph
from delegate.partition.partitioner import PartitionCost, slower
from rk3588_conformance.builder import ModelBuilder, layers
from tests.partition.random_graphs import graphs_and_nodes


@settings(max_examples=300, deadline=None)
@given(
    graphs_and_nodes(),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=14, max_size=14),
    st.integers(0, 60),
)
def test_never_slower_than_the_cpu_alone_or_one_partition(case, times, fixed):
    """A partition costs ``fixed`` and its nodes' NPU times; a node left out its CPU time."""
    graph, supported = case

    def cost(partition):
        npu = fixed + sum(times[node][0] for node in partition.nodes)
        return PartitionCost(npu, sum(times[node][1] for node in partition.nodes))

    def total(partitions):
        delegated = {node for partition in partitions for node in partition.nodes}
        left = sum(times[node.index][1] for node in graph.nodes if node.index not in delegated)
        return left + sum(cost(partition).npu_us for partition in partitions)

    everything = partition_graph(graph, supported)
    kept = supported
    while True:
        partitions = partition_graph(graph, kept)
        rejected = {r.node for p in partitions for r in slower(graph, p, cost(p))}
        if not rejected:
            break
        kept = kept - rejected
    chosen = total(partitions)
    assert chosen <= total([])
    assert chosen <= total(everything)
    for alone in everything:
        assert chosen <= total([alone])


def with_tail(size: int) -> Graph:
    """A convolution, a node of the CPU, and a function of what that gives."""
    b = ModelBuilder()
    scaling = Quantization((0.05,), (-3,))
    x = b.input("x", (1, size, size, 16), DType.INT8, scaling)
    y = layers.conv(b, np.random.default_rng(0), x, 16, layers.Window(3, 3))
    for name in ("once", "twice"):
        spec = b.spec(y)
        z = b.tensor(name, spec.shape, spec.dtype, spec.quantization)
        b.operator("SOFTMAX" if name == "once" else "RELU", (y,), (z,))
        y = z
    b.output(y)
    return read_graph(b.build())


def delegated(graph: Graph, **options: str) -> set[int]:
    result = compile_model(graph, Options.from_mapping(options, {}))
    return {node for compiled in result.partitions for node in compiled.partition.delegated}


def test_a_partition_that_multiplies_nothing_is_kept_where_there_is_no_other():
    b = ModelBuilder()
    x = b.input("x", (1, 2, 2, 16), DType.INT8, Quantization((0.05,), (-3,)))
    for name, op in (("a", "RELU"), ("b", "SOFTMAX"), ("c", "RELU")):
        y = b.tensor(name, (1, 2, 2, 16), DType.INT8, Quantization((0.05,), (-3,)))
        b.operator(op, (x,), (y,))
        x = y
    b.output(x)
    assert delegated(read_graph(b.build())) == {0}


def test_a_tail_is_delegated_where_it_is_worth_a_crossing():
    assert delegated(with_tail(8)) == {0}
    assert delegated(with_tail(8), deny_ops="") == {0, 2}
    assert delegated(with_tail(200)) == {0, 2}


def test_a_tail_is_delegated_where_its_driver_makes_it_worth_it():
    """Eight additions of 25,600 elements: 221 us on the CPU. Kicks of rocket's take 400 alone, a
    chain of rknpu's 164 with its submit. Nobody knows the driver of a simulator.
    """
    b = ModelBuilder()
    scaling = Quantization((0.05,), (-3,))
    x = b.input("x", (1, 40, 40, 16), DType.INT8, scaling)
    y = layers.conv(b, np.random.default_rng(0), x, 16, layers.Window(3, 3))
    for number in range(9):
        spec = b.spec(y)
        z = b.tensor(f"z{number}", spec.shape, spec.dtype, spec.quantization)
        b.operator("ADD" if number else "SOFTMAX", (y, x) if number else (y,), (z,))
        y = z
    b.output(y)
    graph = read_graph(b.build())
    tail = set(range(2, 10))
    assert delegated(graph, device="rocket") == {0}
    assert delegated(graph, device="rknpu") == {0} | tail
    assert delegated(graph, device="simulator") == {0} | tail


def test_a_tail_that_costs_more_to_start_is_never_encoded(monkeypatch):
    built = []

    def build(lowered, *given):
        built.append(lowered.name)
        return build_program(lowered, *given)

    monkeypatch.setattr(compiler, "build_program", build)
    assert delegated(with_tail(8)) == {0}
    assert built == ["main nodes 0..0"]
    built.clear()
    assert delegated(with_tail(8), deny_ops="") == {0, 2}
    assert built == ["main nodes 0..0", "main nodes 2..2"]
