"""Boxes, their overlap, and non-maximum suppression.

A box is (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2; which pixels it is measured in is said where a
``Detections`` comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rk3588_vision.placement import Placement

MAX_CANDIDATES = 3000
"""Best candidates that suppression looks at; more only cost time."""


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The pixels of a rectangle of the picture that belong to an object: ``pixels`` bool [h, w],
    whose first one is the picture's at (``left``, ``top``).
    """

    left: int
    top: int
    pixels: npt.NDArray[np.bool_]

    def on(self, picture: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the rectangle of the picture [h, w, ...], and which of its pixels belong to it."""
        h, w = self.pixels.shape
        area = picture[self.top : self.top + h, self.left : self.left + w]
        return area, self.pixels[: area.shape[0], : area.shape[1]]


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """``boxes`` [n, 4], ``classes`` [n] counted from 0 without background, ``scores`` [n].

    What only some models tell is None with the others: ``points`` [n, k, 3], key points with how
    sure each is; ``outlines`` [n, 4, 2], the corners of boxes that lie aslant, whose ``boxes`` are
    the upright rectangles around them; ``weights`` [n, m] of the prototypes that masks are made of,
    and the ``masks`` themselves, which are made last.
    """

    boxes: Floats
    classes: npt.NDArray[np.int64]
    scores: Floats
    points: Floats | None = None
    outlines: Floats | None = None
    weights: Floats | None = None
    masks: tuple[Mask, ...] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, which: npt.NDArray[Any]) -> Detections:
        """Return the boxes that a mask or indices select, in the order of the indices, before they
        have masks.
        """
        assert self.masks is None
        names = ("boxes", "classes", "scores", "points", "outlines", "weights")
        parts = ((name, getattr(self, name)) for name in names)
        taken: dict[str, Any] = {n: None if part is None else part[which] for n, part in parts}
        return Detections(**taken)

    def above(self, threshold: float) -> Detections:
        """Return the boxes whose score is at least ``threshold``."""
        return self.take(self.scores >= threshold)


def best_classes(boxes: Floats, scores: Floats, threshold: float, **more: Any) -> Detections:
    """One candidate per box: its best class. ``boxes`` [n, 4], ``scores`` [n, classes]; ``more``:
    what else ``Detections`` has.
    """
    classes = scores.argmax(axis=1).astype(np.int64)
    best = scores[np.arange(len(scores)), classes]
    return Detections(boxes, classes, best, **more).above(threshold)


def onto_image(found: Detections, placement: Placement) -> Detections:
    """Detections in pixels of the input as detections in pixels of the picture, none empty."""
    boxes = placement.to_image(found.boxes)
    visible = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    points, outlines = (
        None if places is None else placement.points_to_image(places)
        for places in (found.points, found.outlines)
    )
    return replace(found, boxes=boxes, points=points, outlines=outlines).take(visible)


def from_centres(centres: Floats) -> Floats:
    """(centre x, centre y, width, height) [n, 4] as corners."""
    half = np.maximum(centres[:, 2:4], 0.0) / 2
    return np.concatenate([centres[:, :2] - half, centres[:, :2] + half], axis=1)


def cells(strides: Sequence[int], input_h: int, input_w: int) -> tuple[Floats, Floats]:
    """Column and row [n, 2] of every cell of all grids, and the stride of each [n, 1]."""
    places, sizes = [], []
    for stride in strides:
        h, w = input_h // stride, input_w // stride
        y, x = np.indices((h, w), np.float64)
        places.append(np.stack([x, y], axis=-1).reshape(-1, 2))
        sizes.append(np.full((h * w, 1), float(stride)))
    return np.concatenate(places), np.concatenate(sizes)


def iou(one: Floats, many: Floats) -> Floats:
    """Intersection over union of ``one`` [4] or [n, 1, 4] with ``many`` [m, 4]."""
    low = np.maximum(one[..., :2], many[..., :2])
    high = np.minimum(one[..., 2:], many[..., 2:])
    common = np.prod(np.maximum(high - low, 0.0), axis=-1)
    total = _area(one) + _area(many) - common
    shares: Floats = np.divide(common, total, out=np.zeros_like(common), where=total > 0)
    return shares


def _area(boxes: Floats) -> Floats:
    area: Floats = np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1)
    return area


def suppress(found: Detections, max_iou: float, limit: int) -> Detections:
    """Greedy non-maximum suppression within each class; at most ``limit``, best first.

    Equal scores keep the order of the candidates, so the result is deterministic.
    """
    order = np.argsort(-found.scores, kind="stable")[:MAX_CANDIDATES]
    ranked = found.take(order)
    if not len(ranked):
        return ranked
    left = np.arange(len(ranked))
    kept: list[int] = []
    while left.size and len(kept) < limit:
        first, others = int(left[0]), left[1:]
        kept.append(first)
        shares = iou(ranked.boxes[first], ranked.boxes[others])
        if ranked.outlines is not None:
            close = np.flatnonzero(shares)  # outlines whose rectangles are apart are apart
            for i in close:
                shares[i] = outline_iou(ranked.outlines[first], ranked.outlines[others[i]])
        rivals = (ranked.classes[others] == ranked.classes[first]) & (shares > max_iou)
        left = others[~rivals]
    return ranked.take(np.array(kept, dtype=np.int64))


def outlines_of(centres: Floats, angles: Floats) -> Floats:
    """(centre x, centre y, width, height) [n, 4], turned about the centre by ``angles`` [n] in
    radians, from the x axis towards the y axis, as four corners [n, 4, 2].
    """
    half = np.maximum(centres[:, 2:4], 0.0) / 2
    cosine, sine = np.cos(angles), np.sin(angles)
    along = np.stack([cosine, sine], axis=1) * half[:, :1]
    across = np.stack([-sine, cosine], axis=1) * half[:, 1:]
    middle = centres[:, :2]
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.stack([middle + a * along + b * across for a, b in signs], axis=1)


def around(outlines: Floats) -> Floats:
    """The upright rectangles [n, 4] around outlines [n, k, 2]."""
    return np.concatenate([outlines.min(axis=1), outlines.max(axis=1)], axis=1)


def outline_iou(one: Floats, other: Floats) -> float:
    """Intersection over union of two convex outlines [k, 2] whose corners go the same way round."""
    common = _polygon_area(_clip(one, other))
    total = _polygon_area(one) + _polygon_area(other) - common
    return common / total if total > 0 else 0.0


def _polygon_area(corners: Floats) -> float:
    if len(corners) < 3:
        return 0.0
    x, y = corners[:, 0], corners[:, 1]
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def _clip(subject: Floats, window: Floats) -> Floats:
    """Sutherland and Hodgman's clipping of one convex outline by another."""
    corners = [(float(x), float(y)) for x, y in subject]
    count = len(window)
    for i in range(count):
        (ax, ay), (bx, by) = window[i], window[(i + 1) % count]
        sides = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in corners]
        kept = []
        for number, (point, side) in enumerate(zip(corners, sides, strict=True)):
            following = (number + 1) % len(corners)
            if side >= 0:
                kept.append(point)
            if (side >= 0) != (sides[following] >= 0):
                share = side / (side - sides[following])
                (x, y), (u, v) = point, corners[following]
                kept.append((x + share * (u - x), y + share * (v - y)))
        corners = kept
        if not corners:
            break
    return np.array(corners, dtype=np.float64).reshape(-1, 2)
