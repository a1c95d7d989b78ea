"""Maps of operators that only move values, and the axes and shapes that maps are made from. A map
has one source, 0, unless it says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from delegate.model.graph import Graph
from delegate.model.index_map import (
    MOST_PIECES,
    Digit,
    Fill,
    IndexMap,
    MapError,
    Piece,
    Shape,
    box_piece,
    identity,
    row_major,
    strided,
)

Values = npt.NDArray[Any]


def _dot(a: Iterable[int], b: Iterable[int]) -> int:
    return sum(map(int.__mul__, a, b))


def transposed(shape: Shape, axes: Shape) -> IndexMap:
    strides = row_major(shape)
    return strided([shape[axis] for axis in axes], [strides[axis] for axis in axes])


def window(shape: Shape, begin: Shape, sizes: Shape, steps: Shape | None = None) -> IndexMap:
    """Return a box of a tensor of ``shape``, one of every ``steps`` elements. Raises MapError."""
    steps = steps or [1] * len(shape)
    ranks = {len(shape), len(begin), len(sizes), len(steps)}
    if len(ranks) > 1 or any(
        min(at, at + (size - 1) * step) < 0 or max(at, at + (size - 1) * step) >= most
        for at, size, step, most in zip(begin, sizes, steps, shape, strict=True)
    ):
        raise MapError(f"{list(sizes)} from {list(begin)} on do not lie in {list(shape)}")
    strides = row_major(shape)
    return strided(sizes, list(map(int.__mul__, strides, steps)), _dot(strides, begin))


def split(shape: Shape, sizes: Shape, axis: int) -> tuple[IndexMap, ...]:
    """Return parts of such ``sizes``, one behind the other along ``axis``. Raises MapError."""
    found, begin = [], [0] * len(shape)
    for size in sizes:
        part = [*shape]
        part[axis] = size
        found.append(window(shape, begin, part))
        begin[axis] += size
    return tuple(found)


def bordered(shape: Shape, sides: Sequence[tuple[int, int]], value: int) -> IndexMap:
    """Return a tensor with so many elements of ``value`` before and behind it in each dimension."""
    whole = [size + sum(side) for size, side in zip(shape, sides, strict=True)]
    strides = row_major(whole)
    begin, sizes = [0] * len(whole), [*whole]
    pieces = []
    for axis, (before, behind) in enumerate(sides):
        for at, size in ((0, before), (whole[axis] - behind, behind)):
            begin[axis], sizes[axis] = at, size
            if size:
                nothing = [0] * len(whole)
                pieces.append(
                    box_piece(sizes, nothing, strides, 0, _dot(begin, strides), Fill(value))
                )
        begin[axis], sizes[axis] = before, shape[axis]
    pieces.append(box_piece(shape, row_major(shape), strides, 0, _dot(begin, strides)))
    return IndexMap(math.prod(whole), tuple(pieces))


def mirrored(shape: Shape, sides: Sequence[tuple[int, int]], edge: int) -> IndexMap:
    """Return a tensor whose elements go on backwards around it. ``edge``: 1, the outermost ones are
    not repeated, or 0.
    """
    found, now = identity(shape), [*shape]
    for axis, (before, behind) in enumerate(sides):
        size, whole = now[axis], [*now]
        whole[axis] += before + behind
        old, new = row_major(now), row_major(whole)
        parts = (
            (before, before - 1 + edge, -1, 0),
            (size, 0, 1, before),
            (behind, size - 1 - edge, -1, before + size),
        )
        pieces = []
        for count, first, step, at in parts:
            sizes, strides = [*now], [*old]
            sizes[axis], strides[axis] = count, step * old[axis]
            if count:
                pieces.append(box_piece(sizes, strides, new, first * old[axis], at * new[axis]))
        found = IndexMap(math.prod(whole), tuple(pieces)).compose(found)
        now = whole
    return found


def in_blocks(shape: Shape, block: int) -> IndexMap:
    """Return an image whose pixels are blocks: channels are rows, columns and channels of a
    block.
    """
    images, height, width, channels = shape
    parts = (images, height // block, block, width // block, block, channels)
    return transposed(parts, (0, 1, 3, 2, 4, 5))


def repeated(shape: Shape, factors: Shape) -> IndexMap:
    """Return every element so many times side by side in each dimension."""
    sizes = [n for pair in zip(shape, factors, strict=True) for n in pair]
    return strided(sizes, [n for stride in row_major(shape) for n in (stride, 0)])


def gathered(shape: Shape, places: Sequence[int], axis: int) -> IndexMap:
    """Return ``places`` along ``axis``, in this order. Raises MapError."""
    wrong = next((place for place in places if not 0 <= place < shape[axis]), None)
    if wrong is not None:
        raise MapError(f"index {wrong} does not lie in the {shape[axis]} along axis {axis}")
    before, behind = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    result = (len(places) * behind, behind, 1)
    pieces: list[Piece] = []
    for at, step, count in _runs(places):
        source = (shape[axis] * behind, step * behind, 1)
        ends = places[at] * behind, at * behind
        pieces.append(box_piece((before, count, behind), source, result, *ends))
        if len(pieces) > MOST_PIECES:
            raise MapError(f"it has more than {MOST_PIECES} pieces")
    return IndexMap(before * len(places) * behind, tuple(pieces))


def resized(shape: Shape, rows: Sequence[int], columns: Sequence[int]) -> IndexMap:
    """Return those ``rows`` and ``columns`` of images, in this order. Raises MapError."""
    images, _, width, channels = shape
    factors = factor_of(rows, shape[1]), factor_of(columns, width)
    if None not in factors:
        return repeated(shape, (1, *(factor or 1 for factor in factors), 1))
    placed = gathered((images, len(rows), width, channels), columns, axis=2)
    return placed.compose(gathered(shape, rows, axis=1))


def factor_of(places: Sequence[int], size: int) -> int | None:
    """Return how often ``places`` repeat each of ``size`` rows; None: not each alike."""
    factor = len(places) // size
    alike = [row for row in range(size) for _ in range(factor)]
    return factor if alike == [*places] else None


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the place of the first, step and count of neighbours that are evenly apart."""
    at = 0
    while at < len(numbers):
        end = min(at + 2, len(numbers))
        step = numbers[end - 1] - numbers[at]
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        yield at, step, end - at
        at = end


