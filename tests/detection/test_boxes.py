"""Suppression and overlap against plain loops."""

import numpy as np
import pytest

from rk3588_vision.detection.boxes import Detections, best_classes, from_centres, iou, suppress
from tests.loops import for_each


def slow_iou(a: np.ndarray, b: np.ndarray) -> float:
    w = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    h = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    total = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h
    return w * h / total if total > 0 else 0.0


def slow_suppress(found: Detections, max_iou: float, limit: int) -> list[int]:
    order = sorted(range(len(found)), key=lambda i: (-found.scores[i], i))
    kept: list[int] = []
    for i in order:
        rivals = [k for k in kept if found.classes[k] == found.classes[i]]
        if all(slow_iou(found.boxes[i], found.boxes[k]) <= max_iou for k in rivals):
            kept.append(i)
    return kept[:limit]


def random_detections(rng: np.random.Generator, count: int) -> Detections:
    corner = rng.uniform(-20, 80, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0, 60, (count, 2))], axis=1)
    scores = np.round(rng.uniform(0, 1, count), 1)  # with ties
    return Detections(boxes, rng.integers(0, 3, count), scores)


@for_each("seed", range(8))
@for_each("max_iou", [0.0, 0.3, 0.7, 1.0])
def test_suppression_is_the_greedy_one(seed: int, max_iou: float) -> None:
    found = random_detections(np.random.default_rng(seed), 97)
    expected = slow_suppress(found, max_iou, 40)
    result = suppress(found, max_iou, 40)
    assert np.array_equal(result.boxes, found.boxes[expected])
    assert np.array_equal(result.scores, found.scores[expected])
    assert np.array_equal(result.classes, found.classes[expected])


def test_iou_is_the_plain_one() -> None:
    found = random_detections(np.random.default_rng(1), 31)
    table = iou(found.boxes[:, np.newaxis], found.boxes)
    for i in range(31):
        for j in range(31):
            assert table[i, j] == pytest.approx(slow_iou(found.boxes[i], found.boxes[j]))


def test_nothing_stays_nothing() -> None:
    none = Detections(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0))
    assert len(suppress(none, 0.5, 10)) == 0


def test_best_class_per_box() -> None:
    scores = np.array([[0.1, 0.9], [0.2, 0.1], [0.5, 0.5]])
    boxes = from_centres(np.array([[5.0, 6, 2, 4], [0, 0, 1, 1], [9, 9, -1, 2]]))
    found = best_classes(boxes, scores, 0.5)
    assert found.classes.tolist() == [1, 0]
    assert found.boxes.tolist() == [[4, 4, 6, 8], [9, 8, 9, 10]]
