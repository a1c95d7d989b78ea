"""STRIDED_SLICE: a box of its input, from a constant position on, of which rows and columns
may be skipped, and dimensions of one element dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from delegate.model.graph import Graph, Node
from delegate.model.index_map import IndexMap, MapError
from delegate.model.operator_options import FieldKind, Options, option
from delegate.ops.operator import Role, Shape
from delegate.ops.shared.maps import integers, window
from delegate.ops.shared.moving import cutting


@dataclass(frozen=True, slots=True)
class StridedSliceOptions(Options):
    """Bit d of a mask speaks of dimension d."""

    UNION_TYPE = 32

    begin_mask: int = option(FieldKind.INT32, slot=0, offset=0)
    end_mask: int = option(FieldKind.INT32, slot=1, offset=4)
    ellipsis_mask: int = option(FieldKind.INT32, slot=2, offset=8)
    new_axis_mask: int = option(FieldKind.INT32, slot=3, offset=12)
    shrink_axis_mask: int = option(FieldKind.INT32, slot=4, offset=16)


def maps(graph: Graph, node: Node) -> tuple[IndexMap]:
    return (window(graph.tensor(node.inputs[0]).shape, *_box(graph, node)),)


def shapes(graph: Graph, node: Node) -> tuple[Shape, ...]:
    dropped = node.known_options(StridedSliceOptions).shrink_axis_mask
    sizes = _box(graph, node)[1]
    return (tuple(size for axis, size in enumerate(sizes) if not dropped >> axis & 1),)


def _box(graph: Graph, node: Node) -> tuple[list[int], list[int], tuple[int, ...]]:
    """Return begin, sizes and strides. Raises MapError."""
    shape = graph.tensor(node.inputs[0]).shape
    options = node.known_options(StridedSliceOptions)
    begin = list(integers(graph, node.inputs[1], len(shape)))
    sizes = list(integers(graph, node.inputs[2], len(shape)))
    if options.ellipsis_mask or options.new_axis_mask:
        raise MapError("it adds dimensions")
    strides = integers(graph, node.inputs[3], len(shape))
    if any(stride < 1 for stride in strides):
        raise MapError(f"the strides are {list(strides)}")
    for axis, size in enumerate(shape):
        if options.begin_mask >> axis & 1:
            begin[axis] = 0
        elif begin[axis] < 0:
            begin[axis] = max(begin[axis] + size, 0)
        end = sizes[axis] + size if sizes[axis] < 0 else sizes[axis]
        if options.shrink_axis_mask >> axis & 1:  # wherever the file ends
            end = begin[axis] + 1
        elif options.end_mask >> axis & 1:
            end = size
        sizes[axis] = -((begin[axis] - min(end, size)) // strides[axis])
    return begin, sizes, strides


OPERATOR = cutting(
    "STRIDED_SLICE",
    maps,
    shapes,
    *(Role.FEATURE, Role.NUMBERS, Role.NUMBERS, Role.NUMBERS),
    options=StridedSliceOptions,
    most_outputs=1,
)
