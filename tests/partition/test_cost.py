"""Partitions by cost: never slower than the CPU alone, by the estimate that ``compile`` shows."""

from collections.abc import Collection
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.compile import compiler
from delegate.compile.compiler import CompileResult, compile_model
from delegate.compile.weighing import LEAST_GAIN, MUCH_FASTER, Group, nodes_together, worth_crossing
from delegate.errors import SLOWER
from delegate.host.chosen import drivers_of
from delegate.insight.compile_report.document import compile_document
from delegate.lower.lowered import Layer
from delegate.model.graph import DType, Graph, Partition, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.npu.program import build_program
from delegate.options import Options
from delegate.partition.partitioner import PartitionCost
from rk3588_conformance.builder import Net, layers
from tests.loops import for_each
from tests.shared_folder import MODELS, needs_models

pytestmark = pytest.mark.usefixtures("weighs")


def with_tail(size: int) -> Graph:
    """A convolution, a node of the CPU, and a function of what that gives."""
    b = Net()
    scaling = Quantization((0.05,), (-3,))
    x = b.input("x", (1, size, size, 16), DType.INT8, scaling)
    y = b.conv(x, 16, layers.Window(3, 3))
    for name in ("once", "twice"):
        spec = b.spec(y)
        z = b.tensor(name, spec.shape, spec.dtype, spec.quantization)
        b.operator("SOFTMAX" if name == "once" else "RELU", (y,), (z,))
        y = z
    return read_graph(b.build(y))


def compiled(model: object, **options: str) -> CompileResult:
    return compile_model(model, Options.from_mapping(options, {}))


def delegated(graph: Graph, **options: str) -> set[int]:
    partitions = compiled(graph, **options).partitions
    return {node for one in partitions for node in one.partition.delegated}


@needs_models
@for_each("chip, device", [("rk3588", "rocket"), ("rk3576", "rknpu"), ("rk3588", "simulator")])
def test_no_model_is_slower_than_the_cpu(chip: str, device: str) -> None:
    """Also by the estimate of ``compile``, whose sum has other parts and another order."""
    for name in ("graphs/pt_vit_small96.int8", "graphs/unet_128.int8", "resnet8_cifar10_int8"):
        result = compiled(MODELS / f"{name}.tflite", chip=chip, device=device)
        drivers = drivers_of(device, result.chip)
        each = [compile_document(result, drivers=[one])["inference"] for one in drivers]
        found = min(each, key=lambda inference: inference["total_us"])
        assert found["total_us"] <= found["cpu_alone_us"] * (1 + 1e-9), name


@needs_models
def test_what_stays_and_what_goes_is_what_the_estimate_says() -> None:
    """Whoever asks for all gets all, and waits longer."""
    model = MODELS / "graphs" / "swin_block.int8.tflite"
    some, every = compiled(model), compiled(model, deny_ops="NONE")
    kept, total = (compile_document(one)["inference"]["total_us"] for one in (some, every))
    assert kept < total
    assert some.slower
    assert not any(cost.is_faster for cost in some.slower)
    assert 0 < some.delegated_nodes < every.delegated_nodes
    assert not every.slower


def group(node: int, npu: int, cpu: int) -> Group:
    return Group((node,), PartitionCost(npu, cpu), 5, 3)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=9))
def test_no_other_stretches_gain_more(times: list[tuple[int, int]]) -> None:
    groups = [group(node, *one) for node, one in enumerate(times)]

    def gain(kept: Collection[int]) -> int:
        starts = sum(node - 1 not in kept for node in kept)
        return sum(times[node][1] - times[node][0] for node in kept) - 8 * starts

    every = (set(some) for count in range(10) for some in combinations(range(len(times)), count))
    most = max(map(gain, every))
    is_enough = most >= LEAST_GAIN * sum(cpu for _, cpu in times)
    gained, kept = worth_crossing(groups)
    assert gain(kept) == gained == (most if is_enough else 0)


def test_nodes_of_one_layer_stay_together() -> None:
    layers = [Layer("", "", nodes, ()) for nodes in ((1, 3), (3, 5), (6,))]
    partition = Partition((1, 2, 3, 5, 6), (), ())
    found = [(nodes, len(own)) for nodes, own in nodes_together(partition, layers)]
    assert found == [((1, 3, 5), 2), ((2,), 0), ((6,), 1)]


@needs_models
def test_what_is_worth_it_stays_of_a_partition_that_is_not() -> None:
    """Super-resolution, whose last layer takes 18 ms instead of 2 behind rocket."""
    result = compiled(MODELS / "graphs" / "fsrcnn_x2.int8.tflite", device="rocket")
    assert result.delegated_nodes == 14
    assert [one.op for one in result.rejections if one.rule == SLOWER] == ["TRANSPOSE_CONV"]


@needs_models
def test_a_faster_partition_leaves_what_takes_much_of_its_time_for_nothing() -> None:
    """Instance normalisation: tasks behind rocket take longer to start than the CPU computes."""
    model = MODELS / "graphs" / "style_transfer_in.int8.tflite"
    some = compiled(model, device="rocket")
    every = compiled(model, device="rocket", deny_ops="NONE")
    drivers = drivers_of("rocket", some.chip)
    kept, whole = (compile_document(one, drivers=drivers)["inference"] for one in (some, every))
    assert whole["total_us"] < whole["cpu_alone_us"]
    assert kept["total_us"] < whole["total_us"] * (1 - MUCH_FASTER)
    assert {one.op for one in some.rejections if one.rule == SLOWER} >= {"MEAN", "SUB"}
    (partition,) = compiled(model, device="rknpu").partitions
    assert len(partition.partition.delegated) == every.delegated_nodes == 109


def test_a_partition_is_delegated_where_it_is_worth_a_crossing():
    assert delegated(with_tail(8)) == set()
    assert delegated(with_tail(100)) == {0}
    assert delegated(with_tail(8), deny_ops="NONE") == {0, 2}
    assert delegated(with_tail(8), strict="true") == {0, 2}
    assert delegated(with_tail(100), device="rknpu") == {0}
    assert delegated(with_tail(300), device="rknpu") == {0, 2}


def test_a_tail_is_delegated_where_its_driver_makes_it_worth_it():
    """Eight additions of 57,600 elements: 476 us on the CPU. Kicks of rocket's take 460 alone, a
    chain of rknpu's 197 with its submit. Nobody knows the driver of a simulator: the better one.
    """
    b = Net()
    scaling = Quantization((0.05,), (-3,))
    x = b.input("x", (1, 60, 60, 16), DType.INT8, scaling)
    y = b.conv(x, 16, layers.Window(3, 3))
    for number in range(9):
        spec = b.spec(y)
        z = b.tensor(f"z{number}", spec.shape, spec.dtype, spec.quantization)
        b.operator("ADD" if number else "SOFTMAX", (y, x) if number else (y,), (z,))
        y = z
    graph = read_graph(b.build(y))
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
    assert delegated(with_tail(100)) == {0}
    assert built == ["main nodes 0..0"]
    built.clear()
    assert delegated(with_tail(100), deny_ops="NONE") == {0, 2}
    assert built == ["main nodes 0..0", "main nodes 2..2"]
