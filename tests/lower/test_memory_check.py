"""The check of memory refuses what would destroy or miss a tensor, and compilation goes on."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.compile import compiler
from delegate.compile.compiler import compile_model
from delegate.errors import EncodingError, LoweringError, ProgramError, Rule
from delegate.lower import group_padding, lowering
from delegate.lower.memory import placement
from delegate.lower.memory.check import check_memory
from delegate.lower.memory.placement import live_bytes, place_spans
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import Net, layers
from rk3588_conformance.generated.random_graphs import random_graph
from tests.lower.reference import whole_graph
from tests.lower.test_memory_graphs import programs_equal_operators_alone
from tests.memory_graphs import graph_count, memory_graph
from tests.ops.function_oracle import kernel_results, simulated, values

GRAPHS = graph_count(16)


def lowered(monkeypatch, content):
    """Yield what the check is given, partition by partition."""
    seen = []
    original = lowering.check_memory
    with monkeypatch.context() as patch:
        patch.setattr(
            lowering, "check_memory", lambda *given: (original(*given), seen.append(given))
        )
        compile_model(read_graph(content), Options(numerics="exact"))
    return seen


GENERATORS = {"crowded": memory_graph, "mixed": lambda seed: random_graph(seed).content}
"""Graphs that crowd memory; and of all operators, with copies through a layer's own memory."""

REPEATS = {"RESIZE_NEAREST_NEIGHBOR"}
"""By factors that CNA does not take, pixels are repeated in memory in steps that write the same
bytes more than once: that one of them is missing is not seen by where it writes."""


def changed_layers(monkeypatch, generator, change, numbers=range(GRAPHS)):
    """The layers with one task changed that the check takes, and of how many: all tasks in turn.
    ``numbers``: of graphs. ``change`` gives the tasks that take the place of one of a layer that
    writes a tensor; None: the task stays.
    """
    taken, tried = [], 0
    for number in numbers:
        for partition, footprints, steps, *rest in lowered(
            monkeypatch, GENERATORS[generator](number)
        ):
            for which, layer in enumerate(steps):
                if layer.op in REPEATS:
                    continue
                result = rest[0].tensors[footprints[which].result]
                for place, task in enumerate(layer.tasks):
                    instead = change(task, result)
                    if instead is None:
                        continue
                    tasks = (*layer.tasks[:place], *instead, *layer.tasks[place + 1 :])
                    wrong = list(steps)
                    wrong[which] = dataclasses.replace(layer, tasks=tasks)
                    tried += 1
                    try:
                        check_memory(partition, footprints, wrong, *rest)
                    except LoweringError as error:
                        assert error.rule == TASKS_KEEP_MEMORY.name
                        continue
                    taken.append((number, layer.name, task.tile))
    return taken, tried


def moved(surfaces):
    def change(task, _):
        output = task.output
        target = output.target.moved(surfaces * output.surface_stride_bytes)
        return [dataclasses.replace(task, output=dataclasses.replace(output, target=target))]

    return change


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("surfaces", [-1, 1])
def test_results_in_another_place_are_refused(monkeypatch, generator, surfaces):
    """One task of any layer writes a surface before or behind its place."""
    taken, tried = changed_layers(monkeypatch, generator, moved(surfaces))
    assert not taken
    assert tried > 5 * GRAPHS


OWN_MEMORY = [("crowded", 545), ("mixed", 217), ("mixed", 945), ("mixed", 970)]
"""Graphs with layers whose own memory holds more than what the next step is to read: spare lanes of
int32 sums (80 channels leave four atoms of a group of 96), which another pixel's sums would fill,
and maxima of the step before the last.
"""


@pytest.mark.parametrize("surfaces", [-1, 1])
def test_steps_that_read_what_an_earlier_one_left_are_refused(monkeypatch, surfaces):
    for generator, number in OWN_MEMORY:
        taken, tried = changed_layers(monkeypatch, generator, moved(surfaces), [number])
        assert not taken
        assert tried > 5


@pytest.mark.parametrize("number", [1495, 1926])
def test_sums_of_kernels_that_make_whole_blocks_are_right(monkeypatch, number):
    """Per channel: 96 channels are sorted as 128 kernels, 32 as 64."""
    assert not changed_layers(monkeypatch, "crowded", moved(1), [number])[0]
    result = compile_model(read_graph(memory_graph(number)), Options(numerics="exact"))
    assert TASKS_KEEP_MEMORY.name not in {rejection.rule for rejection in result.rejections}


def left_out(task, result):
    """Tasks that write channels of the result: no spare lanes, no maps of the layer's own."""
    first = task.output.target
    is_of_result = (
        first.buffer is result.location.buffer
        and 0 <= first.offset - result.location.offset
        < result.view.images * result.image_stride_bytes
    )  # fmt: skip
    return [] if is_of_result and task.output.channels_real else None


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_task_left_out_is_refused(monkeypatch, generator):
    taken, tried = changed_layers(monkeypatch, generator, left_out)
    assert not taken
    assert tried > 5 * GRAPHS


