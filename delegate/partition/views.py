"""Concatenations, splits and slices by address: which tensors lie inside others, and where.

Comes from: the view nodes of a partition, which compute nothing. Goes to: the partitioner (a
rejection for every view node that would need a copy) and ``lower.memory``, which gives the tensors
of a group one piece of memory. Free is what whole surfaces of 16 channels, rows or images of a
larger tensor make; both tensors have the same quantisation, so results are exactly the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from delegate.graph import ConcatenationOptions, Graph, Node, StridedSliceOptions
from delegate.partition.types import Partition, Rejection

SLICES = ("SPLIT", "SLICE", "STRIDED_SLICE")
VIEW_OPS = ("CONCATENATION", *SLICES)
RANK = 4
# Channels of a surface in NC1HWC2: a tensor can begin only where a surface does. Observed.
SURFACE_CHANNELS = 16
# More tensors in one piece of memory than any network has; their pairs are compared.
MAX_GROUP = 256

# The feature maps among the inputs; the other inputs are axes, sizes and strides.
_FIRST_FEATURE = {"SPLIT": 1}

Position = tuple[int, int, int, int]
"""Image, row, column and channel."""


class ViewError(ValueError):
    """The axis, the begin or the sizes of a view node are unknown or impossible."""


@dataclass(frozen=True, slots=True)
class Link:
    """``part`` is a box of ``whole``; ``begin`` is its first element there."""

    whole: int
    part: int
    begin: Position


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor begins in the piece of memory of its group, named by one of its tensors."""

    group: int
    image: int
    row: int
    channel: int


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A place for every tensor that shares memory, and the view nodes that would need a copy."""

    places: Mapping[int, Place]
    rejections: tuple[Rejection, ...]


def view_features(node: Node) -> tuple[int, ...]:
    """The feature maps of a view node: what it reads, then what it writes."""
    if node.op == "CONCATENATION":
        return (*node.inputs, *node.outputs)
    first = _FIRST_FEATURE.get(node.op, 0)
    return (node.inputs[first], *node.outputs)


def four_dimensions(shape: Sequence[int], fill: int = 1) -> Position:
    """A shape or position of rank 0 to 4 with leading ``fill``."""
    images, height, width, channels = (fill,) * (RANK - len(shape)) + tuple(shape)
    return images, height, width, channels


def links_of(graph: Graph, node: Node) -> tuple[Link, ...]:
    """Which tensors of ``node`` lie where in which. Raises ViewError."""
    if node.op == "CONCATENATION":
        assert isinstance(node.options, ConcatenationOptions)
        return _along(graph, node.outputs[0], node.inputs, node.options.axis)
    if node.op == "SPLIT":
        axis = _integers(graph, node.inputs[0], 1)[0]
        return _along(graph, node.inputs[1], node.outputs, axis)
    whole, part = node.inputs[0], node.outputs[0]
    begin = _slice_begin(graph, node, graph.tensor(whole).shape)
    return (_checked(graph, whole, part, begin),)


def _along(graph: Graph, whole: int, parts: Sequence[int], axis: int) -> tuple[Link, ...]:
    shape = graph.tensor(whole).shape
    if not -len(shape) <= axis < len(shape):
        raise ViewError(f"the axis is {axis}, the shape {list(shape)}")
    axis %= len(shape)
    links = []
    end = 0
    for part in parts:
        begin = [0] * len(shape)
        begin[axis] = end
        links.append(_checked(graph, whole, part, begin))
        size = graph.tensor(part).shape
        if (*size[:axis], *size[axis + 1 :]) != (*shape[:axis], *shape[axis + 1 :]):
            raise ViewError(f"{list(size)} is a part of {list(shape)} along axis {axis}")
        end += size[axis]
    if end != shape[axis]:
        raise ViewError(f"parts of {end} make a tensor of shape {list(shape)}")
    return tuple(links)


def _checked(graph: Graph, whole: int, part: int, begin: Sequence[int]) -> Link:
    outer, inner = graph.tensor(whole).shape, graph.tensor(part).shape
    fits = len(outer) == len(inner) and all(
        first >= 0 and first + size <= most
        for first, size, most in zip(begin, inner, outer, strict=True)
    )
    if not fits:
        raise ViewError(f"{list(inner)} from {list(begin)} on do not lie in {list(outer)}")
    return Link(whole, part, four_dimensions(begin, 0))


def _slice_begin(graph: Graph, node: Node, shape: Sequence[int]) -> list[int]:
    begin = list(_integers(graph, node.inputs[1], len(shape)))
    sizes = list(_integers(graph, node.inputs[2], len(shape)))
    if node.op == "SLICE":
        sizes = [d - b if s == -1 else s for d, b, s in zip(shape, begin, sizes, strict=True)]
        _check_size(graph, node, sizes)
        return begin
    options = node.options
    assert isinstance(options, StridedSliceOptions)
    if options.ellipsis_mask or options.new_axis_mask or options.shrink_axis_mask:
        raise ViewError("it changes the rank")
    strides = _integers(graph, node.inputs[3], len(shape))
    if any(stride != 1 for stride in strides):
        raise ViewError(f"the strides are {list(strides)}")
    for axis, size in enumerate(shape):
        if options.begin_mask >> axis & 1:
            begin[axis] = 0
        elif begin[axis] < 0:
            begin[axis] = max(begin[axis] + size, 0)
        end = sizes[axis] + size if sizes[axis] < 0 else sizes[axis]
        if options.end_mask >> axis & 1:
            end = size
        sizes[axis] = min(end, size) - begin[axis]
    _check_size(graph, node, sizes)
    return begin


def _check_size(graph: Graph, node: Node, sizes: Sequence[int]) -> None:
    """The output must have the shape that the slice gives."""
    found = graph.tensor(node.outputs[0]).shape
    if tuple(sizes) != found:
        raise ViewError(f"it gives {list(sizes)}, the output is {list(found)}")


def _integers(graph: Graph, index: int, count: int) -> tuple[int, ...]:
    tensor = graph.tensor(index)
    if tensor.constant is None or tensor.constant.size != count:
        raise ViewError(f"tensor {index} {tensor.name!r} does not hold {count} constants")
    if not np.issubdtype(tensor.constant.dtype, np.integer):
        raise ViewError(f"tensor {index} {tensor.name!r} is {tensor.dtype.name}")
    return tuple(int(value) for value in tensor.constant.reshape(-1))


@dataclass(slots=True)
class _Group:
    """Tensors in one piece of memory and where each begins, from any common origin."""

    begins: dict[int, Position] = field(default_factory=dict)

    def shifted(self, by: Sequence[int]) -> dict[int, Position]:
        return {tensor: _sum(begin, by) for tensor, begin in self.begins.items()}


def _sum(a: Sequence[int], b: Sequence[int]) -> Position:
    images, rows, columns, channels = (x + y for x, y in zip(a, b, strict=True))
    return images, rows, columns, channels


def _difference(a: Sequence[int], b: Sequence[int]) -> Position:
    return _sum(a, [-y for y in b])


def place_views(graph: Graph, partition: Partition) -> ViewPlan:
    """Joins the tensors of every view node in turn; a node that contradicts the ones before it, or
    whose tensors lie in different buffers, is rejected.
    """
    views = [graph.node(i) for i in partition.nodes if graph.node(i).op in VIEW_OPS]
    if not views:
        return ViewPlan({}, ())
    if len(views) == len(partition.nodes):
        reason = "no operator of its partition computes anything"
        return ViewPlan({}, tuple(_rejection(node, reason) for node in views))
    planner = _Planner(graph, partition)
    rejections = []
    for node in views:
        problem = planner.join(node)
        if problem is not None:
            rejections.append(_rejection(node, problem))
    rejections += planner.wasteful_slices()
    return ViewPlan(planner.places(), tuple(rejections))


def _rejection(node: Node, problem: str) -> Rejection:
    detail = f"The tensors must be parts of one another in memory, without a copy: {problem}"
    return Rejection(node.index, node.op, "view_is_free", detail)


class _Planner:
    def __init__(self, graph: Graph, partition: Partition) -> None:
        self._graph = graph
        self._inputs = frozenset(partition.inputs)
        self._outputs = frozenset(partition.outputs)
        self._groups: dict[int, _Group] = {}
        self._written = self._inputs | {
            tensor
            for index in partition.nodes
            if graph.node(index).op not in VIEW_OPS
            for tensor in graph.node(index).outputs
        }
        self._readers: dict[int, list[Node]] = {}
        for index in partition.nodes:
            for tensor in graph.node(index).inputs:
                self._readers.setdefault(tensor, []).append(graph.node(index))

    def join(self, node: Node) -> str | None:
        """Puts the tensors of ``node`` into one group, or says why that cannot be."""
        joined: dict[int, Position] = {}
        for link in links_of(self._graph, node):
            for tensor, wanted in (
                (link.whole, (0, 0, 0, 0)),
                (link.part, link.begin),
            ):
                if tensor in joined:
                    if joined[tensor] != wanted:
                        return f"tensor {tensor} is needed in two places"
                    continue
                group = self._groups.get(tensor) or _Group({tensor: (0, 0, 0, 0)})
                if len(joined) + len(group.begins) > MAX_GROUP:
                    return f"more than {MAX_GROUP} tensors share memory"
                added = group.shifted(_difference(wanted, group.begins[tensor]))
                problem = self._meeting(joined, added)
                if problem is not None:
                    return problem
                joined.update(added)
        problem = self._buffers(joined)
        if problem is not None:
            return problem
        whole = _Group(joined)
        self._groups.update(dict.fromkeys(joined, whole))
        return None

    def _meeting(self, joined: Mapping[int, Position], added: Mapping[int, Position]) -> str | None:
        for tensor in joined.keys() & added.keys():
            return f"tensor {tensor} is needed in two places"
        for one in joined.keys() & self._written:
            for other in added.keys() & self._written:
                if self._overlap(one, joined[one], other, added[other]):
                    return f"tensors {one} and {other} are needed in the same place"
        return None

    def _overlap(self, one: int, first: Position, other: int, second: Position) -> bool:
        sizes = (four_dimensions(self._graph.tensor(t).shape) for t in (one, other))
        return all(
            a < b + size_b and b < a + size_a
            for a, b, size_a, size_b in zip(first, second, *sizes, strict=True)
        )

    def _buffers(self, tensors: Mapping[int, Position]) -> str | None:
        inputs = tensors.keys() & self._inputs
        if inputs and tensors.keys() & self._outputs:
            return f"tensor {min(inputs)} comes from the CPU and a part of it goes back there"
        return None

    def wasteful_slices(self) -> list[Rejection]:
        """Slices of tensors from the CPU of which less than half is read: the host would convert
        more than the slices take on the CPU.
        """
        rejections = []
        for tensor in sorted(self._inputs & self._groups.keys()):
            readers = self._readers.get(tensor, [])
            if any(node.op not in SLICES for node in readers):
                continue
            used = sum(self._elements(t) for node in readers for t in node.outputs)
            if 2 * used < self._elements(tensor):
                problem = f"{used} of {self._elements(tensor)} elements from the CPU are used"
                rejections += [_rejection(node, problem) for node in readers]
        return rejections

    def _elements(self, tensor: int) -> int:
        return math.prod(self._graph.tensor(tensor).shape)

    def places(self) -> dict[int, Place]:
        """Every tensor's place, the groups' origins moved to zero."""
        places: dict[int, Place] = {}
        for tensor in self._groups:
            if tensor in places:
                continue
            begins = self._groups[tensor].begins
            origin = tuple(min(begin[axis] for begin in begins.values()) for axis in range(RANK))
            for member in sorted(begins):
                image, row, _, channel = _difference(begins[member], origin)
                places[member] = Place(min(begins), image, row, channel)
        return places
