"""GATHER: places of its input along a dimension, named by constant indices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Role, Shape, constraint
from delegate.ops.shared.common import axis_of, other_shape
from delegate.ops.shared.maps import gathered, integers
from delegate.ops.shared.reshaping import reshaping

INDICES = 1


@dataclass(frozen=True, slots=True)
class GatherOptions(Options):
    """``axis``: of the tensor that is gathered from. ``batch_dims``: leading ones in common."""

    UNION_TYPE = 23

    axis: int = option(FieldKind.INT32, slot=0, offset=0)
    batch_dims: int = option(FieldKind.INT32, slot=1, offset=4)


def _axis(graph: Graph, node: Node) -> int:
    """Raises MapError."""
    options = node.options_as(GatherOptions)
    if options is None or options.batch_dims:
        raise MapError("the options are not known" if options is None else "batch_dims is not 0")
    return axis_of(options.axis, graph.tensor(node.inputs[0]).shape)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    shape, places = (graph.tensor(t).shape for t in node.inputs)
    axis = _axis(graph, node)
    return ((*shape[:axis], *places, *shape[axis + 1 :]),)


@constraint()
def gathered_inside(facts: GraphFacts, node: Node) -> str | None:
    """The indices must be constants inside the tensor, without batch_dims, and give the output's
    shape.
    """
    try:
        maps(facts.graph, node)
    except MapError as error:
        return str(error)
    return other_shape(facts, node)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    shape, indices = (graph.tensor(t).shape for t in node.inputs)
    places = integers(graph, node.inputs[INDICES], math.prod(indices))
    return (gathered(shape, places, _axis(graph, node)),)


OPERATOR = reshaping(
    "GATHER",
    shapes,
    Role.NUMBERS,
    options=GatherOptions,
    maps=maps,
    rules=(gathered_inside,),
)
