"""UNPACK: every place along a dimension of its input, without that dimension."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.common import axis_of
from delegate.ops.shared.maps import split
from delegate.ops.shared.moving import cutting


@dataclass(frozen=True, slots=True)
class UnpackOptions(Options):
    """``num``: of the outputs, which tell it themselves."""

    UNION_TYPE = 64

    num: int = option(FieldKind.INT32, slot=0, offset=0)
    axis: int = option(FieldKind.INT32, slot=1, offset=4)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    shape = graph.tensor(node.inputs[0]).shape
    axis = axis_of(_axis(node), shape)
    if shape[axis] != len(node.outputs):
        raise MapError(f"{len(node.outputs)} parts of {list(shape)} along axis {axis}")
    return ((*shape[:axis], *shape[axis + 1 :]),) * len(node.outputs)


def maps(graph: Graph, node: Node) -> tuple[IndexMap, ...]:
    shape = graph.tensor(node.inputs[0]).shape
    axis = axis_of(_axis(node), shape)
    return split(shape, [1] * shape[axis], axis)


def _axis(node: Node) -> int:
    return node.known_options(UnpackOptions).axis


OPERATOR = cutting("UNPACK", maps, shapes, Role.FEATURE, options=UnpackOptions)
