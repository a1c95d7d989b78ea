"""RESIZE_NEAREST_NEIGHBOR by whole factors: a transposed convolution whose weights are 1 puts the
pixels apart and repeats them in between. On a chip of which no program writes pixels apart, see
``rows_as_surfaces``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import surfaces_of
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.selection import Selection, surfaces_written
from delegate.lower.upsample import Repeat, lie_in_memory
from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import half_records, reshaping
from delegate.ops.shared.maps import repeated
from delegate.ops.shared.moving import move_plan


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


def _factors(graph: Graph, node: Node) -> tuple[int, int]:
    """Return the rows and columns that a pixel becomes; the rules have checked that they are
    whole.
    """
    _, height, width, _ = graph.tensor(node.inputs[0]).shape
    _, rows, columns, _ = graph.tensor(node.outputs[0]).shape
    return rows // height, columns // width


def _most_factor(chip: Chip) -> int:
    return chip.limits.spread


@constraint(most=_most_factor)
def pixels_repeated(facts: GraphFacts, node: Node) -> str | None:
    """Every row must be repeated the same number of times, 1 to {most}, and every column."""
    options = node.known_options(ResizeNearestOptions)
    before, after = (tensor.shape for tensor in facts.features(node))
    for size, output in zip(before[1:3], after[1:3], strict=True):
        factor = output // size
        repeated = np.arange(output) // max(factor, 1)
        is_whole = factor * size == output and 1 <= factor <= _most_factor(facts.chip)
        if not is_whole or (sources(options, size, output) != repeated).any():
            return f"from {list(before[1:3])} to {list(after[1:3])}"
    return None


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    shape = graph.tensor(node.inputs[0]).shape
    return (repeated(shape, (1, *_factors(graph, node), 1)),)


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan image by image; without pixels apart where the chip does not write them."""
    chip, factors = planning.chip, _factors(planning.graph, operation.node)
    before, after = (planning.tensor(t).view for t in (operation.operands[0], operation.result))
    padding = (factors[0] - 1, factors[1] - 1)
    if lie_in_memory(chip, factors, padding):
        repeat = Repeat(chip, before, factors)
        return move_plan(
            planning,
            operation,
            lambda moving, source, target, _: repeat.tasks(moving, source, target),
            reads=repeat.surfaces_read,
            writes=repeat.surfaces_written,
            by_image=True,
        )
    selection = Selection(taps=factors, tap=None, padding=padding, spread=factors)
    return move_plan(
        planning,
        operation,
        lambda moving, source, target, _: moving.select(source, target, selection),
        reads=surfaces_of(after.channels),
        writes=surfaces_written(chip, after.channels),
        by_image=True,
    )


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
