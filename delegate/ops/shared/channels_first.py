"""Say what exports of PyTorch compute channels first as channels last: a TRANSPOSE to [N, C, H, W],
functions, means over H and W, and perhaps a TRANSPOSE back.

To the device the channels are rows then, and a mean over pixels is none of its. The nodes between
the transpositions compute the same of channels last, and the transpositions move nothing. Their
tensors have another order than the model's: nodes of the NPU alone may read them, so that all of
them run there or none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from delegate.model.graph import ABSENT, Graph, Node, Tensor, read_only
from delegate.model.index_map import MapError
from delegate.ops import OPERATORS
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dilations import nodes_at, with_constant
from delegate.ops.shared.kept_dimensions import SUMS
from delegate.ops.shared.reductions import ReducerOptions, reduced_axes
from delegate.ops.transpose import axes_of

_LAST: Final = (0, 2, 3, 1)
"""The dimension of [N, C, H, W] that each of [N, H, W, C] is."""
_FIRST: Final = (0, 3, 1, 2)
"""The other way round."""
_CHANNELS, _PIXELS = {1}, {2, 3}
_REDUCERS: Final = SUMS | {"REDUCE_MAX"}
_RESHAPE: Final = "RESHAPE"
TRANSPOSE: Final = "TRANSPOSE"
"""The operator that enters and leaves: graphs without it stay as they are."""


@dataclass(frozen=True, slots=True)
class _Region:
    """``tensors``: those that get channels last; ``nodes``: all that read or write one."""

    tensors: frozenset[int]
    nodes: tuple[Node, ...]


def with_channels_last(graph: Graph) -> Graph:
    """Return ``graph`` with channels last where transpositions, functions, and reductions of pixels
    or channels alone make and read what is channels first.
    """
    first = [n for n in graph.nodes if n.op == TRANSPOSE and _axes(graph, n) == _FIRST]
    if not first:
        return graph
    near = nodes_at(graph)
    tensors = list(graph.tensors)
    changed: dict[int, Node] = {}
    together = list(graph.together)
    for node in first:
        region = None if node.index in changed else _region(graph, node.outputs[0], near)
        if region is None:
            continue
        for index in region.tensors:
            given = graph.tensor(index)
            shape = tuple(given.shape[axis] for axis in _LAST)
            tensors[index] = replace(
                given,
                shape=shape,
                stored_shape=given.shape,
                shape_signature=(),
                is_inner=not _is_alike(given.shape),
            )
        changed.update((one.index, _said(graph, one, region, tensors)) for one in region.nodes)
        moved = {t for t in region.tensors if tensors[t].is_inner}
        ends = ((one.index, {*one.inputs, *one.outputs}) for one in region.nodes)
        together.append(frozenset(index for index, ends in ends if not moved.isdisjoint(ends)))
    if not changed:
        return graph
    nodes = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, together=tuple(together))


def _reduced(graph: Graph, node: Node) -> set[int]:
    """Return the axes, channels first, if ``node`` reduces all pixels, or all channels; none: it
    reduces something else.
    """
    if node.op not in _REDUCERS or len(node.inputs) != 2 or len(node.outputs) != 1:
        return set()
    source = graph.tensor(node.inputs[0])
    if node.options_as(ReducerOptions) is None or source.dtype not in FEATURE_TYPES:
        return set()
    reduced = reduced_axes(graph, node)
    if not reduced or len(source.shape) != len(_LAST):
        return set()
    counted = {axis for axis in range(len(_LAST)) if source.shape[axis] > 1}
    is_known = reduced & counted in (counted & _PIXELS, counted & _CHANNELS)
    return reduced if is_known else set()


def _is_alike(shape: Shape) -> bool:
    """Return whether elements of a tensor of ``shape`` lie in the same order, channels last."""
    return shape[1] == 1 or shape[2] * shape[3] == 1


def _region(graph: Graph, first: int, near: Mapping[int, Sequence[Node]]) -> _Region | None:
    """Return all that has to change if tensor ``first`` does; None: a node among it cannot, or
    nothing in the graph reads a tensor that has another order then.
    """
    tensors: set[int] = set()
    nodes: dict[int, Node] = {}
    waiting = [first]
    while waiting:
        index = waiting.pop()
        tensor = graph.tensor(index)
        if index in tensors:
            continue
        has_maker = any(index in node.outputs for node in near[index])
        is_read = any(index in node.inputs for node in near[index])
        is_inner = has_maker and is_read and index not in graph.outputs
        if tensor.is_variable or not (is_inner or _is_alike(tensor.shape)):
            return None
        tensors.add(index)
        for node in near[index]:
            others = _beside(graph, node, index)
            if others is None:
                return None
            nodes[node.index] = node
            waiting += others
    return _Region(frozenset(tensors), tuple(nodes.values()))


def _beside(graph: Graph, node: Node, tensor: int) -> list[int] | None:
    """Return the tensors that get channels last if ``tensor``, which ``node`` reads or writes,
    does; None: the node cannot do the same then.
    """
    if ABSENT in (*node.inputs, *node.outputs):
        return None
    if node.op == TRANSPOSE:
        wanted = _FIRST if tensor in node.outputs else _LAST
        return [] if _axes(graph, node) == wanted else None
    if node.op == _RESHAPE:
        return [] if _is_alike(graph.tensor(tensor).shape) else None
    if _reduced(graph, node):
        keeps = node.known_options(ReducerOptions).keep_dims
        return [node.inputs[0], *(node.outputs if keeps else ())]
    operator = OPERATORS.get(node.op)
    if operator is None or not operator.is_elementwise:
        return None
    if operator.feature_inputs(node) != node.inputs:
        return None
    given = [graph.tensor(t) for t in (*node.inputs, *node.outputs)]
    computed = [one for one in given if one.constant is None]
    ranks = {len(one.shape) for one in computed}
    if ranks != {len(_LAST)} or any(len(one.shape) > len(_LAST) for one in given):
        return None
    return [one.index for one in computed]


def _axes(graph: Graph, node: Node) -> Shape | None:
    """Return the axes of a TRANSPOSE; None: they are not known."""
    try:
        return axes_of(graph, node) if len(node.inputs) == 2 else None
    except MapError:
        return None


def _said(graph: Graph, node: Node, region: _Region, tensors: list[Tensor]) -> Node:
    """Return ``node`` as it is now; ``tensors`` get its constants."""
    (result, *_) = node.outputs
    if node.op in (_RESHAPE, TRANSPOSE):
        size = np.array([-1, *tensors[result].shape[1:]])
        return with_constant(node, _RESHAPE, size, tensors)
    if reduced := _reduced(graph, node):
        axes = np.array(sorted(map(_LAST.index, reduced)))
        made = with_constant(node, node.op, axes, tensors)
        return replace(made, options=node.known_options(ReducerOptions))
    inputs = list(node.inputs)
    for at, index in enumerate(inputs):
        given = graph.tensor(index)
        if given.constant is None or given.constant.size == 1:
            continue
        wide = given.constant.reshape((1,) * (len(_LAST) - len(given.shape)) + given.shape)
        values = read_only(np.ascontiguousarray(wide.transpose(_LAST)))
        inputs[at] = len(tensors)
        tensors.append(replace(given, index=inputs[at], shape=values.shape, constant=values))
    return replace(node, inputs=tuple(inputs), given_op=node.stored_op)
