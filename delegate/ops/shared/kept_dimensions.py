"""Give sums over channels the dimension back that a model drops, as layer normalisation exported
from PyTorch does: MEAN to [N], functions of it, RESHAPE to [1, N, 1].

To the device [N] is one pixel of N channels; with the dimension it is what the sum gives, a value
for each pixel. Elements and their order are the same, so whoever reads one of these tensors sees no
difference, and a reshape behind them moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from delegate.model.graph import Graph, Node
from delegate.ops import OPERATORS
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dilations import with_constant
from delegate.ops.shared.reductions import ReducerOptions, sums_channels

SUMS: Final = frozenset({"MEAN", "SUM"})
"""The operators whose results may drop a dimension: graphs without them keep all."""
_COUNTING: Final = ("EXPAND_DIMS", "SQUEEZE")
_RESHAPES: Final = ("RESHAPE", *_COUNTING)


def with_kept_dimensions(graph: Graph) -> Graph:
    """Return ``graph`` whose sums over channels keep the dimension, as do functions of them, where
    these and reshapes alone read them.
    """
    sums = [node for node in graph.nodes if _kept(graph, node) is not None]
    if not sums:
        return graph
    readers: dict[int, list[Node]] = {}
    makers: dict[int, Node] = {}
    for node in graph.nodes:
        makers.update(dict.fromkeys(node.outputs, node))
        for tensor in node.inputs:
            readers.setdefault(tensor, []).append(node)
    shapes: dict[int, Shape] = {}
    changed: dict[int, Node] = {}
    for node in sums:
        if node.outputs[0] not in shapes:
            found = _alike(graph, node, makers, readers)
            shapes.update(found[0])
            changed.update(found[1])
    if not changed:
        return graph
    tensors = list(graph.tensors)
    for index, shape in shapes.items():
        given = tensors[index]
        tensors[index] = replace(given, shape=shape, stored_shape=given.shape, shape_signature=())
        for node in readers.get(index, ()):
            if node.op in _COUNTING:  # which would count the dimension
                wanted = np.array([-1, *graph.tensor(node.outputs[0]).shape[1:]])
                changed[node.index] = with_constant(node, "RESHAPE", wanted, tensors)
    nodes = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes)


def _alike(
    graph: Graph, first: Node, makers: Mapping[int, Node], readers: Mapping[int, Sequence[Node]]
) -> tuple[dict[int, Shape], dict[int, Node]]:
    """Return the tensors that have to have a dimension more if the result of the sum ``first`` has,
    with their shape, and the sums that make some of them; nothing where one of them cannot.
    """
    shape = graph.tensor(first.outputs[0]).shape
    pixels = graph.tensor(first.inputs[0]).shape[:-1]
    found: dict[int, Shape] = {}
    sums: dict[int, Node] = {}
    waiting = [first.outputs[0]]
    while waiting:
        tensor = waiting.pop()
        if tensor in found:
            continue
        found[tensor] = (*pixels, 1)
        near = [node for node in readers.get(tensor, ()) if node.op not in _RESHAPES]
        maker = makers.get(tensor)
        if maker is None:
            return {}, {}
        own = _kept(graph, maker)
        if own is None:
            near.append(maker)
        elif graph.tensor(own.inputs[0]).shape[:-1] == pixels:
            sums[own.index] = own
        else:
            return {}, {}
        for node in near:
            others = _functions_of(graph, node, shape)
            if others is None:
                return {}, {}
            waiting += others
    return found, sums


def _kept(graph: Graph, node: Node) -> Node | None:
    """Return ``node`` with the dimension; None: it is no sum of 8 bits over channels without it."""
    options = node.options_as(ReducerOptions) if node.op in SUMS else None
    if options is None or options.keep_dims or len(node.inputs) != 2:
        return None
    source, result = (graph.tensor(index) for index in (node.inputs[0], node.outputs[0]))
    found = replace(node, options=replace(options, keep_dims=True))
    is_one = source.dtype in FEATURE_TYPES and 0 < len(result.shape) < len(source.shape)
    return found if is_one and sums_channels(graph, found) else None


def _functions_of(graph: Graph, node: Node, shape: Shape) -> list[int] | None:
    """Return the tensors of ``shape`` that ``node`` reads and writes element by element; None: it
    does something else.
    """
    operator = OPERATORS.get(node.op)
    if operator is None or operator.function is None or operator.shapes is not None:
        return None
    if operator.feature_inputs(node) != node.inputs:
        return None
    found = []
    for index in (*node.inputs, *node.outputs):
        tensor = graph.tensor(index)
        if tensor.constant is None and tensor.shape == shape:
            found.append(index)
        elif tensor.constant is None or tensor.constant.size > 1:
            return None
    return found
