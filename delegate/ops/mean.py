"""MEAN over the pixels of images: sums by a convolution, requantised as the kernel does."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.numerics.means import mean_target, requantize_mean
from delegate.lower.operation import Operation, Planning
from delegate.lower.tiling.pooling import PooledAxis, Pooling
from delegate.lower.window_sums import WindowSums
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Operator, Role, Shape, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.convolution import most_kernel
from delegate.ops.shared.window_sums import WindowSumsPlan

RANK = 4
PIXEL_AXES = {1, 2}
AXES = 1


@dataclass(frozen=True, slots=True)
class ReducerOptions(Options):
    UNION_TYPE = 27

    keep_dims: bool = option(FieldKind.BOOL, slot=0, offset=0)


@constraint(rank=RANK)
def reduced_over_pixels(facts: GraphFacts, node: Node) -> str | None:
    """The input must have rank {rank}, and the axes must be constant: height and width."""
    shape = facts.features(node)[0].shape
    if len(shape) != RANK:
        return f"it is {list(shape)}"
    axes = facts.graph.tensor(node.inputs[AXES]).constant
    if axes is None:
        return "the axes are computed"
    found = [int(axis) for axis in axes.ravel()]
    if {axis % RANK for axis in found} != PIXEL_AXES or any(abs(a) > RANK for a in found):
        return f"the axes are {found}"
    return None


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    """The pixels become one, or vanish."""
    options = node.options_as(ReducerOptions)
    assert options is not None
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    return ((images, 1, 1, channels) if options.keep_dims else (images, channels),)


@constraint()
def reduced_shape_follows(facts: GraphFacts, node: Node) -> str | None:
    """The output must have a pixel per image, or only its channels."""
    (shape,) = shapes(facts.graph, node)
    output = facts.outputs(node)[0]
    if output.shape == shape:
        return None
    return f"{named(output)} is {list(output.shape)}, not {list(shape)}"


@constraint(most=most_kernel)
def reduced_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height and width must be at most {most}."""
    _, height, width, _ = facts.features(node)[0].shape
    return f"they are {height} x {width}" if max(height, width) > most_kernel(facts.chip) else None


def plan(planning: Planning, operation: Operation) -> WindowSumsPlan:
    """Raises LoweringError."""
    source, target = planning.tensor(operation.operands[0]), planning.tensor(operation.result)
    height, width = source.view.height, source.view.width
    count = height * width
    zero_points = source.zero_point, target.zero_point
    wanted = mean_target(count, (source.scale, target.scale), zero_points)
    pipeline = requantize_mean(operation.node.index, wanted)
    pooling = Pooling(PooledAxis(height, 1, height, 1, 0, 0), PooledAxis(width, 1, width, 1, 0, 0))
    stages = {count: (-source.zero_point * count, pipeline)}
    sums = WindowSums(planning.chip, operation.node, pooling, stages)
    return WindowSumsPlan(planning, operation, sums)


OPERATOR = Operator(
    name="MEAN",
    options=ReducerOptions,
    inputs=(Role.FEATURE, Role.NUMBERS),
    plan=plan,
    shapes=shapes,
    rules=(
        *common.FIRST,
        *common.QUANTIZATION,
        reduced_over_pixels,
        reduced_shape_follows,
        reduced_sides_in_range,
    ),
)
