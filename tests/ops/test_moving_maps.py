"""Maps of operators that only move values, against TensorFlow Lite's reference kernels."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from delegate.host.delegated import expose_tensors
from delegate.host.runtimes import find_runtime
from delegate.model.graph import Graph
from delegate.model.tflite_reader import read_graph
from delegate.ops import OPERATORS
from delegate.ops.operator import GraphFacts
from delegate.partition.rules import check_node
from rk3588_conformance import edge_grid, move_grid, resize_grid
from rk3588_conformance.grid import grids_of
from tests.index_maps import moved
from tests.partition.rule_graphs import flipped, gathered, tiled, turned

CASES = 16
"""The number of cases of each family of models."""

GRIDS = (move_grid, resize_grid, edge_grid)
FAMILIES = {
    family.prefix: family
    for grid in GRIDS
    for family in grids_of(grid)
    if not family.prefix.startswith(("TransposeConv.", "ResizeBilinear", "Edges."))
}
MOVING = {name for name, operator in OPERATORS.items() if operator.maps is not None}


@pytest.mark.parametrize("prefix", FAMILIES)
def test_maps_are_what_the_kernels_do(prefix: str, tmp_path: Path) -> None:
    family = FAMILIES[prefix]
    rng = random.Random(prefix)
    parameters = list(family.parameters())
    nodes = 0
    for parameter in rng.sample(parameters, min(CASES, len(parameters))):
        case = family.case(parameter)
        if case.build is None or not case.runs_on_cpu:
            continue
        path = tmp_path / "model.tflite"
        path.write_bytes(case.build(case.generator()))
        graph = read_graph(path)
        inner = [t for node in graph.nodes for t in node.outputs]
        interpreter = find_runtime().interpreter(
            expose_tensors(path, inner), reference_kernels=True
        )
        for detail in interpreter.get_input_details():
            values = np.random.default_rng(nodes).integers(0, 128, detail["shape"])
            interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
        interpreter.invoke()
        known = {t: interpreter.get_tensor(t) for t in (*graph.inputs, *inner)}
        facts = GraphFacts(graph)
        for node in graph.nodes:
            if node.op not in MOVING or check_node(facts, node) is not None:
                continue
            if len({tensor.quantization for tensor in facts.features(node)}) > 1:
                continue  # parts that are requantised
            operator = OPERATORS[node.op]
            operands = {k: known[t] for k, t in enumerate(operator.feature_inputs(node))}
            for result, found in zip(node.outputs, operator.maps(graph, node), strict=True):
                assert found.is_whole
                expected = known[result].ravel()
                np.testing.assert_array_equal(moved(found, operands), expected, case.name)
            nodes += 1
    assert nodes > 0


def moved_constant(graph: Graph, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return what the only node of ``graph`` makes of ``values``, while a model is compiled."""
    (node,) = graph.nodes
    source = graph.tensor(node.inputs[0])
    tensors = [
        replace(t, constant=values, shape=values.shape) if t is source else t for t in graph.tensors
    ]
    folds = OPERATORS[node.op].folds
    assert folds is not None
    return folds(replace(graph, tensors=tuple(tensors)), node)


@pytest.mark.parametrize(
    ("shape", "axis", "places"),
    [((1, 3, 2, 32), 3, (5, 31, 0)), ((4, 1), 0, (3, 0, 1)), ((7,), 0, (6, 4, 2)), ((9,), 0, (8,))],
)
def test_places_of_constants_are_numpys(
    shape: tuple[int, ...], axis: int, places: tuple[int, ...]
) -> None:
    values = np.arange(math.prod(shape)).astype(np.int8).reshape(shape)
    found = moved_constant(gathered(places, axis % len(shape)), values)
    np.testing.assert_array_equal(found, values.take(places, axis))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_constants_are_reversed_as_in_numpy(axis: int) -> None:
    values = np.arange(192).astype(np.int8).reshape(1, 3, 2, 32)
    np.testing.assert_array_equal(moved_constant(flipped(axis), values), np.flip(values, axis))


@pytest.mark.parametrize("times", [(1, 1, 2, 1), (-1, -1, 1, 1), (1 << 30, 1, 1, 1), (0, 1, 1, 1)])
def test_constants_are_not_made_larger(times: tuple[int, ...]) -> None:
    """As files that somebody changed may ask for."""
    graph = tiled((1, 1, 1, 1))
    tensors = list(graph.tensors)
    factors = graph.nodes[0].inputs[1]
    tensors[factors] = replace(tensors[factors], constant=np.array(times, np.int32))
    values = np.zeros((1, 3, 2, 32), np.int8)
    assert moved_constant(replace(graph, tensors=tuple(tensors)), values) is None


@pytest.mark.parametrize("kind", [np.int8, np.float16, np.float32])
@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
def test_constants_move_as_in_numpy(axes: tuple[int, ...], kind: type[np.generic]) -> None:
    values = np.arange(192).astype(kind).reshape(1, 3, 2, 32)
    found = moved_constant(turned(axes), values)
    assert found is not None
    np.testing.assert_array_equal(found, values.transpose(axes))
    assert found.dtype == kind
    assert not found.flags.writeable
