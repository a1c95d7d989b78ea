"""Rules of operators that join or cut tensors: where they can, these lie inside one another.

A part of a tensor is free where it begins at a surface of 16 bytes, or is consecutive pixels or
whole images. In fp16 it also ends with one, or with the whole: spare lanes are read, and must not
be those of somebody else, which may be infinite.
Whether the parts of several nodes can all be had at once is decided per partition, in
``partition.aliases``. Others are moved by tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from delegate.chip.chip import Chip
from delegate.chip.element import Element
from delegate.chip.limits import CHANNELS_PER_SURFACE
from delegate.lower.memory.tensors import device_element
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.ops.operator import GraphFacts, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.image_rules import feature_rank, keeps_quantization
from delegate.ops.shared.links import Link, LinkError, four_dimensions
from delegate.ops.shared.requantized_parts import parts_defined


@constraint()
def int8_parts_keep_quantization(facts: GraphFacts, node: Node) -> str | None:
    """All tensors of int8 must have the same scale and zero point, as the runtime demands."""
    if facts.features(node)[0].dtype is DType.UINT8:
        return None
    return keeps_quantization.check(facts, node)


@constraint()
def alias_position_known(facts: GraphFacts, node: Node) -> str | None:
    """Axis, begin, sizes and strides must be constant and inside the tensor, the rank kept, images
    and channels not skipped.
    """
    try:
        facts.links(node)
    except LinkError as error:
        return str(error)
    return None


@constraint()
def parts_are_consecutive(facts: GraphFacts, node: Node) -> str | None:
    """Every part must be consecutive pixels, or all pixels, of what is joined."""
    for link in facts.links(node):
        part, whole = facts.graph.tensor(link.part), facts.graph.tensor(link.whole)
        if not _is_consecutive(part, whole):
            return f"{named(part)} takes a part of the rows of {named(whole)}"
    return None


def _most_columns(chip: Chip) -> int:
    """A kernel reaches over what is left out."""
    return most_kernel(chip) - 1


@constraint(columns=_most_columns, stride=most_stride)
def part_is_reached(facts: GraphFacts, node: Node) -> str | None:
    """A part that is no consecutive pixels must begin at most {columns} columns from the left, and
    strides must be at most {stride}.
    """
    for link in facts.links(node):
        part, whole = facts.graph.tensor(link.part), facts.graph.tensor(link.whole)
        if max(link.steps) > most_stride(facts.chip):
            return f"the strides are {list(link.steps)}"
        if link.begin[2] > _most_columns(facts.chip) and not _is_free(link, part, whole):
            return f"{named(part)} begins at column {link.begin[2]}"
    return None


def _is_consecutive(part: Tensor, whole: Tensor) -> bool:
    _, height, width, _ = four_dimensions(part.shape)
    return height == 1 or width == four_dimensions(whole.shape)[2]


def _is_free(link: Link, part: Tensor, whole: Tensor) -> bool:
    if link.steps != (1, 1) or not _is_consecutive(part, whole):
        return False
    element = device_element(whole)
    if element is Element.FP16:
        begin, channels = link.begin[3], four_dimensions(part.shape)[3]
        is_last = begin + channels == four_dimensions(whole.shape)[3]
        return begin % element.lanes == 0 and (is_last or channels % element.lanes == 0)
    is_surface = link.begin[3] % CHANNELS_PER_SURFACE == 0
    return is_surface and part.quantization == whole.quantization


def are_free(graph: Graph, links: Sequence[Link]) -> bool:
    """Whether all parts can lie in the whole, as far as a node can tell."""
    tensors = [link.part for link in links]
    return len(set(tensors)) == len(tensors) and all(
        _is_free(link, graph.tensor(link.part), graph.tensor(link.whole)) for link in links
    )


OF_UINT8_PARTS = (int8_parts_keep_quantization, parts_defined)
"""The rules of joins that requantise parts of uint8."""

JOINS = (
    *common.QUANTIZATION,
    feature_rank,
    int8_parts_keep_quantization,
    alias_position_known,
    parts_are_consecutive,
    parts_defined,
)
CUTS = (
    *common.QUANTIZATION,
    feature_rank,
    keeps_quantization,
    alias_position_known,
    part_is_reached,
)
HALF_JOINS = (feature_rank, alias_position_known, parts_are_consecutive)
HALF_CUTS = (feature_rank, alias_position_known, part_is_reached)
"""Of fp16."""

FIRST = tuple(
    common.no_activation if rule is common.activation_supported else rule for rule in common.FIRST
)
