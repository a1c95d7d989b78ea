"""The common part of MEAN, SUM and REDUCE_MAX over height and width: options, rules, shapes."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.memory.tensors import View
from delegate.lower.tiling.pooling import PooledAxis, Pooling
from delegate.model.graph import Graph, Node
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import GraphFacts, Shape, constraint
from delegate.ops.shared import common
from delegate.ops.shared.image_rules import RANK, other_shape

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
    options = node.known_options(ReducerOptions)
    images, *_, channels = graph.tensor(node.inputs[0]).shape
    return ((images, 1, 1, channels) if options.keep_dims else (images, channels),)


@constraint()
def reduced_shape_follows(facts: GraphFacts, node: Node) -> str | None:
    """The output must have a pixel per image, or only its channels."""
    return other_shape(facts, node)


def pooled_image(image: View) -> Pooling:
    """A window as large as the image."""
    height, width = image.height, image.width
    return Pooling(PooledAxis(height, 1, height, 1, 0, 0), PooledAxis(width, 1, width, 1, 0, 0))


GEOMETRY = (reduced_over_pixels, reduced_shape_follows)

RULES = (*common.FIRST, *common.QUANTIZATION, *GEOMETRY)
