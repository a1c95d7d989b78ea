"""Graphs of several operators whose outputs are off by more than one step: whose fault is it?

The contract speaks of operators: each within one step of what the reference kernels make of the
same inputs, and equal where it only moves data or looks it up. A sum of two convolutions may be two
steps off where both errors meet, a steep function doubles a step. So the reference kernels compute
every operator from what the delegate gave at its inputs, and the graph as a whole has to stay below
what single steps can become.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from delegate.compile.compiler import compile_model
from delegate.host.tally import Tally
from delegate.lower.lowered import Layer
from delegate.model.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.options import Options
from rk3588_conformance import reference
from rk3588_conformance.comparison import MAX_ABS_DIFF
from rk3588_conformance.cut_model import CutModel, cut_model
from rk3588_conformance.generated.run import Run
from rk3588_conformance.reference.arithmetic import LIMITS, Array

_LEVELS: Final = 256


def most_off(model: bytes, graph: Graph) -> int:
    """The largest difference of an output of ``graph``, which is that of ``model``, that operators
    within their tolerances can make.

    Sums, functions of one value and moves are followed: a convolution of an inexact tensor counts
    as one step. How steep functions are is taken from the reference kernels' results for all
    values.
    """
    tables = _tables(cut_model(model), graph)
    steps: dict[int, float] = {}
    for node in graph.nodes:
        own: float = tolerance(graph, node)
        if reference.carries_errors(node) and node.index not in tables:
            own += sum(_carried(graph, node, index, steps) for index in node.inputs)
        elif node.index in tables:
            reach = max(int(steps.get(index, 0)) for index in node.inputs)
            own += _steepest(tables[node.index], reach)
        elif _moves(node):
            own += max(_carried(graph, node, index, steps) for index in node.inputs)
        steps.update(dict.fromkeys(node.outputs, own))
    return max(int(steps[index]) for index in graph.outputs if index in steps)


def tolerance(graph: Graph, node: Node) -> int:
    """Return how many steps a node may be off, given its inputs: none where it moves, selects or
    looks up.
    """
    operator = OPERATORS.get(node.op)
    if reference.selects(node):
        return 0
    has_tasks = operator is not None and operator.has_tasks
    return MAX_ABS_DIFF if has_tasks and _single_value(graph, node) is None else 0


def inexact_tensors(graph: Graph) -> frozenset[int]:
    """Return the tensors that are written by nodes that may be off."""
    return frozenset(t for node in graph.nodes if tolerance(graph, node) for t in node.outputs)


def joined_layers(model: bytes, options: Options) -> list[Layer]:
    """Return the layers that compute several nodes in one task."""
    partitions = compile_model(model, options).partitions
    found = (layer for compiled in partitions for layer in compiled.layers)
    return [layer for layer in found if layer.difference is not None]


def hidden(graph: Graph, joined: Sequence[Layer]) -> frozenset[int]:
    """Return the tensors that ``joined`` layers do not write: those between their nodes."""
    inner = (node for layer in joined for node in layer.nodes[:-1])
    return frozenset(t for node in inner for t in graph.node(node).outputs)


def operators_off(
    model: bytes, graph: Graph, values: Mapping[int, Array], joined: Sequence[Layer] = ()
) -> list[str]:
    """A sentence for every operator of ``graph``, which is that of ``model``, that is off by more
    than it may be, given its inputs. ``values``: what the delegate gave, by tensor: the model's
    inputs and outputs and the inexact tensors. Exact nodes are judged with what follows them, those
    of a ``joined`` layer with its last one, by what the layer says of itself.
    """
    most = {one.nodes[-1]: one.difference.most_lsb for one in joined if one.difference is not None}
    cut = cut_model(model, at=inexact_tensors(graph) - hidden(graph, joined))
    found = _run(cut, {clone: values[tensor] for tensor, clone in cut.inputs})
    broken = []
    for (index, tensor), theirs in zip(cut.outputs, found, strict=True):
        node, tally = graph.node(index), Tally()
        tally.add(values[tensor], theirs)
        if tally.max_abs_diff > most.get(index, tolerance(graph, node)):
            worst = int(tally.max_abs_diff)
            broken.append(f"node {index} ({node.op}) is off by {worst}, given its inputs")
    return broken


def _run(cut: CutModel, inputs: Mapping[int, Array]) -> list[Array]:
    """Return what the reference kernels give, in the order of ``cut.outputs``."""
    found = Run(cut.content, is_delegated=False).run(inputs)
    return [found[tensor] for _, tensor in cut.outputs]


def _tables(cut: CutModel, graph: Graph) -> dict[int, Array]:
    """Return, by node, for functions of one value, the results of all values in order."""
    operands = {node.index: _single_value(graph, node) for node in graph.nodes}
    found = {index: operand for index, operand in operands.items() if operand is not None}
    if not found:
        return {}
    inputs: dict[int, Array] = {}
    for index, (tensor, clone) in zip(cut.readers, cut.inputs, strict=True):
        given = graph.tensor(tensor)
        kind = given.dtype.name.lower()
        if index in found:
            low, high = LIMITS[given.dtype]
            inputs[clone] = np.arange(low, high + 1).astype(kind).reshape(1, 1, 1, _LEVELS)
        else:
            inputs[clone] = np.zeros(given.shape, kind)
    results = _run(cut, inputs)
    return {
        index: values.reshape(-1).astype(np.int64)
        for (index, _), values in zip(cut.outputs, results, strict=True)
        if index in found
    }


def _single_value(graph: Graph, node: Node) -> int | None:
    """The tensor that results follow from one value of each, both of eight bits; None: no such."""
    operator = OPERATORS.get(node.op)
    if operator is None or operator.of(graph, node).function is None:
        return None
    read = operator.feature_inputs(node)
    changing = {index for index in read if graph.tensor(index).constant is None}
    constants = [graph.tensor(index).constant for index in read if index not in changing]
    is_one = all(constant is not None and constant.size == 1 for constant in constants)
    tensors = [graph.tensor(index) for index in (*changing, *node.outputs)]
    if len(changing) != 1 or not is_one or any(t.dtype not in LIMITS for t in tensors):
        return None
    return changing.pop()


def _moves(node: Node) -> bool:
    """Return whether the result of ``node`` has values of its operands, in other places."""
    operator = OPERATORS.get(node.op)
    is_alias = operator is not None and operator.movement is not None
    return is_alias or reference.selects(node)


def _carried(graph: Graph, node: Node, index: int, steps: Mapping[int, float]) -> float:
    """Return how far an operand may be off, in steps of the result."""
    if not steps.get(index):
        return 0.0
    operand, output = graph.tensor(index).quantization, graph.tensor(node.outputs[0]).quantization
    assert operand is not None
    assert output is not None
    return steps[index] * operand.scale / output.scale


def _steepest(table: Array, reach: int) -> int:
    """The largest difference of the results of two values that are ``reach`` apart or less."""
    pairs: Sequence[Array] = [np.abs(table[d:] - table[:-d]) for d in range(1, reach + 1)]
    return max((int(differences.max()) for differences in pairs), default=0)
