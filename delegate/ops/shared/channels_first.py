"""Say what exports of PyTorch compute channels first as channels last: a TRANSPOSE to [N, C, H, W],
functions, means over H and W, and perhaps a TRANSPOSE back.

To the device the channels are rows then, and a mean over pixels is none of its. The nodes between
the transpositions compute the same of channels last, and the transpositions move nothing. Their
tensors have another order than the model's: nodes of the NPU alone may read them, so that all of
them run there or none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph, Node, Tensor
from delegate.model.index_map import MapError
from delegate.ops.operator import Shape
from delegate.ops.shared.common import FEATURE_TYPES
from delegate.ops.shared.dilations import with_constant
from delegate.ops.shared.norm_means import REDUCERS
from delegate.ops.shared.reductions import ReducerOptions, reduced_axes
from delegate.ops.shared.regions import Change, computed_beside, with_constants, with_regions
from delegate.ops.transpose import axes_of

_LAST: Final = (0, 2, 3, 1)
"""The dimension of [N, C, H, W] that each of [N, H, W, C] is."""
_FIRST: Final = (0, 3, 1, 2)
"""The other way round."""
_CHANNELS, _PIXELS = {1}, {2, 3}
_RESHAPE: Final = "RESHAPE"
TRANSPOSE: Final = "TRANSPOSE"
"""The operator that enters and leaves: graphs without it stay as they are."""


def with_channels_last(graph: Graph) -> Graph:
    """Return ``graph`` with channels last where transpositions, functions, and reductions of pixels
    or channels alone make and read what is channels first.
    """
    change = Change(_last, _is_moved, partial(_beside, graph), partial(_said, graph))
    entering = (n for n in graph.nodes if n.op == TRANSPOSE and _axes(graph, n) == _FIRST)
    return with_regions(graph, ((node.outputs[0], change) for node in entering))


def _last(tensor: Tensor) -> Shape | None:
    shape = tensor.shape
    return tuple(shape[axis] for axis in _LAST) if len(shape) == len(_LAST) else None


def _reduced(graph: Graph, node: Node) -> set[int]:
    """Return the axes, channels first, if ``node`` reduces all pixels, or all channels; none: it
    reduces something else.
    """
    if node.op not in REDUCERS or len(node.inputs) != 2 or len(node.outputs) != 1:
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


def _is_moved(tensor: Tensor) -> bool:
    """Return whether elements of ``tensor`` lie in another order, channels last."""
    _, channels, rows, columns = tensor.shape
    return channels > 1 and rows * columns > 1


def _beside(graph: Graph, node: Node, tensor: Tensor) -> Sequence[int] | None:
    if node.op == TRANSPOSE:
        wanted = _FIRST if tensor.index in node.outputs else _LAST
        return [] if _axes(graph, node) == wanted else None
    if node.op == _RESHAPE:
        return None if _is_moved(tensor) else []
    if _reduced(graph, node):
        keeps = node.known_options(ReducerOptions).keep_dims
        return [node.inputs[0], *(node.outputs if keeps else ())]
    return computed_beside(graph, node)


def _axes(graph: Graph, node: Node) -> Shape | None:
    """Return the axes of a TRANSPOSE; None: they are not known."""
    try:
        return axes_of(graph, node) if len(node.inputs) == 2 else None
    except MapError:
        return None


def _said(graph: Graph, node: Node, tensors: list[Tensor]) -> Node:
    (result, *_) = node.outputs
    if node.op in (_RESHAPE, TRANSPOSE):
        size = np.array([-1, *tensors[result].shape[1:]])
        return with_constant(node, _RESHAPE, size, tensors)
    if reduced := _reduced(graph, node):
        axes = np.array(sorted(map(_LAST.index, reduced)))
        made = with_constant(node, node.op, axes, tensors)
        return replace(made, options=node.known_options(ReducerOptions))
    return with_constants(node, tensors, _constant)


def _constant(tensor: Tensor) -> npt.NDArray[Any] | None:
    """Return a constant operand channels last; None: it has one value, or is none."""
    values = tensor.constant
    if values is None or values.size == 1:
        return None
    wide = values.reshape((1,) * (len(_LAST) - values.ndim) + values.shape)
    return wide.transpose(_LAST)
