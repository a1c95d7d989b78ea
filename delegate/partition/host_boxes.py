"""Read a map from the host's elements to a tensor as boxes, each of which is one conversion.

Comes from: ``host_layout``, which follows an output back through the nodes that make it. Goes to:
the bindings at a partition's edges.
"""

from __future__ import annotations

import itertools
import math
from operator import itemgetter

from delegate.chip.element import CHANNELS_PER_SURFACE
from delegate.lower.lowered import Spread
from delegate.lower.operation import Channels
from delegate.model.index_map import Digit, IndexMap, Piece, Shape, coordinates

MOST_BOXES = 64
"""The most boxes of an output: more than any network has; each is a conversion of its own."""


def boxes_of(seen: IndexMap, shape: Shape) -> list[tuple[Spread, Channels]] | None:
    """Return the boxes of a tensor of four dimensions, of which the host has what ``seen`` says:
    the channels of all pixels that are wanted, from the first one of a surface on, in parts that
    are evenly apart. None: there are none, or too many. Raises MapError.
    """
    found: list[tuple[Spread, Channels]] = []
    for piece in seen.by_dimensions(shape).pieces:
        boxes = _boxes_of(piece, shape)
        if boxes is None or len(found) + len(boxes) > MOST_BOXES:
            return None
        found += boxes
    return sorted(found, key=itemgetter(1))


def _boxes_of(piece: Piece, shape: Shape) -> list[tuple[Spread, Channels]] | None:
    """Return the boxes of a piece by dimensions; None: it has not all pixels, a box begins within
    a surface, or the host would go backwards.
    """
    *pixels, _ = shape
    strides, sizes = [0] * len(shape), [1] * len(shape)
    apart: list[Digit] = []
    for digit in piece.digits:
        distances = coordinates(digit.result, len(shape))
        axis = next(axis for axis, distance in enumerate(distances) if distance)
        if distances[axis] == 1:
            strides[axis], sizes[axis] = digit.source, digit.size
        elif axis < len(pixels):
            return None
        else:
            apart.append(digit)
    if min(strides) < 0:
        return None
    if sizes[:-1] != pixels or math.prod(digit.size for digit in apart) > MOST_BOXES:
        return None
    image, row, pixel, channel = strides
    found = []
    for values in itertools.product(*(range(digit.size) for digit in apart)):
        first = piece.first_source + sum(map(int.__mul__, values, (d.source for d in apart)))
        begin = piece.first_result + sum(map(int.__mul__, values, (d.result for d in apart)))
        if begin % CHANNELS_PER_SURFACE:
            return None
        found.append((Spread(first, image, row, pixel, channel), (begin, sizes[-1])))
    return found
