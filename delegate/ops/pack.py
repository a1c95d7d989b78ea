"""PACK: its inputs lie side by side in its output, along a dimension of their number."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.concatenation import joined
from delegate.ops.operator import Shape
from delegate.ops.shared import parts
from delegate.ops.shared.common import axis_of, keeps_quantization
from delegate.ops.shared.moving import joining


@dataclass(frozen=True, slots=True)
class PackOptions(Options):
    """``values_count``: of the inputs, which tell it themselves."""

    UNION_TYPE = 59

    values_count: int = option(FieldKind.INT32, slot=0, offset=0)
    axis: int = option(FieldKind.INT32, slot=1, offset=4)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    part = graph.tensor(node.inputs[0]).shape
    axis = axis_of(_axis(node), (*part, 1))
    return ((*part[:axis], len(node.inputs), *part[axis:]),)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    (whole,) = shapes(graph, node)
    axis = axis_of(_axis(node), whole)
    given = (graph.tensor(t).shape for t in node.inputs)
    return (joined([(*part[:axis], 1, *part[axis:]) for part in given], axis),)


def _axis(node: Node) -> int:
    return node.known_options(PackOptions).axis


OPERATOR = joining(
    "PACK",
    maps,
    shapes,
    PackOptions,
    rules=(
        *(rule for rule in parts.JOINS if rule not in parts.OF_UINT8_PARTS),
        keeps_quantization,
    ),
)
