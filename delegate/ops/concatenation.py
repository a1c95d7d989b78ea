"""CONCATENATION: its inputs lie side by side in its output."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Activation, Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Shape
from delegate.ops.shared.links import Link, axis_of, parts_along
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


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    return parts_along(graph, node.outputs[0], node.inputs, _axis(node))


def _axis(node: Node) -> int:
    return node.known_options(ConcatenationOptions).axis


OPERATOR = joining("CONCATENATION", links, shapes, ConcatenationOptions)
