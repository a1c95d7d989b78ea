"""The common part of MAX_POOL_2D and AVERAGE_POOL_2D: options, rules, and the geometry of their
windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.chip.chip import Chip
from delegate.lower.tiling.pooling import PooledAxis, Pooling
from delegate.model.graph import Activation, Graph, Node, Padding
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Shape, constraint, named
from delegate.ops.shared.convolution import most_padding, most_stride, output_and_padding
from delegate.ops.shared.fixed_point import INT32_MAX
from delegate.ops.shared.image_rules import RANK, of_kept_values


@dataclass(frozen=True, slots=True)
class PoolOptions(Options):
    UNION_TYPE = 5
    NEEDS_TABLE = True

    padding: Padding = option(FieldKind.PADDING, slot=0, offset=0)
    stride_w: int = option(FieldKind.INT32, slot=1, offset=4, usual=1)
    stride_h: int = option(FieldKind.INT32, slot=2, offset=8, usual=1)
    filter_w: int = option(FieldKind.INT32, slot=3, offset=12, usual=1)
    filter_h: int = option(FieldKind.INT32, slot=4, offset=16, usual=1)
    activation: Activation = option(FieldKind.ACTIVATION, slot=5, offset=20)


def pool_options(node: Node) -> PoolOptions:
    """``options_known`` ran before."""
    return node.known_options(PoolOptions)


def pooling_of(graph: Graph, node: Node) -> Pooling:
    """How it slides over the input; the rules have checked the shapes."""
    options = pool_options(node)
    _, height, width, _ = graph.tensor(node.inputs[0]).shape
    return Pooling(
        _sides(height, options.filter_h, options.stride_h, options.padding),
        _sides(width, options.filter_w, options.stride_w, options.padding),
    )


def _sides(size: int, kernel: int, stride: int, padding: Padding) -> PooledAxis:
    output, before = output_and_padding(size, kernel, stride, 1, padding)
    after = max((output - 1) * stride + kernel - size - before, 0)
    # A stride that leads nowhere may be of any size.
    return PooledAxis(size, output, kernel, stride if output > 1 else 1, before, after)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    images, _, _, channels = graph.tensor(node.inputs[0]).shape
    pooling = pooling_of(graph, node)
    return ((images, pooling.rows.output, pooling.columns.output, channels),)


@constraint(rank=RANK)
def pool_rank(facts: GraphFacts, node: Node) -> str | None:
    """Input and output must have rank {rank}, and the same batch and channels."""
    shapes = [tensor.shape for tensor in facts.features(node)]
    if all(len(shape) == RANK for shape in shapes):
        (images, _, _, channels), other = shapes
        if (images, channels) == (other[0], other[3]):
            return None
    return " and ".join(str(list(shape)) for shape in shapes)


@constraint(stride=most_stride)
def window_in_range(facts: GraphFacts, node: Node) -> str | None:
    """The window must have a row and a column, and strides from 1 to {stride}, larger only where
    they lead nowhere within int32.
    """
    # The runtime adds the stride to the side of the image in int32.
    o = pool_options(node)
    strides = o.stride_h, o.stride_w
    before, after = (t.shape[1:3] for t in (facts.features(node)[0], facts.outputs(node)[0]))
    is_large = any(
        stride > most_stride(facts.chip) and (output > 1 or stride + size > INT32_MAX)
        for stride, size, output in zip(strides, before, after, strict=True)
    )
    if min(o.filter_h, o.filter_w, *strides) < 1 or is_large:
        return f"it is {o.filter_h} x {o.filter_w}, the strides {o.stride_h} x {o.stride_w}"
    return None


def _most_side(chip: Chip) -> int:
    """A border is part of what tasks write."""
    return chip.limits.cube_size - chip.limits.pad


@constraint(most=_most_side)
def pooled_sides_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Height, width and channels must be at most {most}."""
    _, *sides = facts.features(node)[0].shape
    return f"they are {sides}" if max(sides) > _most_side(facts.chip) else None


@constraint()
def pooled_size_follows(facts: GraphFacts, node: Node) -> str | None:
    """Height and width of the output must follow from input, window, strides and padding."""
    pooling = pooling_of(facts.graph, node)
    sizes = pooling.rows.output, pooling.columns.output
    output = facts.outputs(node)[0]
    if output.shape[1:3] == sizes and min(sizes) > 0:
        return None
    return f"{named(output)} is {output.shape[1]} x {output.shape[2]}, not {sizes[0]} x {sizes[1]}"


@constraint(most=most_padding)
def pool_padding_in_range(facts: GraphFacts, node: Node) -> str | None:
    """Padding above and below, and left and right, must be at most {most} together."""
    pooling = pooling_of(facts.graph, node)
    totals = pooling.rows.padding, pooling.columns.padding
    return f"{totals[0]} and {totals[1]}" if max(totals) > most_padding(facts.chip) else None


GEOMETRY = (
    pool_rank,
    window_in_range,
    pooled_sides_in_range,
    pooled_size_follows,
    pool_padding_in_range,
)

RULES = of_kept_values(*GEOMETRY)
