"""TRANSPOSE: dimensions in another order."""

from __future__ import annotations

from dataclasses import replace

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.ops.operator import RESULT, GraphFacts, Role, Shape, Turn, constraint
from delegate.ops.shared.common import other_shape
from delegate.ops.shared.maps import integers, transposed
from delegate.ops.shared.reshaping import reshaping

AXES = 1


def axes_of(graph: Graph, node: Node) -> Shape:
    """The operand's dimension that each of the result is. Raises MapError."""
    rank = len(graph.tensor(node.inputs[0]).shape)
    given = integers(graph, node.inputs[AXES], rank)
    axes = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(axes) != list(range(rank)):
        raise MapError(f"the axes are {list(given)}")
    return axes


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    shape = graph.tensor(node.inputs[0]).shape
    return (tuple(shape[axis] for axis in axes_of(graph, node)),)


@constraint()
def transposed_axes(facts: GraphFacts, node: Node) -> str | None:
    """The axes must be constant, each once, and give the output's shape."""
    return other_shape(facts, node)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (transposed(graph.tensor(node.inputs[0]).shape, axes_of(graph, node)),)


def turn(facts: GraphFacts, node: Node) -> Turn | None:
    """Return what is left of the node where a product beside it exchanges rows and columns, so that
    channels stay channels; None: there is no such product, or they do so anyway.
    """
    graph = facts.graph
    source, result = node.inputs[0], node.outputs[0]
    axes = axes_of(graph, node)
    if len(axes) < 2:  # which have no rows
        return None
    *lead, rows, columns = axes
    last = len(lead) + 1
    behind = facts.readers.get(result, ())
    if rows == last and len(behind) == 1 and result not in graph.outputs:
        (product,) = behind
        if _exchanges(facts, product) and product.inputs.count(result) == 1:
            return Turn(product, product.inputs.index(result), (*lead, columns, rows))
    before = facts.makers.get(source)
    if before is None or columns != last - 1 or source in graph.outputs:
        return None
    if facts.readers[source] != (node,) or not _exchanges(facts, before):
        return None
    exchanged = {last: columns, columns: last}
    return Turn(before, RESULT, tuple(exchanged.get(axis, axis) for axis in axes))


def _exchanges(facts: GraphFacts, product: Node) -> bool:
    operator = facts.known_operator(product)
    return operator is not None and operator.exchange is not None


OPERATOR = replace(
    reshaping("TRANSPOSE", shapes, Role.NUMBERS, maps=maps, rules=(transposed_axes,)), turn=turn
)
