"""CONCATENATION: its inputs lie side by side in its output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from delegate.model.graph import Activation, Graph, Node
from delegate.model.index_map import IndexMap, MapError, box_piece, row_major
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Shape
from delegate.ops.shared.common import axis_of
from delegate.ops.shared.moving import joining


@dataclass(frozen=True, slots=True)
class ConcatenationOptions(Options):
    UNION_TYPE = 10

    axis: int = option(FieldKind.INT32, slot=0, offset=0)
    activation: Activation = option(FieldKind.ACTIVATION, slot=1, offset=4)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    first, *others = (graph.tensor(t).shape for t in node.inputs)
    axis = axis_of(_axis(node), first)
    size = first[axis] + sum(other[axis] for other in others)
    return ((*first[:axis], size, *first[axis + 1 :]),)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    parts = [graph.tensor(t).shape for t in node.inputs]
    return (joined(parts, axis_of(_axis(node), parts[0])),)


def joined(shapes: Sequence[Shape], axis: int) -> IndexMap:
    """Return sources 0, 1, ... one behind the other along ``axis``. Raises MapError."""
    whole = [*shapes[0]]
    for shape in shapes:
        if (*shape[:axis], *shape[axis + 1 :]) != (*whole[:axis], *whole[axis + 1 :]):
            raise MapError(f"{list(shape)} is no part of {whole} along axis {axis}")
    whole[axis] = sum(shape[axis] for shape in shapes)
    strides = row_major(whole)
    firsts = itertools.accumulate((shape[axis] for shape in shapes), initial=0)
    pieces = (
        box_piece(shape, row_major(shape), strides, 0, at * strides[axis], name)
        for name, (shape, at) in enumerate(zip(shapes, firsts, strict=False))
    )
    return IndexMap(math.prod(whole), tuple(pieces))


def _axis(node: Node) -> int:
    return node.known_options(ConcatenationOptions).axis


OPERATOR = joining("CONCATENATION", maps, shapes, ConcatenationOptions)
