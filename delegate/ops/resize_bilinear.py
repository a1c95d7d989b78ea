"""RESIZE_BILINEAR. To two, four or eight times the size: a transposed convolution whose weights are
fractions of pixels, of the image with its outermost pixels repeated. To a whole part: a convolution
with strides. By other whole factors, or on a chip of which no program writes pixels apart, see
``interpolation``. Pixels that are only repeated, or left out, go where RESIZE_NEAREST_NEIGHBOR has
them. To any other size: two products, see ``row_products``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import Element, surfaces_of
from delegate.errors import LoweringError
from delegate.lower.legalize import allows_steps
from delegate.lower.memory.tensors import DeviceTensor
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.padding import mirror
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.rules import EQUAL_IF_EXACT, FORM_IS_KNOWN
from delegate.lower.selection import Move, Moving, Selection, is_depthwise, kernels, map_bytes
from delegate.lower.task import Ref, Task, TaskKind
from delegate.lower.upsample import lie_in_memory
from delegate.model.graph import DType, Graph, Node
from delegate.model.index_map import MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, constraint
from delegate.ops.shared import reshaping
from delegate.ops.shared.interpolation import (
    LARGER,
    SAME,
    STENCILS,
    Blend,
    Resizing,
    Stencil,
    Weighing,
    blends_of,
    chosen,
    displaced,
    divided,
    is_near,
    nearest,
    plan_blends,
    smaller,
)
from delegate.ops.shared.maps import resized
from delegate.ops.shared.moving import move_plan
from delegate.ops.shared.parts import rearrangement_of
from delegate.ops.shared.row_products import Products, plan_products, products_of

_MOST_TAPS = 64
"""The most taps of a stencil of rows and columns, of which four meet pixels. A task takes a cycle
for each tap of 64 channels; with more the CPU is faster, which takes about 1 ns a result.
"""

_FEW_TAPS = 16
"""The most taps with which pixels that are repeated take about as long as two products, whose
results are not equal as often.
"""


@dataclass(frozen=True, slots=True)
class ResizeBilinearOptions(Options):
    UNION_TYPE = 15

    align_corners: bool = option(FieldKind.BOOL, slot=2, offset=0)
    half_pixel_centers: bool = option(FieldKind.BOOL, slot=3, offset=1)


Sides = tuple[Resizing, Resizing]
"""Rows and columns."""


def sides_of(graph: Graph, node: Node) -> Sides:
    """Return what ``node`` makes of rows and of columns."""
    options = node.known_options(ResizeBilinearOptions)
    source, result = graph.tensor(node.inputs[0]), graph.tensor(node.outputs[0])
    given = options.align_corners, options.half_pixel_centers, source.dtype is DType.INT8
    rows, columns = zip(source.shape[1:3], result.shape[1:3], strict=True)
    return Resizing(*rows, *given), Resizing(*columns, *given)


_Side = TypeVar("_Side", bound=Weighing)


def _fitting(
    chip: Chip, sides: Sides, known: Callable[[Resizing], Sequence[_Side]]
) -> tuple[_Side, _Side] | None:
    """Return which of ``known`` make both sides; None: none is near enough, or they have too many
    taps.
    """
    rows, columns = (nearest(side, known(side)) for side in sides)
    counts = len(rows.weights), len(columns.weights)
    most = chip.limits.kernel_size
    taps = max(counts) ** 2 if Primitive.UNEQUAL_SIDES in chip.lacks else prod(counts)
    if max(counts) > most or taps > _MOST_TAPS:
        return None
    off = [displaced(one, side) for side, one in zip(sides, (rows, columns), strict=True)]
    return (rows, columns) if is_near(sides, off) else None


def _stencils(chip: Chip, sides: Sides, channels: int) -> tuple[Stencil, Stencil] | None:
    """Return the stencils that one task of ``chip`` may have; None: there are none."""
    larger = () if lie_in_memory(chip, (2, 2)) else LARGER

    def fitting(side: Resizing) -> tuple[Stencil, ...]:
        _, downs = side.factors()
        strides = (factor for factor in downs if factor <= chip.limits.stride)
        return (SAME, *larger, *(one for factor in strides for one in smaller(factor)))

    found = _fitting(chip, sides, fitting)
    if found is None:
        return None
    strides = {one.stride for one in found}
    rows, columns = found
    spread = rows.spread, columns.spread
    if spread != (1, 1):
        kind = TaskKind.SPREAD if is_depthwise(chip, channels) else TaskKind.SPREAD_DENSE
        known = chip.evidence is None or chip.evidence.knows_spread(kind, spread, Element.INT8)
        return found if known and max(strides) == 1 else None
    # Of a single row it does not matter which the next would be.
    are_alike = len(strides) == 1 or min(side.output for side in sides) == 1
    return found if are_alike or Primitive.UNEQUAL_SIDES not in chip.lacks else None


def _rearranged(chip: Chip, graph: Graph, node: Node) -> Move | None:
    """Return how pixels that are only repeated, or left out, are moved; None: they are not, or
    cannot be.
    """
    rows, columns = (chosen(side) for side in sides_of(graph, node))
    if rows is None or columns is None:
        return None
    source, result = (graph.tensor(t) for t in (node.inputs[0], node.outputs[0]))
    try:
        moved = resized(source.shape, rows, columns)
    except MapError:
        return None
    return rearrangement_of(chip, source, result, moved, is_known=True)


def _products(chip: Chip, sides: Sides, images: int, channels: int) -> Products | None:
    """Return how rows are made and then columns; None: they cannot be."""
    rows, columns = (side.shares() for side in sides)
    if rows is None or columns is None:
        return None
    found = products_of(chip, rows, columns, images, channels)
    if found is None:
        return None
    mixtures = found.rows, found.columns
    passes = max(sum(mixture.is_mixed for mixture in mixtures), 1)
    off = [mixture.displaced for mixture in mixtures]
    return found if is_near(sides, off, passes=passes) else None


Way = tuple[Stencil, Stencil] | tuple[Blend, Blend] | Products | Move


def _way(chip: Chip, graph: Graph, node: Node) -> Way | None:
    """Return how ``chip`` resizes; None: it cannot."""
    sides = sides_of(graph, node)
    is_larger = all(side.output >= side.size for side in sides)
    blends = _fitting(chip, sides, blends_of) if is_larger else None
    taps = 0 if blends is None else prod(len(one.weights) for one in blends)
    has_few = chip.evidence is None or chip.evidence.is_exact or taps <= _FEW_TAPS
    if blends is not None and lie_in_memory(chip, (2, 2)) and has_few:
        return blends
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    found = _stencils(chip, sides, channels) or _rearranged(chip, graph, node)
    if found is not None or (blends is not None and has_few):
        return found or blends
    return _products(chip, sides, images, channels) or blends


@constraint(taps=_MOST_TAPS, tasks=MOST_TASKS)
def resize_possible(facts: GraphFacts, node: Node) -> str | None:
    """Results must be within a step, by {taps} taps or {tasks} tasks; without gaps between rows
    only by whole factors.
    """
    if _way(facts.chip, facts.graph, node) is not None:
        return None
    before, after = (tensor.shape for tensor in facts.features(node))
    return f"from {list(before[1:3])} to {list(after[1:3])}"


Interpolate = Callable[[Moving, DeviceTensor, DeviceTensor], Iterable[Task]]
"""The tasks from an image with its border to the result."""


def _plan_stencils(
    planning: Planning,
    operation: Operation,
    stencils: tuple[Stencil, Stencil],
    interpolate: Interpolate,
    *,
    depthwise: bool,
    reads: int,
) -> Plan:
    """Image by image: the border is copied byte by byte, if there is one."""
    chip, view = planning.chip, planning.tensor(operation.operands[0]).view
    rows, columns = stencils

    def image(
        moving: Moving, source: DeviceTensor, target: DeviceTensor, work: Ref
    ) -> Iterator[Task]:
        if any((*rows.border, *columns.border)):
            height = source.view.height + sum(rows.border)
            width = source.view.width + sum(columns.border)
            wide = source.alone(replace(source.view, height=height, width=width), work)
            maps = source.as_bytes, wide.as_bytes
            yield from mirror(moving, *maps, rows.border, columns.border, edge=0)
            source = wide
        yield from interpolate(moving, source, target)

    move = Move(
        image,
        reads,
        chip.groups.surfaces_written(view.channels, is_depthwise=depthwise),
        map_bytes(chip, (view.height + 2) * (view.width + 2), view.channels),
        chip.groups.surface_pixels(depthwise),
    )
    return move_plan(planning, operation, move, by_image=True, as_bytes=False)


def _plan_int8(planning: Planning, operation: Operation, stencils: tuple[Stencil, Stencil]) -> Plan:
    chip, channels = planning.chip, planning.tensor(operation.operands[0]).view.channels
    depthwise = is_depthwise(chip, channels)
    offset = planning.graph.tensor(operation.result).dtype.element.offset
    rows, columns = stencils

    def interpolate(moving: Moving, source: DeviceTensor, target: DeviceTensor) -> Iterable[Task]:
        taps = np.outer(rows.weights, columns.weights)
        summand, out = divided(chip, offset, rows.whole * columns.whole)
        return moving.move(
            *(source, target, kernels(taps, channels, depthwise=depthwise)),
            Selection(
                strides=(rows.stride, columns.stride),
                padding=(rows.padding, columns.padding),
                spread=(rows.spread, columns.spread),
            ),
            is_depthwise=depthwise,
            summands=np.full(channels, summand, np.int64),
            out=out,
        )

    return _plan_stencils(
        *(planning, operation, stencils, interpolate),
        depthwise=depthwise,
        reads=surfaces_of(channels),
    )


def plan(planning: Planning, operation: Operation) -> Plan:
    """Plan the resizing. Raises LoweringError."""
    node = operation.node
    match _way(planning.chip, planning.graph, node):
        case Move() as move:
            return move_plan(planning, operation, move)
        case (Stencil() as rows, Stencil() as columns):
            return _plan_int8(planning, operation, (rows, columns))
        case (Blend() as rows, Blend() as columns):
            return plan_blends(planning, operation, rows, columns)
        case Products() as products:
            if not allows_steps(planning.chip):
                problem = "of two products, each of which is rounded, one in ten is"
                raise LoweringError(node.index, EQUAL_IF_EXACT, problem)
            return plan_products(planning, operation, products)
        case _:  # the rules ran before
            raise LoweringError(node.index, FORM_IS_KNOWN, "by a factor that is not whole")


def _half_stencils(graph: Graph, node: Node) -> tuple[Stencil, Stencil] | None:
    """Return the stencils whose weights fp16 holds; None: there are none."""
    sides = sides_of(graph, node)
    rows, columns = (nearest(side, STENCILS) for side in sides)
    if len(rows.weights) * len(columns.weights) > _MOST_TAPS:
        return None
    is_exact = displaced(rows, sides[0]) == displaced(columns, sides[1]) == 0
    return (rows, columns) if is_exact else None


@constraint(taps=_MOST_TAPS)
def resized_by_power_of_two(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must stay or become 2, 4 or 8 times as large, with at most {taps} taps."""
    if _half_stencils(facts.graph, node) is not None:
        return None
    before, after = (tensor.shape for tensor in facts.features(node))
    return f"from {list(before[1:3])} to {list(after[1:3])}"


