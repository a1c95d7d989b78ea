"""Say what exports of PyTorch compute channels first as channels last: a TRANSPOSE to [N, C, H, W],
functions, means over H and W, and perhaps a TRANSPOSE back.

To the device the channels are rows then, and a mean over pixels is none of its. The nodes between
the transpositions compute the same of channels last, and the transpositions move nothing. Their
tensors have another order than the model's: nodes of the NPU alone may read them, so that all of
them run there or none does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from delegate.model.graph import Graph, Node, Tensor
from delegate.model.index_map import MapError
from delegate.ops.operator import GraphFacts, Shape
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
    entering = (node for node in graph.nodes if _turns(graph, node, _FIRST))
    return _with_products_last(with_regions(graph, ((n.outputs[0], change) for n in entering)))


@dataclass(frozen=True, slots=True)
class _Sum:
    """A node that computes, element by element, with a product's result, ``reshaped`` to channels
    first, and with what lies channels last and is ``entering`` for it; all its readers are
    ``leaving`` again. ``place``: of the operand that comes from the product.
    """

    node: Node
    place: int
    reshaped: Node
    entering: Node
    leaving: tuple[Node, ...]


def _with_products_last(graph: Graph) -> Graph:
    """Return ``graph`` with sums of products and of what lies channels last, as attention of YOLO
    has them, computed channels last. The product's rows and columns change places before they are
    reshaped, which a product does itself; the TRANSPOSE of the other operand has nothing to do,
    and reshapes in its place.
    """
    facts = GraphFacts(graph)
    sums = [found for node in graph.nodes if (found := _sum_of_product(facts, node)) is not None]
    if not sums:
        return graph
    tensors, together = list(graph.tensors), list(graph.together)
    changed: dict[int, Node] = {}
    for one in sums:
        said = _sum_said(graph, one, tensors)
        changed.update((node.index, node) for node in said)
        # A runtime knows the file's order alone, in which the TRANSPOSE does not wait for the
        # product: it could run in a partition before it.
        product = facts.makers[one.reshaped.inputs[0]]
        together.append(frozenset(node.index for node in (product, *said)))
    nodes = tuple(changed.get(node.index, node) for node in graph.nodes)
    return replace(graph, tensors=tuple(tensors), nodes=nodes, together=tuple(together))


def _sum_of_product(facts: GraphFacts, node: Node) -> _Sum | None:
    operands = computed_beside(facts.graph, node)
    if operands is None or len(node.inputs) != 2 or len({*operands}) != 3:
        return None
    leaving = facts.readers.get(node.outputs[0], ())
    if not leaving or not all(_turns(facts.graph, reader, _LAST) for reader in leaving):
        return None
    for place in range(2):
        reshaped, entering = (facts.makers.get(node.inputs[at]) for at in (place, 1 - place))
        if reshaped is None or entering is None or reshaped.op != _RESHAPE:
            continue
        if _turns(facts.graph, entering, _FIRST) and reshaped.index < entering.index:
            found = _Sum(node, place, reshaped, entering, leaving)
            if _are_alone(facts, found) and _is_of_product(facts, found):
                return found
    return None


def _are_alone(facts: GraphFacts, one: _Sum) -> bool:
    """Return whether nobody else has what becomes different, and the sum reads what lies channels
    last as it is.
    """
    inner = one.reshaped.inputs[0], one.reshaped.outputs[0], one.entering.outputs[0]
    if any(len(facts.readers.get(tensor, ())) != 1 for tensor in inner):
        return False
    given, first = (facts.graph.tensor(t) for t in (one.entering.inputs[0], inner[-1]))
    is_same = (given.dtype, given.quantization) == (first.dtype, first.quantization)
    return is_same and {*inner, one.node.outputs[0]}.isdisjoint(facts.graph.outputs)


def _is_of_product(facts: GraphFacts, one: _Sum) -> bool:
    """Return whether a product makes what is reshaped, whose columns are the pixels of an image."""
    source, result = one.reshaped.inputs[0], one.reshaped.outputs[0]
    product = facts.makers.get(source)
    operator = None if product is None else facts.known_operator(product)
    if operator is None or operator.exchange is None:
        return False
    shapes = [facts.graph.tensor(t).shape for t in (source, result, *one.node.outputs)]
    shapes.append(facts.graph.tensor(one.entering.outputs[0]).shape)
    if len({*shapes[1:]}) > 1 or len(shapes[0]) < 2 or math.prod(shapes[0]) == 0:
        return False
    images, channels, *sides = shapes[1]
    *rows, columns = shapes[0]
    return (images, channels, math.prod(sides)) == (1, math.prod(rows), columns)


def _sum_said(graph: Graph, one: _Sum, tensors: list[Tensor]) -> list[Node]:
    """Return the nodes as they are then; ``tensors`` get their shapes and constants."""
    source, sums = one.reshaped.inputs[0], one.node.outputs[0]
    turned, placed = one.reshaped.outputs[0], one.entering.outputs[0]
    *lead, pixels = graph.tensor(source).shape
    given = graph.tensor(turned)
    shape = _last(given)
    assert shape is not None
    for index, like, size in (
        (turned, given, (pixels, *lead)),
        (placed, given, shape),
        (sums, graph.tensor(sums), shape),
    ):
        name, stored = graph.tensor(index).name, graph.tensor(index).shape
        made = replace(like, index=index, name=name, shape=size, stored_shape=stored)
        tensors[index] = replace(made, shape_signature=(), is_inner=True)
    rank = len(lead) + 1
    axes = np.array([rank - 1, *range(rank - 1)])
    sizes = np.array([-1, *shape[1:]])
    reshaping = replace(one.entering, inputs=(turned, *one.entering.inputs[1:]))
    operands = list(one.node.inputs)
    operands[one.place], operands[1 - one.place] = placed, one.entering.inputs[0]
    return [
        with_constant(one.reshaped, TRANSPOSE, axes, tensors),
        with_constant(reshaping, _RESHAPE, sizes, tensors),
        replace(one.node, inputs=tuple(operands), given_op=one.node.stored_op),
        *(with_constant(node, _RESHAPE, sizes, tensors) for node in one.leaving),
    ]


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
        return [] if _turns(graph, node, wanted) else None
    if node.op == _RESHAPE:
        return None if _is_moved(tensor) else []
    if _reduced(graph, node):
        keeps = node.known_options(ReducerOptions).keep_dims
        return [node.inputs[0], *(node.outputs if keeps else ())]
    return computed_beside(graph, node)


def _turns(graph: Graph, node: Node, axes: Shape) -> bool:
    """Return whether ``node`` is a TRANSPOSE by known ``axes``."""
    try:
        is_known = node.op == TRANSPOSE and len(node.inputs) == 2
        return is_known and axes_of(graph, node) == axes
    except MapError:
        return False


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
