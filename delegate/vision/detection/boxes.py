"""Boxes, their overlap, and non-maximum suppression.

A box is (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2; which pixels it is measured in is said where a
``Detections`` comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_CANDIDATES = 3000
"""Best candidates that suppression looks at; more only cost time."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """``boxes`` [n, 4], ``classes`` [n] counted from 0 without background, ``scores`` [n]."""

    boxes: Floats
    classes: npt.NDArray[np.int64]
    scores: Floats

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, which: npt.NDArray[Any]) -> Detections:
        """Those selected by a mask or by indices, in the order of the indices."""
        return Detections(self.boxes[which], self.classes[which], self.scores[which])

    def above(self, threshold: float) -> Detections:
        """Those whose score is at least ``threshold``."""
        return self.take(self.scores >= threshold)


def best_classes(boxes: Floats, scores: Floats, threshold: float) -> Detections:
    """One candidate per box: its best class. ``boxes`` [n, 4], ``scores`` [n, classes]."""
    possible = np.flatnonzero(scores.max(axis=1) >= threshold)
    classes = scores[possible].argmax(axis=1).astype(np.int64)
    return Detections(boxes[possible], classes, scores[possible, classes])


def from_centres(centres: Floats) -> Floats:
    """(centre x, centre y, width, height) [n, 4] as corners."""
    half = np.maximum(centres[:, 2:4], 0.0) / 2
    return np.concatenate([centres[:, :2] - half, centres[:, :2] + half], axis=1)


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
    # Classes are moved apart, so that boxes of different ones never overlap.
    span = float(ranked.boxes.max() - ranked.boxes.min()) + 1.0
    apart = ranked.boxes + (ranked.classes * span)[:, np.newaxis]
    left = np.arange(len(ranked))
    kept: list[int] = []
    while left.size and len(kept) < limit:
        kept.append(int(left[0]))
        others = left[1:]
        left = others[iou(apart[left[0]], apart[others]) <= max_iou]
    return ranked.take(np.array(kept, dtype=np.int64))
