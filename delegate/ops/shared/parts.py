"""Places tensors in one another, by the maps of joins, cuts and new shapes.

Goes to: rules, plans, and ``partition.aliases``, which gives the tensors of a partition one piece
of memory. An element's place is its image, pixel (row by row) and channel of one byte.

Parts of uint8 that CONCATENATION requantises.

Rules of operators that join or cut tensors: where they can, these lie inside one another.

Whether the parts of several nodes can all be had at once is decided per partition, in
``partition.aliases``. Others are moved by tasks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from delegate.chip.chip import Chip, Primitive
from delegate.chip.element import CHANNELS_PER_SURFACE, Element
from delegate.lower.memory.tensors import (
    device_element,
    memory_view,
    view_of,
    whole_channels,
)
from delegate.lower.moves import Part
from delegate.lower.rearrangement import rearrangement
from delegate.lower.reorder import MOST_TASKS
from delegate.lower.selection import Move
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.model.index_map import IndexMap, MapError, coordinates
from delegate.ops.operator import GraphFacts, Movement, Operator, constraint, named
from delegate.ops.shared import common
from delegate.ops.shared.common import TYPE_RANGES, feature_rank, keeps_quantization, other_shape
from delegate.ops.shared.convolution import most_kernel, most_stride
from delegate.ops.shared.fixed_point import UndefinedResultError, in_units

Position = tuple[int, int, int]
"""Image, pixel of it, counted row by row, and channel of one byte."""

ORIGIN = (0, 0, 0)
RANK = 4


def extent(tensor: Tensor) -> Position:
    """Return the images, pixels and channels of one byte of a tensor of rank 0 to 4."""
    view = memory_view(tensor)
    return view.images, view.pixels, view.channels


def shifts(facts: GraphFacts, node: Node) -> Iterator[tuple[int, int, Position | None]]:
    """Yield an operand, a result, and by how much the places of all their common elements are
    higher in the operand; None: they differ. Raises MapError.
    """
    graph, operands = facts.graph, facts.operator(node).feature_inputs(node)
    sources = [extent(graph.tensor(operand)) for operand in operands]
    for result, found in zip(node.outputs, facts.maps(node), strict=True):
        tensor = graph.tensor(result)
        wide = found.in_bytes(device_element(tensor).bytes)
        placed = wide.by_dimensions(extent(tensor), *sources)
        for number, operand in enumerate(operands):
            shift = placed.shift(number)
            if shift is None:
                yield operand, result, None
                continue
            image, pixel, channel = coordinates(shift, len(ORIGIN))
            yield operand, result, (image, pixel, channel)


def is_free(facts: GraphFacts, node: Node) -> bool:
    """Return whether all parts can lie in the whole, as far as a node can tell.

    A part is free where it begins at a surface of 16 bytes, or is consecutive pixels or whole
    images. In fp16 it also ends with one, or with the whole: group padding is read, and must not be
    elements of somebody else, which may be infinite.
    """
    found = facts.free.get(node.index)
    if found is None:
        found = facts.free[node.index] = _are_free(facts, node)
    return found


def _are_free(facts: GraphFacts, node: Node) -> bool:
    operands = facts.operator(node).feature_inputs(node)
    if len(set(operands)) < len(operands):
        return False
    if any(facts.graph.tensor(operand).constant is not None for operand in operands):
        return False
    is_cut = facts.movement(node) is Movement.CUT  # keeps every byte, by rule
    try:
        return all(_is_free(facts.graph, *shift, is_cut) for shift in shifts(facts, node))
    except MapError:
        return False


def _is_free(graph: Graph, operand: int, result: int, shift: Position | None, is_cut: bool) -> bool:
    source, target = graph.tensor(operand), graph.tensor(result)
    if shift is None or shift[2] % CHANNELS_PER_SURFACE:
        return False
    if device_element(target) is not Element.FP16:
        return is_cut or source.quantization == target.quantization
    part, whole = sorted(extent(tensor)[2] for tensor in (source, target))
    return abs(shift[2]) + part == whole or part % CHANNELS_PER_SURFACE == 0


def is_spread(tensor: Tensor) -> bool:
    """Return whether the host brings elements elsewhere while it converts: those of 8 bits."""
    return tensor.dtype in common.FEATURE_TYPES


def parts_of(graph: Graph, operator: Operator, node: Node) -> tuple[Part, ...]:
    """Return the operands as parts of the result of a join, or the results as parts of the operand,
    of a node of which ``alias_position_known`` holds. Raises MapError where one is no box there.
    """
    assert operator.maps is not None, node.op
    results = [graph.tensor(result) for result in node.outputs]
    operands = [graph.tensor(operand) for operand in operator.feature_inputs(node)]
    found = operator.maps(graph, node)
    if operator.movement is Movement.JOIN:
        back = [found[0].invert(n, math.prod(t.shape)) for n, t in enumerate(operands)]
        return tuple(_part(moved, t, results[0]) for moved, t in zip(back, operands, strict=True))
    return tuple(_part(moved, t, operands[0]) for moved, t in zip(found, results, strict=True))


def _part(moved: IndexMap | None, part: Tensor, whole: Tensor) -> Part:
    """Return the box of ``whole`` that ``part`` is. Raises MapError."""
    sizes = [(v.images, v.height, v.width, v.channels) for v in map(memory_view, (part, whole))]
    wide = None if moved is None else moved.in_bytes(device_element(whole).bytes)
    pieces = () if wide is None else wide.by_dimensions(*sizes).pieces
    if len(pieces) != 1:
        raise MapError(f"{list(part.shape)} is no box of {list(whole.shape)}")
    steps = [1] * RANK
    for digit in pieces[0].digits:
        source, result = (coordinates(distance, RANK) for distance in digit[1:])
        axis = next(axis for axis in range(RANK) if result[axis])
        if result[axis] != 1 or any(source[:axis]) or any(source[axis + 1 :]):
            raise MapError(f"{list(part.shape)} is no box of {list(whole.shape)}")
        steps[axis] = source[axis]
    images, rows, columns, channels = steps
    if (images, channels) != (1, 1):
        raise MapError(f"the strides are {steps}")
    image, row, column, channel = coordinates(pieces[0].first_source, RANK)
    return Part(part, whole, (image, row, column, channel), (rows, columns))


def part_requantized(part: Tensor, whole: Tensor) -> bytes | None:
    """Return what the kernels of CONCATENATION make of the device's values -128 to 127 of a uint8
    part, as int8: the product in float32, rounded half away from zero. None: nothing; they copy
    those of other types. Raises UndefinedResultError.
    """
    before, after = part.quantization, whole.quantization
    if part.dtype is not DType.UINT8 or before == after:
        return None
    assert before is not None
    assert after is not None
    low, high = TYPE_RANGES[part.dtype]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = np.float32(before.scale) * (np.float32(1.0) / np.float32(after.scale))
        bias = np.float32(-before.zero_point) * scale
        values = np.arange(low, high + 1).astype(np.float32) * scale + bias
        results = in_units(values, after.zero_point)
    offset = whole.dtype.element.offset
    return (np.clip(results, low, high) - offset).astype(np.int8).tobytes()


@constraint()
def parts_defined(facts: GraphFacts, node: Node) -> str | None:
    """Requantised parts must be int32 in units of the output's scale: the kernels leave open what
    others become.
    """
    *parts, whole = facts.features(node)
    for part in parts:
        try:
            part_requantized(part, whole)
        except UndefinedResultError as error:
            return f"{named(part)}: {error}"
    return None


@constraint()
def int8_parts_keep_quantization(facts: GraphFacts, node: Node) -> str | None:
    """All tensors of int8 must have the same scale and zero point, as the runtime demands."""
    if facts.features(node)[0].dtype is DType.UINT8:
        return None
    return keeps_quantization.check(facts, node)


@constraint()
def alias_position_known(facts: GraphFacts, node: Node) -> str | None:
    """Axis, begin, sizes and strides must be constant and inside the tensor, no dimension added,
    and the shapes follow.
    """
    try:
        facts.maps(node)
    except MapError as error:
        return str(error)
    return other_shape(facts, node)


def _most_columns(chip: Chip) -> int:
    """Return the most columns left of a part, over which a kernel reaches."""
    return most_kernel(chip) - 1


def direct_parts(chip: Chip, graph: Graph, operator: Operator, node: Node) -> list[Part | None]:
    """Return the parts of a join if copies bring all of them to consecutive pixels, or those that a
    kernel reaches from the first pixel of each row of what is cut; None: others.
    """
    try:
        parts = parts_of(graph, operator, node)
    except MapError:
        return [None] * len(node.outputs)
    if operator.movement is Movement.JOIN:
        views = [(view_of(part.part.shape), view_of(part.whole.shape)) for part in parts]
        is_direct = all(view.height == 1 or view.width == whole.width for view, whole in views)
        is_direct = is_direct and all(part.steps == (1, 1) for part in parts)
        return [part if is_direct else None for part in parts]
    stride, columns = most_stride(chip), _most_columns(chip)
    reached = (max(part.steps) <= stride and part.begin[2] <= columns for part in parts)
    return [part if is_near else None for part, is_near in zip(parts, reached, strict=True)]


def part_moves(
    chip: Chip,
    graph: Graph,
    operator: Operator,
    node: Node,
    results: Collection[int],
    *,
    is_known: bool = False,
) -> Iterator[tuple[int, int, Move | None]]:
    """Yield an operand, one of ``results`` and how tasks move what they have in common; None: they
    cannot, or with ``is_known`` ``chip`` is not known to. Raises MapError.
    """
    assert operator.maps is not None, node.op
    for result, found in zip(node.outputs, operator.maps(graph, node), strict=True):
        if result not in results:
            continue
        for number, operand in enumerate(operator.feature_inputs(node)):
            pieces = (piece._replace(source=0) for piece in found.pieces if piece.source == number)
            ends = graph.tensor(operand), graph.tensor(result)
            moved = IndexMap(found.size, tuple(pieces))
            yield operand, result, rearrangement_of(chip, *ends, moved, is_known=is_known)


def rearrangement_of(
    chip: Chip, source: Tensor, result: Tensor, moved: IndexMap, *, is_known: bool = False
) -> Move | None:
    """Return how tasks bring elements from ``source`` to ``result`` as ``moved`` says; None: they
    cannot, or with ``is_known`` ``chip`` is not known to.
    """
    try:
        found = moved.in_bytes(device_element(result).bytes)
        given = chip, found, memory_view(source), memory_view(result), whole_channels(result)
        move = rearrangement(*given)
        if move is not None and is_known and Primitive.ROW_GAPS in chip.lacks:
            return rearrangement(*given, is_known=True)
    except MapError:
        return None
    return move


@constraint(most=MOST_TASKS, columns=_most_columns)
def parts_are_reached(facts: GraphFacts, node: Node) -> str | None:
    """Parts must be consecutive pixels, or boxes at most {columns} columns from the left of what is
    cut, or moved by at most {most} convolutions.
    """
    given = facts.chip, facts.graph, facts.operator(node), node
    if is_free(facts, node) or None not in direct_parts(*given):
        return None
    for operand, result, move in part_moves(*given, node.outputs):
        before, after = (facts.graph.tensor(index) for index in (operand, result))
        if move is None:
            return f"{named(before)} is {list(before.shape)}, {named(after)} {list(after.shape)}"
        if facts.movement(node) is Movement.JOIN and part_requantized(before, after) is not None:
            return f"{named(before)} is requantised to {named(after)}"
    return None


OF_UINT8_PARTS = (int8_parts_keep_quantization, parts_defined)
"""The rules of joins that requantise parts of uint8."""

JOINS = (
    common.quantization_in_range,
    feature_rank,
    int8_parts_keep_quantization,
    alias_position_known,
    parts_defined,
    parts_are_reached,
)
CUTS = (
    common.quantization_in_range,
    feature_rank,
    keeps_quantization,
    alias_position_known,
    parts_are_reached,
)
HALF = (feature_rank, alias_position_known, parts_are_reached)
"""The rules in fp16."""

FIRST = tuple(
    common.no_activation if rule is common.activation_supported else rule for rule in common.FIRST
)
