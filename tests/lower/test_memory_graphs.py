"""Random graphs that crowd memory: whole programs against their operators one by one.

An operator alone has all memory to itself. So a difference, even of a single bit, is a tensor that
another task destroyed, a tensor in the wrong place, or one that was read before it was written.
"""

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model, compile_partition
from delegate.model.graph import Partition
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.options import Options
from tests.index_maps import moved
from tests.lower.reference import random_inputs
from tests.memory_graphs import graph_count, memory_graph

CHUNK = 25
GRAPHS = graph_count(50)


def computed_alone(graph, node, values):
    """The node's result, by a program of its own, or by copying."""
    operator = OPERATORS[node.op]
    if operator.movement is not None:
        operands = {k: values[t] for k, t in enumerate(operator.feature_inputs(node))}
        for result, found in zip(node.outputs, operator.maps(graph, node), strict=True):
            tensor = graph.tensor(result)
            made = moved(found, operands).astype(tensor.dtype.name.lower())
            values[result] = made.reshape(tensor.shape)
        return
    inputs = tuple(dict.fromkeys(t for t in node.inputs if t in values))
    alone = compile_partition(graph, Partition((node.index,), inputs, node.outputs))
    executable = Executable(alone.program, "simulator")
    (values[node.outputs[0]],) = executable.run([values[b[0]] for b in executable.inputs])


def check(number: int) -> int:
    """Returns how many nodes were delegated."""
    graph = read_graph(memory_graph(number))
    result = compile_model(graph, Options.from_mapping({"numerics": "exact", "deny_ops": ""}, {}))
    for rejection in result.rejections:  # only for reasons that these graphs are known to have
        assert rejection.rule in EXPECTED, rejection
    programs_equal_operators_alone(graph, result, number)
    return result.delegated_nodes


def programs_equal_operators_alone(graph, result, number):
    (index,) = graph.inputs
    (given,) = random_inputs(graph, graph.inputs, np.random.default_rng(number))
    values = {index: given}
    for node in graph.nodes:
        computed_alone(graph, node, values)
    for compiled in result.partitions:
        executable = Executable(compiled.program, "simulator")
        arrays = [values[b[0]] for b in executable.inputs]
        for _ in range(2):  # what a run leaves behind must not matter
            outputs = executable.run(arrays)
            for binding, output in zip(executable.outputs, outputs, strict=True):
                np.testing.assert_array_equal(output, values[binding[0]])


EXPECTED = {"alias_is_free"}


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_programs_give_what_their_operators_give_alone(first):
    delegated = 0
    for number in range(first, min(first + CHUNK, GRAPHS)):
        delegated += check(number)
    assert delegated > 0