def test_tensors_on_top_of_each_other_are_refused(monkeypatch):
    """Placement that forgets live ranges costs nodes, not results. What is not refused does no
    harm: of graph 721's second tensor a slice is still read, which the other one leaves alone.
    """
    crowded = set()

    def on_top(spans):
        if any(a[0] <= b[1] and b[0] <= a[1] for a, b in itertools.combinations(spans, 2)):
            crowded.add(number)
        return (0,) * len(spans), 1 << 24

    refused = set()
    for number in (*range(2 * GRAPHS), 721):
        graph = read_graph(memory_graph(number))
        with monkeypatch.context() as patch:
            patch.setattr(placement, "place_spans", on_top)
            result = compile_model(graph, Options(numerics="exact"))
        if any(rejection.rule == TASKS_KEEP_MEMORY.name for rejection in result.rejections):
            refused.add(number)
        elif number in crowded:
            programs_equal_operators_alone(graph, result, number)
    assert refused <= crowded
    assert len(refused) >= 0.9 * len(crowded - {721}) > 1


original_uses = lowering.tensor_uses


def test_a_footprint_that_forgets_group_padding_is_refused(monkeypatch):
    """The tasks' own writes count, not what anybody expected them to write."""

    def uses(graph, partition, footprints, *rest):
        short = [dataclasses.replace(f, writes=max(f.writes - 1, 1)) for f in footprints]
        return original_uses(graph, partition, short, *rest)

    monkeypatch.setattr(lowering, "tensor_uses", uses)
    assert TASKS_KEEP_MEMORY.name in rules_of(range(GRAPHS))


def rules_of(numbers):
    """The rules of all rejections."""
    results = (
        compile_model(read_graph(memory_graph(number)), Options(numerics="exact"))
        for number in numbers
    )
    return {rejection.rule for result in results for rejection in result.rejections}


def test_group_padding_that_nobody_cares_for_is_refused(monkeypatch):
    """Padding over a neighbour that is there already."""
    assert TASKS_KEEP_MEMORY.name not in rules_of(range(2 * GRAPHS))
    monkeypatch.setattr(group_padding, "via_scratch", lambda planning, plan: plan)
    assert TASKS_KEEP_MEMORY.name in rules_of(range(2 * GRAPHS))


def beside_its_operand(channels):
    """conv -> depthwise, both joined: the depthwise result lies behind its operand."""
    builder = Net("neighbours", np.random.default_rng(1))
    same = layers.Arithmetic(output_scale=0.05, output_zero_point=3)
    x = builder.input("x", (1, 6, 4, 33), DType.INT8, Quantization((0.05,), (3,)))
    made = builder.conv(x, channels, layers.Window(1, 1), same)
    read = builder.depthwise(made, layers.Window(1, 3), same)
    return builder.build(builder.concatenation([made, read], 3))


@pytest.mark.parametrize(("channels", "is_fetched"), [(32, False), (48, True), (112, True)])
def test_a_result_is_not_where_its_task_fetches_padding(monkeypatch, channels, is_fetched):
    """Depthwise tasks of 48 channels fetch 64: the last 16 are the neighbour's."""
    model = beside_its_operand(channels)
    inputs = [values(np.random.default_rng(2), (1, 6, 4, 33), DType.INT8)]
    np.testing.assert_array_equal(simulated(model, *inputs), kernel_results(model, *inputs))
    options = Options(numerics="exact", deny_ops=())
    assert not compile_model(read_graph(model), options).rejections
    monkeypatch.setattr(group_padding, "_fetches_its_result", lambda *_: False)
    rules = {one.rule for one in compile_model(read_graph(model), options).rejections}
    assert (TASKS_KEEP_MEMORY.name in rules) == is_fetched


ERRORS = [
    LoweringError(1, Rule("some_rule", "It must do"), "no"),
    LoweringError(-7, Rule("some_rule", "It must do"), "no"),
    EncodingError("no", (1,)),
    EncodingError("no"),
    ProgramError("no"),
    AssertionError("no"),
    IndexError("no"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("stage", ["lower_partition", "build_program", "serialized"])
def test_no_error_of_the_compiler_fails_the_model(monkeypatch, stage, error):
    graph = read_graph(memory_graph(4))
    assert len(whole_graph(graph).nodes) > 2
    original = getattr(compiler, stage)
    calls = []

    def fails_once(*given, **more):
        calls.append(stage)
        if len(calls) == 1:
            raise error
        return original(*given, **more)

    monkeypatch.setattr(compiler, stage, fails_once)
    result = compile_model(graph, Options(numerics="exact"))
    rejected = {rejection.node: rejection.rule for rejection in result.rejections}
    assert rejected
    delegated = {node for item in result.partitions for node in item.partition.delegated}
    assert delegated | set(rejected) == {node.index for node in graph.nodes}
    names_a_node = getattr(error, "node", -1) == 1 or getattr(error, "nodes", ()) == (1,)
    if names_a_node:
        assert 1 in rejected
        assert delegated


@st.composite
def spans(draw):
    first = draw(st.integers(0, 30))
    return first, first + draw(st.integers(0, 12)), 64 * draw(st.integers(1, 40))


@settings(max_examples=300, deadline=None)
@given(st.lists(spans(), max_size=30))
def test_spans_that_meet_in_time_do_not_overlap(found):
    offsets, peak = place_spans(found)
    for i, (first, last, size) in enumerate(found):
        assert offsets[i] >= 0
        assert offsets[i] + size <= peak
        for j, (other_first, other_last, other_size) in enumerate(found[:i]):
            if first <= other_last and other_first <= last:
                apart = offsets[i] + size <= offsets[j]
                assert apart or offsets[j] + other_size <= offsets[i]
    assert live_bytes(found) <= peak <= sum(size for _, _, size in found)
