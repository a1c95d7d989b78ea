"""The common part of MEAN, SUM and REDUCE_MAX over height and width, or over channels: options,
rules, shapes, and the plan of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from delegate.chip.chip import Chip
from delegate.lower.legalize import RECORD, rounds_twice, ties_away
from delegate.lower.memory.tensors import View, view_of
from delegate.lower.numerics.image_sums import requantize_image
from delegate.lower.numerics.pipeline import Pipeline
from delegate.lower.numerics.tflite import Target
from delegate.lower.operation import Operation, Plan, Planning
from delegate.lower.task import TaskKind
from delegate.lower.tiling.geometry import Axis, Pooling
from delegate.model.graph import Graph, Node
from delegate.model.index_map import MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Shape, constraint
from delegate.ops.shared import common
from delegate.ops.shared.common import other_shape
from delegate.ops.shared.convolution import most_kernel
from delegate.ops.shared.dense_sums import (
    has_strips,
    longest_strip,
    most_strips,
    plan_channel_sum,
    plan_large_sum,
    strips_of,
)
from delegate.ops.shared.image_rules import RANK
from delegate.ops.shared.pooling import WindowSums, plan_window_sums

AXES = 1
_LINE_RANK = RANK - 1


@dataclass(frozen=True, slots=True)
class ReducerOptions(Options):
    UNION_TYPE = 27

    keep_dims: bool = option(FieldKind.BOOL, slot=0, offset=0)


@dataclass(frozen=True, slots=True)
class GroupOptions(ReducerOptions):
    """Say that a sum over pixels is that of ``members`` channels, which each of them gets."""

    members: int = 1


def members_of(node: Node) -> int | None:
    """Return the channels of a group that are summed together; None: each is by itself."""
    return node.options.members if isinstance(node.options, GroupOptions) else None


@constraint(least=_LINE_RANK)
def reduced_over_pixels_or_channels(facts: GraphFacts, node: Node) -> str | None:
    """The axes must be constant: all pixels of rank {least} or more, or the last one, which is
    kept; those of one element do not count.
    """
    return None if reduces_channels(facts.graph, node) else _other_pixels(facts.graph, node)


def _other_pixels(graph: Graph, node: Node) -> str | None:
    """Return what is reduced if it is not the pixels."""
    shape, axes = graph.tensor(node.inputs[0]).shape, graph.tensor(node.inputs[AXES]).constant
    if axes is None:
        return "the axes are computed"
    reduced, rank = reduced_axes(graph, node), len(shape)
    # A line of several images would be rows of one.
    is_image = rank >= RANK or (rank == _LINE_RANK and shape[0] == 1)
    if reduced is not None and is_image:
        keeps_channels = node.known_options(ReducerOptions).keep_dims or rank - 1 not in reduced
        pixels = {axis for axis in range(1, rank - 1) if shape[axis] > 1}
        if keeps_channels and {axis for axis in reduced if shape[axis] > 1} == pixels:
            return None
    return f"the axes are {axes.ravel().tolist()}, the shape is {list(shape)}"


def reduces_channels(graph: Graph, node: Node) -> bool:
    """Return whether the last axis is reduced to one element that is kept, and no other one but
    those of one element.
    """
    shape, reduced = graph.tensor(node.inputs[0]).shape, reduced_axes(graph, node)
    if reduced is None or not node.known_options(ReducerOptions).keep_dims:
        return False
    last = len(shape) - 1
    return last in reduced and all(shape[axis] == 1 for axis in reduced - {last})


def reduced_axes(graph: Graph, node: Node) -> set[int] | None:
    """Return the axes, counted from the first one; None: they are computed, or there is no such
    one.
    """
    rank, axes = len(graph.tensor(node.inputs[0]).shape), graph.tensor(node.inputs[AXES]).constant
    if axes is None or not all(-rank <= axis < rank for axis in axes.ravel()):
        return None
    return {int(axis) % rank for axis in axes.ravel()}


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """Return the shape: reduced dimensions become one, or vanish. Raises MapError."""
    shape, reduced = graph.tensor(node.inputs[0]).shape, reduced_axes(graph, node)
    if reduced is None:
        raise MapError(f"the axes are not known in {list(shape)}")
    if node.known_options(ReducerOptions).keep_dims:
        return (tuple(1 if axis in reduced else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in reduced),)


@constraint()
def reduced_shape_follows(facts: GraphFacts, node: Node) -> str | None:
    """The output must have a pixel per image, or only its channels."""
    return other_shape(facts, node)


def pooled_image(image: View) -> Pooling:
    """Return a window as large as the image."""
    height, width = image.height, image.width
    return Pooling(Axis(height, 1, height), Axis(width, 1, width))


GEOMETRY = (reduced_over_pixels_or_channels, reduced_shape_follows)

RULES = (*common.FIRST, common.quantization_in_range, *GEOMETRY)


def summed_image(chip: Chip, image: View) -> View | None:
    """Return an image as one window sums it: as it is, or its pixels in rows of another length, the
    nearest to a square; None: it is larger.
    """
    most, pixels = most_kernel(chip), image.pixels
    if max(image.height, image.width) <= most:
        return image
    sizes = [n for n in range(1, most + 1) if pixels % n == 0 and pixels // n <= most]
    columns = min(sizes, key=lambda n: max(n, pixels // n), default=None)
    return None if columns is None else replace(image, height=pixels // columns, width=columns)


@constraint(most=most_kernel, strip=longest_strip, strips=most_strips)
def reduced_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {most}, perhaps with pixels in other rows, or those of up to
    {strips} strips of up to {strip} pixels.
    """
    image = view_of(facts.features(node)[0].shape)
    if reduces_channels(facts.graph, node):
        return None
    return why_not_summed(facts.chip, image, is_grouped=members_of(node) is not None)


