"""CONCATENATION: its inputs lie side by side in its output."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Activation, Graph, Node
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Shape
from delegate.ops.shared.maps import axis_of, joined
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


def _axis(node: Node) -> int:
    return node.known_options(ConcatenationOptions).axis


OPERATOR = joining("CONCATENATION", maps, shapes, ConcatenationOptions)
