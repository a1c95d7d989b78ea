"""Turn records into accuracies. Records are taken in order of the pictures' names, so the numbers
are the same however many workers made them.
"""

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from delegate.errors import DelegateError
from rk3588_vision.detection.boxes import iou
from rk3588_vision.evaluation.evaluator import BEST, Record
from rk3588_vision.evaluation.ground_truth import Objects

_SIDES = ("ours", "theirs")
_NAMES = {"ours": "delegate", "theirs": "cpu"}


def classification_metrics(
    records: Sequence[Record], truth: Mapping[str, int], offset: int
) -> dict[str, Any]:
    """Top-1 and top-5 of both sides, and how often their best classes agree. ``offset`` is added to
    the truth: 1 for models with a background class that the truth does not count.
    """
    result: dict[str, Any] = {"images": len(records)}
    for side in _SIDES:
        if not all(side in record for record in records):
            continue
        wanted = [truth[record["image"]] + offset for record in records]
        pairs = [(record[side], index) for record, index in zip(records, wanted, strict=True)]
        hits = [best.index(index) if index in best else BEST for best, index in pairs]
        result[_NAMES[side]] = {
            "top1": sum(hit == 0 for hit in hits) / len(hits),
            "top5": sum(hit < BEST for hit in hits) / len(hits),
        }
    if "cpu" in result:
        agreed = sum(record["ours"][0] == record["theirs"][0] for record in records)
        result["top1_agreement"] = agreed / len(records)
    return result


def detection_metrics(
    records: Sequence[Record],
    truth: Mapping[str, Objects],
    classes: Mapping[int, int],
    known: int | None,
) -> dict[str, Any]:
    """COCO's average precision of both sides, by pycocotools.

    ``classes``: the model's classes as the truth's, empty if they are the same; classes of the
    truth that the model does not have are left out. ``known``: how many classes the model has.
    """
    possible = {c for objects in truth.values() for c, *_ in objects}
    if classes:
        possible &= set(classes.values())
    elif known is not None:
        possible &= set(range(known))
    result: dict[str, Any] = {"images": len(records), "classes": len(possible)}
    ordered = sorted(records, key=lambda record: str(record["image"]))
    for side in _SIDES:
        if all(side in record for record in records):
            result[_NAMES[side]] = _average_precision(ordered, side, truth, classes, possible)
    if "cpu" in result:
        result["ap50_difference"] = result["delegate"]["ap50"] - result["cpu"]["ap50"]
    return result


SURE = 0.25
"""Score of detections that ``class_mismatch`` looks at."""
_LEAST_OVERLAP = 0.5
_LEAST_OBJECTS = 5
_LEAST_SHARE = 0.5


def class_mismatch(
    records: Sequence[Record], truth: Mapping[str, Objects], classes: Mapping[int, int]
) -> tuple[int, int] | None:
    """(boxes whose class is the truth's, boxes that lie on an object) where at least five lie on
    one and less than half have its class: the numbers are not the same classes. None otherwise.
    """
    lying = agreeing = 0
    for record in records:
        size = np.array([record["width"], record["height"]] * 2, dtype=np.float64)
        rows = [row for row in record["ours"] if row[1] >= SURE]
        boxes = np.array([row[2:] for row in rows], dtype=np.float64).reshape(-1, 4)
        for index, *corners in truth[record["image"]]:
            near = np.flatnonzero(iou(np.array(corners) * size, boxes) >= _LEAST_OVERLAP)
            if near.size:
                numbers = [int(rows[i][0]) for i in near]
                lying += 1
                agreeing += index in (classes.get(n) if classes else n for n in numbers)
    if lying < _LEAST_OBJECTS or agreeing >= lying * _LEAST_SHARE:
        return None
    return agreeing, lying


def _average_precision(
    records: Sequence[Record],
    side: str,
    truth: Mapping[str, Objects],
    classes: Mapping[int, int],
    possible: set[int],
) -> dict[str, float]:
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        raise DelegateError(
            "average precision needs pycocotools: pip install rk3588-delegate[evaluate]"
        ) from None
    annotations = _annotations(records, truth, possible)
    results = list(_results(records, side, classes, possible))
    if not annotations:
        raise DelegateError("the labels name no object of a class that the model has")
    if not results:
        return {"ap": 0.0, "ap50": 0.0, "ap75": 0.0}
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints what it does
        coco = COCO()
        coco.dataset = {
            "info": {},
            "images": [
                {"id": n, "width": r["width"], "height": r["height"]}
                for n, r in enumerate(records, start=1)
            ],
            "categories": [{"id": c + 1, "name": str(c)} for c in sorted(possible)],
            "annotations": annotations,
        }
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    ap, ap50, ap75 = (float(value) for value in evaluation.stats[:3])
    return {"ap": ap, "ap50": ap50, "ap75": ap75}


def _annotations(
    records: Sequence[Record], truth: Mapping[str, Objects], possible: set[int]
) -> list[dict[str, Any]]:
    """The objects of the labels, as pycocotools takes them."""
    annotations: list[dict[str, Any]] = []
    for number, record in enumerate(records, start=1):
        w, h = record["width"], record["height"]
        for index, x1, y1, x2, y2 in truth[record["image"]]:
            if index in possible:
                box = [x1 * w, y1 * h, (x2 - x1) * w, (y2 - y1) * h]
                place = {"id": len(annotations) + 1, "image_id": number, "category_id": index + 1}
                annotations.append(place | {"bbox": box, "area": box[2] * box[3], "iscrowd": 0})
    return annotations


def _results(
    records: Sequence[Record], side: str, classes: Mapping[int, int], possible: set[int]
) -> Iterator[dict[str, Any]]:
    """Yield the objects that were found, in the form of the annotations."""
    for number, record in enumerate(records, start=1):
        for index, score, x1, y1, x2, y2 in record[side]:
            category = classes.get(int(index)) if classes else int(index)
            if category in possible:
                place = {"image_id": number, "category_id": category + 1}
                yield place | {"bbox": [x1, y1, x2 - x1, y2 - y1], "score": score}
