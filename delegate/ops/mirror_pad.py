"""MIRROR_PAD of height and width: rows and columns of the image, copied."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.element import surfaces_of
from delegate.lower.memory.tensors import view_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import mirror
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.selection import Move, surface_pixels, surfaces_written
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import half_records
from delegate.ops.shared.maps import mirrored
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.padding import GEOMETRY, RULES, dimension_amounts, pad_amounts, shapes

REFLECT, SYMMETRIC = range(2)


@dataclass(frozen=True, slots=True)
class MirrorPadOptions(Options):
    """``mode``: whether the outermost pixels are repeated (SYMMETRIC)."""

    UNION_TYPE = 77

    mode: int = option(FieldKind.ENUM_FROM_1, slot=0, offset=0)


@constraint(most=MOST_TASKS)
def mirrored_inside(facts: GraphFacts, node: Node) -> str | None:
    """The mirrored pixels must lie inside the image (REFLECT, SYMMETRIC), at most {most} rows and
    columns, no channels.
    """
    options = node.known_options(MirrorPadOptions)
    if options.mode not in (REFLECT, SYMMETRIC):
        return f"the mode is {options.mode}"
    _, *sides, channels = pad_amounts(facts.graph, node)
    edge = int(options.mode == REFLECT)
    image = view_of(facts.features(node)[0].shape)
    size = [image.height, image.width]
    is_inside = all(max(side) + edge <= d for side, d in zip(sides, size, strict=True))
    if not is_inside or any(channels) or sum(map(sum, sides)) >= MOST_TASKS:
        return f"it is {[list(side) for side in (*sides, channels)]} of {size}"
    return None


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    edge = int(node.known_options(MirrorPadOptions).mode == REFLECT)
    return (mirrored(graph.tensor(node.inputs[0]).shape, dimension_amounts(graph, node), edge),)


def plan(planning: Planning, operation: Operation) -> Plan:
    options = operation.node.known_options(MirrorPadOptions)
    _, rows, columns, _ = pad_amounts(planning.graph, operation.node)
    edge = int(options.mode == REFLECT)
    channels = planning.tensor(operation.result).view.channels
    move = Move(
        lambda moving, source, target, _: mirror(moving, source, target, rows, columns, edge=edge),
        reads=surfaces_of(channels),
        writes=surfaces_written(planning.chip, channels),
        surface_pixels=surface_pixels(planning.chip, channels),
    )
    return move_plan(planning, operation, move, by_image=True)


OPERATOR = Operator(
    name="MIRROR_PAD",
    options=MirrorPadOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    maps=maps,
    plan=plan,
    shapes=shapes,
    rules=(*RULES, mirrored_inside),
    half=half_records.moving((*GEOMETRY, mirrored_inside)),
)