def integers(graph: Graph, index: int, count: int) -> tuple[int, ...]:
    """Return the ``count`` integers of a constant tensor. Raises MapError."""
    tensor = graph.tensor(index)
    if tensor.constant is None or tensor.constant.size != count:
        raise MapError(f"tensor {index} {tensor.name!r} does not hold {count} constants")
    if not np.issubdtype(tensor.constant.dtype, np.integer):
        raise MapError(f"tensor {index} {tensor.name!r} is {tensor.dtype.name}")
    return tuple(int(value) for value in tensor.constant.reshape(-1))


def moved(by: IndexMap, *sources: Values) -> Values:
    """Return the elements that ``by`` takes of ``sources``, one behind the other."""
    flat = [np.ascontiguousarray(values).reshape(-1) for values in sources]
    result = np.empty(by.size, sources[0].dtype)
    for piece in by.pieces:
        sizes, *strides = zip(*(piece.digits or (Digit(1, 1, 1),)), strict=True)
        if isinstance(piece.source, Fill):
            source = np.array([piece.source.value], result.dtype)
        else:
            source = flat[piece.source]
        ends = ((source, piece.first_source), (result, piece.first_result))
        given, made = (
            as_strided(array[first:], sizes, np.multiply(apart, array.itemsize))
            for (array, first), apart in zip(ends, strides, strict=True)
        )
        made[...] = given
    return result
