"""The check of memory refuses what would destroy or miss a tensor, and compilation goes on."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from delegate.chip.limits import CHANNELS_PER_SURFACE
from delegate.compile import compiler
from delegate.compile.compiler import compile_model
from delegate.errors import EncodingError, LoweringError, ProgramError, Rule
from delegate.lower import lowering
from delegate.lower.memory import placement
from delegate.lower.memory.check import check_memory
from delegate.lower.memory.footprint import accesses
from delegate.lower.rules import TASKS_KEEP_MEMORY
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from tests.lower.reference import lower_model, whole_graph
from tests.memory_graphs import graph_count, memory_graph

GRAPHS = graph_count(40)


def checked(monkeypatch, number):
    """The arguments of the check for the whole graph of this number; None if it is not lowered."""
    seen = []
    monkeypatch.setattr(lowering, "check_memory", lambda *given: seen.append(given))
    try:
        lower_model(memory_graph(number))
    except LoweringError:
        return None
    return seen[0]


def moved(task, surfaces):
    output = task.output
    target = output.target.moved(surfaces * output.surface_stride_bytes)
    return dataclasses.replace(task, output=dataclasses.replace(output, target=target))


def spare_lanes_take_in(task, tensor):
    """Whether a task that is a surface early still writes atoms of its own tensor only, and all
    that count: those it leaves are the spare surface of the tensor's last channels.
    """
    is_inside = task.output.target.offset >= tensor.location.offset
    return is_inside and -(-tensor.view.channels // CHANNELS_PER_SURFACE) < tensor.surfaces


def first_surface_is_spare(tasks, place):
    """Whether another copy of the layer writes the first surface of this one, too: copies side by
    side overwrite what the one before wrote beyond its channels, and an element-wise task does not
    tell those lanes from channels.
    """
    output = tasks[place].output
    first = output.target.offset
    return any(
        access.is_write and any(begin <= first < end for begin, end in access.spans())
        for number, task in enumerate(tasks)
        if number != place and task.output.target.buffer is output.target.buffer
        for access in accesses(task)
    )


@pytest.mark.parametrize("change", [-1, 1])
def test_results_in_another_place_are_refused(monkeypatch, change):
    """One task of any layer writes a surface before or behind its place."""
    tried = 0
    for number in range(GRAPHS):
        given = checked(monkeypatch, number)
        if given is None:
            continue
        partition, footprints, layers, *rest = given
        check_memory(partition, footprints, layers, *rest)
        rng = np.random.default_rng(number)
        which = int(rng.integers(len(layers)))
        tasks = list(layers[which].tasks)
        place = int(rng.integers(len(tasks)))
        if tasks[place].output.element_bytes > 1:
            continue
        if change > 0 and first_surface_is_spare(tasks, place):
            continue
        tasks[place] = moved(tasks[place], change)
        if change < 0 and spare_lanes_take_in(
            tasks[place], rest[0].tensors[footprints[which].result]
        ):
            continue
        wrong = (
            *layers[:which],
            dataclasses.replace(layers[which], tasks=tuple(tasks)),
            *layers[which + 1 :],
        )
        with pytest.raises(LoweringError, match=TASKS_KEEP_MEMORY.name):
            check_memory(partition, footprints, wrong, *rest)
        tried += 1
    assert tried > GRAPHS // (2 if change > 0 else 5)


def test_a_task_left_out_is_refused(monkeypatch):
    tried = 0
    for number in range(GRAPHS):
        given = checked(monkeypatch, number)
        if given is None:
            continue
        partition, footprints, layers, *rest = given
        rng = np.random.default_rng(number)
        which = int(rng.integers(len(layers)))
        tasks = list(layers[which].tasks)
        del tasks[int(rng.integers(len(tasks)))]
        wrong = (
            *layers[:which],
            dataclasses.replace(layers[which], tasks=tuple(tasks)),
            *layers[which + 1 :],
        )
        with pytest.raises(LoweringError, match=TASKS_KEEP_MEMORY.name):
            check_memory(partition, footprints, wrong, *rest)
        tried += 1
    assert tried > GRAPHS // 2


def test_tensors_on_top_of_each_other_are_refused(monkeypatch):
    """Placement that forgets live ranges costs nodes, not results."""
    crowded = []

    def on_top(spans):
        crowded.extend(
            number
            for a, b in itertools.combinations(spans, 2)
            if a.first <= b.last and b.first <= a.last
        )
        return (0,) * len(spans), 1 << 24

    monkeypatch.setattr(placement, "place_spans", on_top)
    refused = set()
    for number in range(2 * GRAPHS):
        result = compile_model(read_graph(memory_graph(number)), Options())
        if any(rejection.rule == TASKS_KEEP_MEMORY.name for rejection in result.rejections):
            refused.add(number)
    assert refused == set(crowded) != set()


def one_surface_less(graph, footprints, *rest):
    return original_order(
        graph, [dataclasses.replace(f, writes=max(f.writes - 1, 1)) for f in footprints], *rest
    )


original_order = lowering.in_write_order
original_uses = lowering.tensor_uses


def test_a_footprint_that_forgets_spare_lanes_is_refused(monkeypatch):
    """What the tasks write counts, not what anybody expected them to write."""

    def uses(graph, partition, footprints, *rest):
        short = [dataclasses.replace(f, writes=max(f.writes - 1, 1)) for f in footprints]
        return original_uses(graph, partition, short, *rest)

    monkeypatch.setattr(lowering, "tensor_uses", uses)
    monkeypatch.setattr(lowering, "in_write_order", one_surface_less)
    rules = set()
    for number in range(GRAPHS):
        result = compile_model(read_graph(memory_graph(number)), Options())
        rules.update(rejection.rule for rejection in result.rejections)
    assert TASKS_KEEP_MEMORY.name in rules


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
@pytest.mark.parametrize("stage", ["lower_partition", "build_program", "serialize"])
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
    result = compile_model(graph, Options())
    rejected = {rejection.node: rejection.rule for rejection in result.rejections}
    assert rejected
    delegated = {node for item in result.partitions for node in item.partition.nodes}
    assert delegated | set(rejected) == {node.index for node in graph.nodes}
    names_a_node = getattr(error, "node", -1) == 1 or getattr(error, "nodes", ()) == (1,)
    if names_a_node:
        assert 1 in rejected
        assert delegated
