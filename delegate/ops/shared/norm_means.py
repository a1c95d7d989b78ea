"""Say means of layer and group normalisation in the NPU's terms.

Sums and maxima over channels get the dimension back that a model drops, as layer normalisation
exported from PyTorch does: MEAN to [N], functions of it, RESHAPE to [1, N, 1]. To the device [N] is
one pixel of N channels; with the dimension it is what the sum gives, a value for each pixel.
Elements and their order are the same, so whoever reads one of these tensors sees no difference, and
a reshape behind them moves nothing.

Means of groups of channels are means of channels. GroupNormalization of Keras has a RESHAPE to
[N, H, W, G, K], means over H, W and K at once, functions of both, and a RESHAPE back. To the device
[N, H, W, G, K] is an image of columns and few channels; here it is one of G * K channels again,
byte for byte, so the reshapes move nothing. A mean is in all K channels of its group, where what it
is combined with has channels. These are more elements than the model's tensor has: nodes of the NPU
alone may read it, so that all of them run there or none does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.chip.chips import DEFAULT
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dense_sums import strips_of, takes_groups
from delegate.ops.shared.dilations import with_constant
from delegate.ops.shared.reductions import (
    GroupOptions,
    ReducerOptions,
    reduced_axes,
    reduces_channels,
)
from delegate.ops.shared.regions import Change, computed_beside, with_constants, with_regions

SUMS: Final = frozenset({"MEAN", "SUM"})
REDUCERS: Final = SUMS | {"REDUCE_MAX"}
"""The operators whose results may drop a dimension: graphs without them keep all."""
_COUNTING: Final = ("EXPAND_DIMS", "SQUEEZE")
_RESHAPES: Final = ("RESHAPE", *_COUNTING)


def with_kept_dimensions(graph: Graph) -> Graph:
    """Return ``graph`` whose reductions of channels keep the dimension, as do functions of them,
    where these and reshapes alone read them.
    """
    made = {tensor for node in graph.nodes for tensor in node.outputs}
    sums = (node for node in graph.nodes if _kept(graph, node) is not None)
    return with_regions(graph, ((n.outputs[0], _change(graph, n, made)) for n in sums))


def _change(graph: Graph, first: Node, made: Collection[int]) -> Change:
    """Return what becomes of the result of ``first``, and of all computed from it alone; ``made``:
    the tensors that nodes compute.
    """
    dropped = graph.tensor(first.outputs[0]).shape
    pixels = graph.tensor(first.inputs[0]).shape[:-1]

    def shape(tensor: Tensor) -> Shape | None:
        is_like = tensor.shape == dropped and tensor.index in made
        return (*pixels, 1) if is_like else None

    def beside(node: Node, tensor: Tensor) -> Sequence[int] | None:
        is_read = tensor.index in node.inputs
        if node.op in _RESHAPES:
            return [] if is_read else None
        if not is_read and _kept(graph, node) is not None:
            return [] if graph.tensor(node.inputs[0]).shape[:-1] == pixels else None
        constants = (graph.tensor(t).constant for t in node.inputs)
        are_alone = all(values is None or values.size == 1 for values in constants)
        return computed_beside(graph, node) if are_alone else None

    def said(node: Node, tensors: list[Tensor]) -> Node:
        if node.op not in _COUNTING:  # which would count the dimension
            return _kept(graph, node) or node
        wanted = np.array([-1, *graph.tensor(node.outputs[0]).shape[1:]])
        return with_constant(node, "RESHAPE", wanted, tensors)

    return Change(shape, lambda tensor: False, beside, said)


def _kept(graph: Graph, node: Node) -> Node | None:
    """Return ``node`` with the dimension; None: it is no reduction of channels without it."""
    options = node.options_as(ReducerOptions) if node.op in REDUCERS else None
    if options is None or options.keep_dims or len(node.inputs) != 2:
        return None
    source, result = (graph.tensor(index) for index in (node.inputs[0], node.outputs[0]))
    found = replace(node, options=replace(options, keep_dims=True))
    is_known = source.dtype in (*FEATURE_TYPES, DType.FLOAT32)
    is_one = is_known and 0 < len(result.shape) < len(source.shape)
    return found if is_one and reduces_channels(graph, found) else None


_RANK: Final = 5
_GROUPS, _MEMBERS = 3, 4
"""The dimensions of groups and of their channels."""
_RESHAPE: Final = "RESHAPE"


def with_group_means(graph: Graph) -> Graph:
    """Return ``graph`` whose means of groups are means of channels, where nothing but functions of
    them, and reshapes of maps, read them.
    """
    means = (node for node in graph.nodes if _members(graph, node))
    return with_regions(graph, ((n.inputs[0], _Groups(graph, n).change) for n in means))


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


class _Groups:
    """Groups as those whose mean, or sum, the node ``first`` takes."""

    def __init__(self, graph: Graph, first: Node) -> None:
        self._graph = graph
        *_, self._groups, self._members = graph.tensor(first.inputs[0]).shape

    @property
    def change(self) -> Change:
        return Change(self._joined, self._is_mean, self._beside, self._said)

    def _is_mean(self, tensor: Tensor) -> bool:
        return self._members > 1 and tensor.shape[_MEMBERS] == 1

    def _joined(self, tensor: Tensor) -> Shape | None:
        if len(tensor.shape) != _RANK:
            return None
        *before, groups, members = tensor.shape
        is_like = groups == self._groups and members in (1, self._members)
        return (*before, self._groups * self._members) if is_like else None

    def _beside(self, node: Node, tensor: Tensor) -> Sequence[int] | None:
        if node.op == _RESHAPE and not self._is_mean(tensor):
            return []
        if _members(self._graph, node):
            return [node.inputs[0], node.outputs[0]]
        given = [self._graph.tensor(t) for t in node.inputs]
        constants = [one for one in given if one.constant is not None]
        are_known = all(self._constant(one) is not None for one in constants)
        return computed_beside(self._graph, node) if are_known else None

    def _constant(self, tensor: Tensor) -> npt.NDArray[Any] | None:
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
        if own not in (1, self._groups) or each not in (1, self._members):
            return None
        whole = np.broadcast_to(wide, (*before, self._groups, self._members))
        return whole.reshape(*before, self._groups * self._members)

    def _said(self, node: Node, tensors: list[Tensor]) -> Node:
        if node.op == _RESHAPE:
            (result,) = node.outputs
            if tensors[result] is self._graph.tensor(result):
                return node
            size = np.array([-1, *tensors[result].shape[1:]])
            return with_constant(node, _RESHAPE, size, tensors)
        if _members(self._graph, node):
            made = with_constant(node, node.op, np.array([1, 2]), tensors)
            is_grouped = self._members > 1
            options = GroupOptions(True, self._members) if is_grouped else ReducerOptions(True)
            return replace(made, options=options)
        return with_constants(node, tensors, self._constant)
