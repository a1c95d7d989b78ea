"""Say means of groups of channels as means of channels, as GroupNormalization of Keras has them: a
RESHAPE to [N, H, W, G, K], means over H, W and K at once, functions of both, and a RESHAPE back.

To the device [N, H, W, G, K] is an image of columns and few channels; here it is one of G * K
channels again, byte for byte, so the reshapes move nothing. A mean is in all K channels of its
group, where what it is combined with has channels. These are more elements than the model's tensor
has: nodes of the NPU alone may read it, so that all of them run there or none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import DEFAULT
from delegate.model.graph import ABSENT, Graph, Node, Tensor, read_only
from delegate.ops import OPERATORS
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dense_sums import strips_of, takes_groups
from delegate.ops.shared.dilations import nodes_at, with_constant
from delegate.ops.shared.kept_dimensions import SUMS
from delegate.ops.shared.reductions import GroupOptions, ReducerOptions, reduced_axes

_RANK: Final = 5
_GROUPS, _MEMBERS = 3, 4
"""The dimensions of groups and of their channels."""
_RESHAPE: Final = "RESHAPE"


@dataclass(frozen=True, slots=True)
class _Region:
    """Tensors of the same groups that nodes compute from one another. ``tensors``: those that get
    other shapes; ``nodes``: all that read or write one.
    """

    groups: int
    members: int
    tensors: tuple[int, ...]
    nodes: tuple[Node, ...]


def with_group_means(graph: Graph) -> Graph:
    """Return ``graph`` whose means of groups are means of channels, where nothing but functions of
    them, and reshapes of maps, read them.
    """
    first = [node for node in graph.nodes if _members(graph, node)]
    if not first:
        return graph
    near = nodes_at(graph)
    tensors = list(graph.tensors)
    changed: dict[int, Node] = {}
    together = list(graph.together)
    for node in first:
        region = None if node.index in changed else _region(graph, node, near)
        if region is None:
            continue
        for index in region.tensors:
            given = tensors[index]
            shape = _joined(given.shape, region)
            is_inner = _is_mean(graph.tensor(index), region.members)
            tensors[index] = replace(
                given,
                shape=shape,
                stored_shape=given.shape,
                shape_signature=(),
                is_inner=is_inner,
            )
        for one in region.nodes:
            changed[one.index] = _said(graph, one, region, tensors)
        within = {t for t in region.tensors if _is_mean(graph.tensor(t), region.members)}
        if within:
            ends = ((one.index, {*one.inputs, *one.outputs}) for one in region.nodes)
            together.append(frozenset(i for i, read in ends if not within.isdisjoint(read)))
    nodes = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, together=tuple(together))


def _members(graph: Graph, node: Node) -> int:
    """Return the channels of a group whose mean, or sum, ``node`` takes; 0: it does not."""
    options = node.options_as(ReducerOptions) if node.op in SUMS else None
    if options is None or not options.keep_dims or len(node.inputs) != 2:
        return 0
    source = graph.tensor(node.inputs[0])
    reduced = reduced_axes(graph, node)
    if reduced is None or len(source.shape) != _RANK or source.dtype not in FEATURE_TYPES:
        return 0
    images, rows, columns, _, members = source.shape
    counted = {axis for axis in reduced if source.shape[axis] > 1}
    pixels = {axis for axis, size in ((1, rows), (2, columns)) if size > 1}
    if _MEMBERS not in reduced or counted | {_MEMBERS} != pixels | {_MEMBERS} or not images:
        return 0
    if members == 1:
        return 1
    strips = strips_of(DEFAULT, rows * columns)
    return members if strips is not None and takes_groups(DEFAULT, strips, members) else 0


def _is_mean(tensor: Tensor, members: int) -> bool:
    return members > 1 and tensor.shape[_MEMBERS] == 1


def _joined(shape: Shape, region: _Region) -> Shape:
    return (*shape[:_GROUPS], region.groups * region.members)


def _region(graph: Graph, first: Node, near: Mapping[int, Sequence[Node]]) -> _Region | None:
    """Return all that has to change if the mean ``first`` does; None: a node among it cannot."""
    *_, groups, members = graph.tensor(first.inputs[0]).shape
    tensors: dict[int, None] = {}
    nodes: dict[int, Node] = {}
    waiting = [first.inputs[0], first.outputs[0]]
    while waiting:
        index = waiting.pop()
        tensor = graph.tensor(index)
        if index in tensors:
            continue
        if len(tensor.shape) != _RANK or tensor.shape[_GROUPS] != groups or tensor.is_variable:
            return None
        if tensor.shape[_MEMBERS] not in (1, members):
            return None
        is_mean = _is_mean(tensor, members)
        has_maker = any(index in node.outputs for node in near[index])
        if is_mean and (index in graph.outputs or not has_maker):
            return None
        tensors[index] = None
        for node in near[index]:
            nodes[node.index] = node
            if node.op == _RESHAPE and not is_mean:
                continue
            others = _beside(graph, node, groups, members)
            if others is None:
                return None
            waiting += others
    return _Region(groups, members, tuple(tensors), tuple(nodes.values()))


def _beside(graph: Graph, node: Node, groups: int, members: int) -> list[int] | None:
    """Return the tensors that a node reads and writes, constants left out; None: it is neither
    such a mean nor a function of elements.
    """
    if _members(graph, node):
        return [node.inputs[0], node.outputs[0]]
    operator = OPERATORS.get(node.op)
    if operator is None or ABSENT in (*node.inputs, *node.outputs):
        return None
    if not operator.is_elementwise or operator.feature_inputs(node) != node.inputs:
        return None
    constants = [t for t in node.inputs if graph.tensor(t).constant is not None]
    if any(_constant(graph.tensor(t), groups, members) is None for t in constants):
        return None
    return [t for t in (*node.inputs, *node.outputs) if t not in constants]


def _constant(tensor: Tensor, groups: int, members: int) -> npt.NDArray[Any] | None:
    """Return a constant operand with a value for every channel, or one for all; None: it is of
    another shape.
    """
    values = tensor.constant
    if values is None or values.shape != tensor.shape or values.ndim > _RANK:
        return None
    if values.size == 1:
        return values
    wide = values.reshape((1,) * (_RANK - values.ndim) + values.shape)
    *before, own, each = wide.shape
    if own not in (1, groups) or each not in (1, members):
        return None
    whole = np.broadcast_to(wide, (*before, groups, members))
    return read_only(whole.reshape(*before, groups * members))


def _said(graph: Graph, node: Node, region: _Region, tensors: list[Tensor]) -> Node:
    """Return ``node`` as it is now; ``tensors`` get its constants."""
    if node.op == _RESHAPE:
        (result,) = node.outputs
        if result not in region.tensors:
            return node
        size = np.array([-1, *_joined(graph.tensor(result).shape, region)[1:]])
        return with_constant(node, _RESHAPE, size, tensors)
    if _members(graph, node):
        made = with_constant(node, node.op, np.array([1, 2]), tensors)
        is_grouped = region.members > 1
        options = GroupOptions(True, region.members) if is_grouped else ReducerOptions(True)
        return replace(made, options=options)
    inputs = list(node.inputs)
    for at, index in enumerate(inputs):
        given = graph.tensor(index)
        values = _constant(given, region.groups, region.members)
        if values is None or values is given.constant:
            continue
        inputs[at] = len(tensors)
        tensors.append(replace(given, index=inputs[at], shape=values.shape, constant=values))
    return replace(node, inputs=tuple(inputs), given_op=node.stored_op)
