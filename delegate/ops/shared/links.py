"""Tensors that are parts of others: what concatenations, splits and slices say of them.

Goes to: the rules of those operators, and ``partition.aliases``, which gives the tensors of a
partition one piece of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delegate.lower.memory.tensors import device_element, memory_view
from delegate.model.graph import Graph, Node, Tensor

RANK = 4

Box = tuple[int, int, int, int]
"""Images, rows, columns and channels: a position or size."""

Position = tuple[int, int, int]
"""Image, pixel of it, counted row by row, and channel."""


class LinkError(ValueError):
    """The axis, the begin or the sizes of an alias are unknown or impossible."""


@dataclass(frozen=True, slots=True)
class Link:
    """``part`` is a box of ``whole``, or as many pixels of as many channels in other rows;
    ``begin`` is its first element there. ``steps``: every how many rows and columns are taken.
    """

    whole: int
    part: int
    begin: Box
    steps: tuple[int, int] = (1, 1)


def four_dimensions(shape: Sequence[int], fill: int = 1) -> Box:
    """A shape or position of rank 0 to 4 with leading ``fill``."""
    images, height, width, channels = (fill,) * (RANK - len(shape)) + tuple(shape)
    return images, height, width, channels


def axis_of(axis: int, shape: Sequence[int]) -> int:
    """An axis that may count from the end, from the front. Raises LinkError."""
    if not -len(shape) <= axis < len(shape):
        raise LinkError(f"the axis is {axis}, the shape {list(shape)}")
    return axis % len(shape)


def position(graph: Graph, link: Link) -> Position:
    """Where ``link.part`` begins in ``link.whole``, in channels of one byte."""
    whole = graph.tensor(link.whole)
    _, _, width, _ = four_dimensions(whole.shape)
    image, row, column, channel = link.begin
    return image, row * width + column, channel * device_element(whole).bytes


def extent(tensor: Tensor) -> Position:
    """Images, pixels and channels of one byte of a tensor of rank 0 to 4."""
    view = memory_view(tensor)
    return view.images, view.pixels, view.channels


def parts_along(graph: Graph, whole: int, parts: Sequence[int], axis: int) -> tuple[Link, ...]:
    """``parts`` one after the other along ``axis`` of ``whole``. Raises LinkError."""
    shape = graph.tensor(whole).shape
    axis = axis_of(axis, shape)
    links = []
    end = 0
    for part in parts:
        begin = [0] * len(shape)
        begin[axis] = end
        links.append(part_at(graph, whole, part, begin))
        size = graph.tensor(part).shape
        if (*size[:axis], *size[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
            raise LinkError(f"{list(size)} is a part of {list(shape)} along axis {axis}")
        end += size[axis]
    if end != shape[axis]:
        raise LinkError(f"parts of {end} make a tensor of shape {list(shape)}")
    return tuple(links)


def places_along(graph: Graph, whole: int, parts: Sequence[int], axis: int) -> tuple[Link, ...]:
    """``parts``, which lack the dimension ``axis`` of ``whole``, one at each of its places. Raises
    LinkError, also where a place has not the rows and channels of its part.
    """
    shape = graph.tensor(whole).shape
    axis = axis_of(axis, shape)
    if len(parts) != shape[axis]:
        raise LinkError(f"{len(parts)} parts make no {list(shape)} along axis {axis}")
    box = four_dimensions((*shape[:axis], 1, *shape[axis + 1 :]))
    links = []
    for number, part in enumerate(parts):
        size = graph.tensor(part).shape
        if size != (*shape[:axis], *shape[axis + 1 :]) or four_dimensions(size) != box:
            raise LinkError(f"{list(size)} are no rows of {list(shape)} along axis {axis}")
        begin = [0] * len(shape)
        begin[axis] = number
        links.append(Link(whole, part, four_dimensions(begin, 0)))
    return tuple(links)


def part_at(
    graph: Graph, whole: int, part: int, begin: Sequence[int], steps: Sequence[int] | None = None
) -> Link:
    """``part`` at ``begin`` of ``whole``, one of every ``steps`` elements. Raises LinkError where
    it is not inside, or where images or channels are left out.
    """
    outer, inner = graph.tensor(whole).shape, graph.tensor(part).shape
    steps = steps or [1] * len(inner)
    fits = len(outer) == len(inner) and all(
        first >= 0 and first + (size - 1) * step < most
        for first, size, step, most in zip(begin, inner, steps, outer, strict=True)
    )
    if not fits:
        raise LinkError(f"{list(inner)} from {list(begin)} on do not lie in {list(outer)}")
    images, rows, columns, channels = four_dimensions(steps)
    if images != 1 or channels != 1:
        raise LinkError(f"the strides are {list(steps)}")
    return Link(whole, part, four_dimensions(begin, 0), (rows, columns))


def check_size(graph: Graph, node: Node, sizes: Sequence[int]) -> None:
    """Raises LinkError unless the output has the shape that a slice gives."""
    found = graph.tensor(node.outputs[0]).shape
    if tuple(sizes) != found:
        raise LinkError(f"it gives {list(sizes)}, the output is {list(found)}")


def integers(graph: Graph, index: int, count: int) -> tuple[int, ...]:
    """The ``count`` integers of a constant tensor. Raises LinkError."""
    tensor = graph.tensor(index)
    if tensor.constant is None or tensor.constant.size != count:
        raise LinkError(f"tensor {index} {tensor.name!r} does not hold {count} constants")
    if not np.issubdtype(tensor.constant.dtype, np.integer):
        raise LinkError(f"tensor {index} {tensor.name!r} is {tensor.dtype.name}")
    return tuple(int(value) for value in tensor.constant.reshape(-1))
