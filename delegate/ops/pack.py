"""PACK: its inputs lie side by side in its output, along a dimension of their number."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Shape
from delegate.ops.shared import aliases
from delegate.ops.shared.image_rules import keeps_quantization
from delegate.ops.shared.links import Link, axis_of, places_along
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


def links(graph: Graph, node: Node) -> tuple[Link, ...]:
    return places_along(graph, node.outputs[0], node.inputs, _axis(node))


def _axis(node: Node) -> int:
    return node.known_options(PackOptions).axis


OPERATOR = joining(
    "PACK",
    links,
    shapes,
    PackOptions,
    rules=(
        *(rule for rule in aliases.JOINS if rule not in aliases.OF_UINT8_PARTS),
        keeps_quantization,
    ),
)
