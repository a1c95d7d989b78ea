"""The common part of MEAN, SUM and REDUCE_MAX over height and width: options, rules, shapes, and
the plan of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.lower.legalize import RECORD, rounds_twice, ties_away
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.numerics.image_sums import requantize_image
from delegate.lower.numerics.tflite import Target
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import TaskKind
from delegate.lower.tiling.geometry import Axis
from delegate.lower.tiling.pooling import Pooling
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Shape, constraint
from delegate.ops.shared import common
from delegate.ops.shared.convolution import most_kernel
from delegate.ops.shared.image_rules import RANK, other_shape
from delegate.ops.shared.pooling import WindowSums, plan_window_sums

AXES = 1
_LINE_RANK = RANK - 1


@dataclass(frozen=True, slots=True)
class ReducerOptions(Options):
    UNION_TYPE = 27

    keep_dims: bool = option(FieldKind.BOOL, slot=0, offset=0)


@constraint(rank=RANK)
def reduced_over_pixels(facts: GraphFacts, node: Node) -> str | None:
    """The input must have rank {rank}, or be a line of one image, and the axes must be constant:
    height and width, or the line's.
    """
    shape = facts.features(node)[0].shape
    rank = len(shape)
    if rank != RANK and not (rank == _LINE_RANK and shape[0] == 1):
        return f"it is {list(shape)}"
    axes = facts.graph.tensor(node.inputs[AXES]).constant
    if axes is None:
        return "the axes are computed"
    found = [int(axis) for axis in axes.ravel()]
    if {axis % rank for axis in found} != {*range(1, rank - 1)} or any(
        abs(a) > rank for a in found
    ):
        return f"the axes are {found}"
    return None


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape: the pixels become one, or vanish."""
    options = node.known_options(ReducerOptions)
    images, *pixels, channels = graph.tensor(node.inputs[0]).shape
    return ((images, *(1 for _ in pixels if options.keep_dims), channels),)


@constraint()
def reduced_shape_follows(facts: GraphFacts, node: Node) -> str | None:
    """The output must have a pixel per image, or only its channels."""
    return other_shape(facts, node)


def pooled_image(image: View) -> Pooling:
    """Return a window as large as the image."""
    height, width = image.height, image.width
    return Pooling(Axis(height, 1, height), Axis(width, 1, width))


GEOMETRY = (reduced_over_pixels, reduced_shape_follows)

RULES = (*common.FIRST, *common.QUANTIZATION, *GEOMETRY)


def summed_image(chip: Chip, image: View) -> View | None:
    """Return an image as one window sums it: as it is, or a line in rows of the same length, the
    nearest to a square; None: it is larger.
    """
    most, width = most_kernel(chip), image.width
    if max(image.height, width) <= most:
        return image
    if image.height > 1:
        return None
    sizes = [n for n in range(1, most + 1) if width % n == 0 and width // n <= most]
    columns = min(sizes, key=lambda n: max(n, width // n), default=None)
    return None if columns is None else replace(image, height=width // columns, width=columns)


@constraint(most=most_kernel)
def reduced_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {most}, or those of the rows that a line is cut into."""
    image = view_of(facts.features(node)[0].shape)
    is_summed = summed_image(facts.chip, image) is not None
    return None if is_summed else f"they are {image.height} x {image.width}"


SUM_RULES = (*RULES, reduced_sides_in_range)


TargetOf = Callable[[int, tuple[float, float], tuple[int, int]], Target]
"""A function from the number of pixels, and scales and zero points (int8) of input and output."""


def plan_sum(planning: Planning, operation: Operation, target_of: TargetOf) -> Plan:
    """Plan MEAN or SUM: the sum of an image, requantised. Raises LoweringError."""
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    count = source.view.height * source.view.width
    zero_points = source.zero_point, target.zero_point
    pipeline = requantize_image(
        operation.node.index,
        target_of(count, (source.scale, target.scale), zero_points),
        has_ties_away=ties_away(planning.chip, TaskKind.DEPTHWISE, RECORD),
        rounds_in_bn=rounds_twice(planning.chip, TaskKind.DEPTHWISE, per_channel=False),
    )
    stages = {count: (-source.zero_point * count, pipeline)}
    image = summed_image(planning.chip, source.view)
    assert image is not None  # the rules ran before
    sums = WindowSums(pooled_image(image), stages)
    return plan_window_sums(planning, operation, sums)
