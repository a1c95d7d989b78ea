"""Give tensors that nodes compute from one another other shapes: all of them, or none.

A layer is said in the NPU's terms: channels last, or with a dimension that the model drops. From
one tensor the change goes on to all that its nodes read and write in the same way; nodes that do
so whatever the shape end it. Where an element of a tensor then has another place, or several,
nodes of the NPU alone may read it: all of these run there, or none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.graph import ABSENT, Graph, Node, Tensor, read_only
from delegate.ops import OPERATORS
from delegate.ops.operator import Shape


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Says what the tensors of a region become. ``shape``: the new one of a tensor; None: it cannot
    change. ``is_inner``: whether its elements then are no longer as the model has them.
    ``beside``: the tensors that change if one does that a node reads or writes; None: the node
    cannot do the same then. ``said``: a node as it is then; the tensors, which have their shapes,
    get its constants.
    """

    shape: Callable[[Tensor], Shape | None]
    is_inner: Callable[[Tensor], bool]
    beside: Callable[[Node, Tensor], Sequence[int] | None]
    said: Callable[[Node, list[Tensor]], Node]


def with_regions(graph: Graph, starts: Iterable[tuple[int, Change]]) -> Graph:
    """Return ``graph`` with every region changed that can be; ``starts``: a tensor of each."""
    near: Mapping[int, Sequence[Node]] = {}
    tensors = list(graph.tensors)
    changed: dict[int, Node] = {}
    done: set[int] = set()
    together = list(graph.together)
    for start, change in starts:
        near = near or _nodes_at(graph)
        region = {} if start in done else _region(graph, start, change, near)
        done.update(region)
        inner = {index for index in region if change.is_inner(graph.tensor(index))}
        for index, shape in region.items():
            given = graph.tensor(index)
            tensors[index] = replace(
                given,
                shape=shape,
                stored_shape=given.shape,
                shape_signature=(),
                is_inner=index in inner,
            )
        nodes = {node.index: node for index in region for node in near[index]}
        changed.update((node.index, change.said(node, tensors)) for node in nodes.values())
        if inner:
            together.append(frozenset(node.index for index in inner for node in near[index]))
    if not changed:
        return graph
    written = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=written, together=tuple(together))


def _nodes_at(graph: Graph) -> dict[int, list[Node]]:
    """Return the nodes that read or write each tensor, in order."""
    found: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for tensor in dict.fromkeys((*node.inputs, *node.outputs)):
            found.setdefault(tensor, []).append(node)
    return found


def _region(
    graph: Graph, start: int, change: Change, near: Mapping[int, Sequence[Node]]
) -> dict[int, Shape]:
    """Return the new shapes of all tensors that have to change if ``start`` does; none where one of
    them, or a node, cannot.
    """
    found: dict[int, Shape] = {}
    waiting = [start]
    while waiting:
        index = waiting.pop()
        if index in found:
            continue
        tensor = graph.tensor(index)
        shape = None if tensor.is_variable else change.shape(tensor)
        if shape is None or (change.is_inner(tensor) and _is_seen(graph, index, near)):
            return {}
        found[index] = shape
        for node in near[index]:
            is_whole = ABSENT not in (*node.inputs, *node.outputs)
            others = change.beside(node, tensor) if is_whole else None
            if others is None:
                return {}
            waiting += others
    return found


def _is_seen(graph: Graph, index: int, near: Mapping[int, Sequence[Node]]) -> bool:
    """Return whether a host has a tensor: no node makes it, or reads it, or it is an output."""
    is_made = any(index in node.outputs for node in near[index])
    is_read = any(index in node.inputs for node in near[index])
    return index in graph.outputs or not (is_made and is_read)


def computed_beside(graph: Graph, node: Node) -> list[int] | None:
    """Return the tensors that ``node`` reads and writes element by element, without constants;
    None: it does something else.
    """
    operator = OPERATORS.get(node.op)
    if operator is None or not operator.is_elementwise:
        return None
    if operator.feature_inputs(node) != node.inputs:
        return None
    return [t for t in (*node.inputs, *node.outputs) if graph.tensor(t).constant is None]


def with_constants(
    node: Node, tensors: list[Tensor], values_of: Callable[[Tensor], npt.NDArray[Any] | None]
) -> Node:
    """Return ``node`` with the constants that ``values_of`` gives, which ``tensors`` get; None: it
    reads the one that it has.
    """
    inputs = list(node.inputs)
    for at, index in enumerate(inputs):
        given = tensors[index]
        values = values_of(given)
        if values is None or values is given.constant:
            continue
        inputs[at] = len(tensors)
        made = read_only(np.ascontiguousarray(values))
        tensors.append(replace(given, index=inputs[at], shape=made.shape, constant=made))
    return replace(node, inputs=tuple(inputs), given_op=node.stored_op)