def why_not_summed(chip: Chip, image: View, *, is_grouped: bool = False) -> str | None:
    """Return what keeps an image from being summed; ``is_grouped``: with the channels of groups."""
    if (summed_image(chip, image) and not is_grouped) or strips_of(chip, image.pixels):
        return None
    known = "" if has_strips(chip) else ", and no tasks for strips are known"
    return f"they are {image.height} x {image.width}{known}"


SUM_RULES = (*RULES, reduced_sides_in_range)


TargetOf = Callable[[int, tuple[float, float], tuple[int, int]], Target]
"""A function from the number of pixels, and scales and zero points (int8) of input and output."""


def plan_sum(planning: Planning, operation: Operation, target_of: TargetOf) -> Plan:
    """Plan MEAN or SUM: the sum of an image, requantised. Raises LoweringError."""
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    of_channels = reduces_channels(planning.graph, operation.node)
    members = members_of(operation.node)
    count = source.view.channels if of_channels else source.view.pixels * (members or 1)
    is_window = not of_channels and members is None
    kind = kind_of_sum(planning.chip, source.view) if is_window else TaskKind.DENSE
    zero_points = source.zero_point, target.zero_point
    pipeline = requantize_image(
        operation.node.index,
        target_of(count, (source.scale, target.scale), zero_points),
        has_ties_away=ties_away(planning.chip, kind, RECORD),
        rounds_in_bn=rounds_twice(planning.chip, kind, per_channel=False),
    )
    stages = -source.zero_point * count, pipeline
    if of_channels:
        return plan_channel_sum(planning, operation, stages)
    return plan_image_sum(planning, operation, stages, members)


def kind_of_sum(chip: Chip, image: View) -> TaskKind:
    """Return the kind of the task whose stages make the result of ``plan_image_sum``."""
    return TaskKind.DENSE if summed_image(chip, image) is None else TaskKind.DEPTHWISE


def plan_image_sum(
    planning: Planning,
    operation: Operation,
    stages: tuple[int, Pipeline],
    members: int | None = None,
) -> Plan:
    """Plan the sum of every image, which the rules have found possible. ``stages``: of the sum, to
    which they add a number first; ``members``: of groups of channels. Raises LoweringError.
    """
    view = planning.tensor(operation.operands[0]).view
    image = summed_image(planning.chip, view) if members is None else None
    if image is None:
        strips = strips_of(planning.chip, view.pixels)
        assert strips is not None  # the rules ran before
        return plan_large_sum(planning, operation, strips, stages, members or 1)
    sums = WindowSums(pooled_image(image), {view.pixels: stages})
    return plan_window_sums(planning, operation, sums)
