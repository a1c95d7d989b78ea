"""RESIZE_NEAREST_NEIGHBOR. By whole factors: a transposed convolution whose weights are 1 puts the
pixels apart and repeats them in between; see ``Repeat`` for a chip of which no program writes
pixels apart. To any other size: rows and columns of the image in another order; by two products
(``row_products``) where that takes too many tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import surfaces_of
from delegate.errors import LoweringError
from delegate.lower.memory.tensors import whole_channels
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.rules import FORM_IS_KNOWN
from delegate.lower.selection import Move, Selection, surfaces_written
from delegate.lower.upsample import Repeat, lie_in_memory
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import half_records, reshaping
from delegate.ops.shared.interpolation import MOST_ROWS
from delegate.ops.shared.maps import factor_of, resized
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.parts import rearrangement_of
from delegate.ops.shared.row_products import Products, plan_products, products_of


@dataclass(frozen=True, slots=True)
class ResizeNearestOptions(Options):
    UNION_TYPE = 74

    align_corners: bool = option(FieldKind.BOOL, slot=0, offset=0)
    half_pixel_centers: bool = option(FieldKind.BOOL, slot=1, offset=1)


def sources(options: ResizeNearestOptions, size: int, output: int) -> npt.NDArray[np.int64]:
    """Return the row of the image that each row of the result repeats, as the kernels compute
    it.
    """
    is_aligned = options.align_corners and output > 1
    wide = (size - 1, output - 1) if is_aligned else (size, output)
    scale = np.float32(wide[0]) / np.float32(wide[1])
    offset = np.float32(0.5 if options.half_pixel_centers else 0)
    places = (np.arange(output, dtype=np.float32) + offset) * scale
    half = 0.5 if options.align_corners else 0.0
    rounded = np.floor(places.astype(np.float64) + half)
    return np.asarray(np.minimum(rounded, size - 1).astype(np.int64))


def _sources(graph: Graph, node: Node) -> tuple[list[int], list[int]]:
    """Return the rows and the columns of the image that those of the result repeat."""
    options = node.known_options(ResizeNearestOptions)
    before, after = (graph.tensor(t).shape[1:3] for t in (node.inputs[0], node.outputs[0]))
    rows, columns = (sources(options, *sizes).tolist() for sizes in zip(before, after, strict=True))
    return rows, columns


def _factors(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Return the rows and columns that every pixel becomes; None: not each becomes as many."""
    sizes = graph.tensor(node.inputs[0]).shape[1:3]
    rows, columns = map(factor_of, _sources(graph, node), sizes)
    return None if rows is None or columns is None else (rows, columns)


def _most_factor(chip: Chip) -> int:
    return chip.limits.spread


def _spread(chip: Chip, graph: Graph, node: Node) -> tuple[int, int] | None:
    """Return the factors if ``chip`` puts pixels as far apart."""
    factors = _factors(graph, node)
    return None if factors is None or max(factors) > _most_factor(chip) else factors


def _rearranged(chip: Chip, graph: Graph, node: Node, *, is_known: bool = False) -> Move | None:
    source, result = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    try:
        (moved,) = maps(graph, node)
    except MapError:
        return None
    return rearrangement_of(chip, source, result, moved, is_known=is_known)


def _products(chip: Chip, graph: Graph, node: Node) -> Products | None:
    """Return the products that take one row, and one column, for each of the result."""
    before = graph.tensor(node.inputs[0])
    images, height, width, _ = before.shape
    if max(height, width) > MOST_ROWS:
        return None
    rows, columns = _sources(graph, node)
    shares = np.eye(height)[rows], np.eye(width)[columns]
    return products_of(chip, *shares, images, whole_channels(before))


@constraint(most=_most_factor, tasks=MOST_TASKS)
def pixels_repeated(facts: GraphFacts, node: Node) -> str | None:
    """All rows, and columns, must become equally many, 1 to {most}, or at most {tasks}
    convolutions resize the images.
    """
    ends = facts.chip, facts.graph, node
    if any(way(*ends) is not None for way in (_spread, _rearranged, _products)):
        return None
    before, after = (tensor.shape for tensor in facts.features(node))
    return f"from {list(before)} to {list(after)}"


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    """Raises MapError where that takes too many pieces."""
    return (resized(graph.tensor(node.inputs[0]).shape, *_sources(graph, node)),)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan image by image; without pixels apart where the chip does not write them. Raises
    LoweringError.
    """
    chip, factors = planning.chip, _spread(planning.chip, planning.graph, operation.node)
    if factors is None:
        ends = chip, planning.graph, operation.node
        move = _rearranged(*ends, is_known=True)
        if move is not None:
            return move_plan(planning, operation, move)
        products = _products(*ends)
        if products is None:
            problem = "to a size that is no multiple"
            raise LoweringError(operation.node.index, FORM_IS_KNOWN, problem)
        return plan_products(planning, operation, products)
    before, after = (planning.tensor(t).view for t in (operation.operands[0], operation.result))
    padding = (factors[0] - 1, factors[1] - 1)
    if lie_in_memory(chip, factors, padding):
        repeat = Repeat(chip, before, factors)
        move = Move(
            lambda moving, source, target, _: repeat.tasks(moving, source, target),
            repeat.surfaces_read,
            repeat.surfaces_written,
        )
    else:
        selection = Selection(taps=factors, tap=None, padding=padding, spread=factors)
        move = Move(
            lambda moving, source, target, _: moving.select(source, target, selection),
            surfaces_of(after.channels),
            surfaces_written(chip, after.channels),
        )
    return move_plan(planning, operation, move, by_image=True)


OPERATOR = Operator(
    name="RESIZE_NEAREST_NEIGHBOR",
    options=ResizeNearestOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    maps=maps,
    plan=plan,
    shapes=reshaping.shapes,
    rules=(*reshaping.RULES, pixels_repeated),
    half=half_records.moving((*reshaping.GEOMETRY, pixels_repeated)),
)
