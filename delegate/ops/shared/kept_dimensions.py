"""Give sums over channels the dimension back that a model drops, as layer normalisation exported
from PyTorch does: MEAN to [N], functions of it, RESHAPE to [1, N, 1].

To the device [N] is one pixel of N channels; with the dimension it is what the sum gives, a value
for each pixel. Elements and their order are the same, so whoever reads one of these tensors sees no
difference, and a reshape behind them moves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dilations import with_constant
from delegate.ops.shared.reductions import ReducerOptions, sums_channels
from delegate.ops.shared.regions import Change, computed_beside, with_regions

SUMS: Final = frozenset({"MEAN", "SUM"})
"""The operators whose results may drop a dimension: graphs without them keep all."""
_COUNTING: Final = ("EXPAND_DIMS", "SQUEEZE")
_RESHAPES: Final = ("RESHAPE", *_COUNTING)


def with_kept_dimensions(graph: Graph) -> Graph:
    """Return ``graph`` whose sums over channels keep the dimension, as do functions of them, where
    these and reshapes alone read them.
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
    """Return ``node`` with the dimension; None: it is no sum over channels without it."""
    options = node.options_as(ReducerOptions) if node.op in SUMS else None
    if options is None or options.keep_dims or len(node.inputs) != 2:
        return None
    source, result = (graph.tensor(index) for index in (node.inputs[0], node.outputs[0]))
    found = replace(node, options=replace(options, keep_dims=True))
    is_known = source.dtype in (*FEATURE_TYPES, DType.FLOAT32)
    is_one = is_known and 0 < len(result.shape) < len(source.shape)
    return found if is_one and sums_channels(graph, found) else None