def half(operator: Operator) -> Operator:
    """The same stencils in fp16, depthwise: what is in a channel never meets another."""
    from delegate.lower.half.stages import sum_bound
    from delegate.ops.shared import half, half_ranges

    def plan(planning: Planning, operation: Operation) -> Plan:
        stencils = _half_stencils(planning.graph, operation.node)
        assert stencils is not None  # resized_by_power_of_two ran before
        rows, columns = stencils

        def interpolate(
            moving: Moving, source: DeviceTensor, target: DeviceTensor
        ) -> Iterable[Task]:
            """Weights are fractions by powers of two, which fp16 holds."""
            taps = np.outer(rows.weights, columns.weights) / (rows.whole * columns.whole)
            padding, spread = (rows.padding, columns.padding), (rows.spread, columns.spread)
            ends, given = (planning, operation, source, target), (taps, padding, spread)
            return half.spread_tasks(*ends, *given, moving.constants)

        channels = planning.tensor(operation.operands[0]).view.channels
        read = surfaces_of(planning.chip.groups.depthwise_lanes(channels))
        given = planning, operation, stencils, interpolate
        found = _plan_stencils(*given, depthwise=True, reads=read)
        return found.within(sum_bound(_MOST_TAPS))

    rules = (*half.FIRST, *reshaping.GEOMETRY, resized_by_power_of_two)
    return half.half_record(operator, plan, rules, half_ranges.of_means)


OPERATOR = Operator(
    name="RESIZE_BILINEAR",
    options=ResizeBilinearOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=reshaping.shapes,
    rules=(*reshaping.RULES, resize_possible),
    half=half,
)
