"""Turns index maps into arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.model.index_map import Fill, IndexMap, Piece

Values = npt.NDArray[np.int64]

NOWHERE = -(10**9)
APART = 10**6
"""The distance from one source's numbers to the next one's."""


def places(piece: Piece) -> tuple[Values, Values]:
    """Return the elements of source and result that a piece brings together."""
    source, result = np.array([piece.first_source]), np.array([piece.first_result])
    for size, *strides in piece.digits:
        at = np.arange(size)
        source, result = (
            np.add.outer(now, at * stride).ravel()
            for now, stride in zip((source, result), strides, strict=True)
        )
    return source, result


def moved(found: IndexMap, operands: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return what ``found`` makes of the values of its sources; NOWHERE: no piece has it."""
    result = np.full(found.size, NOWHERE, np.int64)
    for piece in found.pieces:
        source, at = places(piece)
        assert (result[at] == NOWHERE).all(), "pieces overlap"
        is_border = isinstance(piece.source, Fill)
        result[at] = piece.source.value if is_border else operands[piece.source].ravel()[source]
    return result


def numbers(found: IndexMap) -> Values:
    """Return each element's number in its source, or a border's value."""
    ends = dict.fromkeys((p.source for p in found.pieces if not isinstance(p.source, Fill)), 0)
    for piece in found.pieces:
        if piece.source in ends:
            ends[piece.source] = max(ends[piece.source], 1 + int(places(piece)[0].max()))
    return moved(found, {k: np.arange(end) + k * APART for k, end in ends.items()})
