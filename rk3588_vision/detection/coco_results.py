"""Detections in the form of COCO's results, as its evaluation (pycocotools) reads them.

One entry per object: "image_id", "category_id", "bbox" [x, y, width, height] and "score"; with key
points "keypoints" [x, y, v, ...], with masks "segmentation" as run lengths of the whole picture.
See "Results format" of cocodataset.org.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rk3588_vision.detection.boxes import Mask
from rk3588_vision.detection.candidate import COCO_CLASSES
from rk3588_vision.detection.objects import FoundObject

# COCO's annotations number 80 kinds from 1 to 90; these numbers have none.
_UNUSED_CATEGORIES = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
COCO_CATEGORIES = tuple(number for number in range(1, 91) if number not in _UNUSED_CATEGORIES)
"""The category of each of COCO's 80 classes in order."""


def category_of(index: int, classes: int | None) -> int:
    """COCO's category of a class: of a model with 80 classes by COCO's table, else ``index + 1``,
    which is right for the SSD models that keep COCO's numbers from 0 to 89.
    """
    return COCO_CATEGORIES[index] if classes == COCO_CLASSES else index + 1


def image_id_of(path: Path) -> int | str:
    """COCO's number in a file name ("000000000139.jpg"), else the name itself."""
    return int(path.stem) if path.stem.isascii() and path.stem.isdigit() else path.name


def run_lengths(mask: Mask, image_h: int, image_w: int) -> dict[str, Any]:
    """COCO's uncompressed run lengths: of zeros and ones in turn, down the columns."""
    whole: npt.NDArray[np.bool_] = np.zeros((image_h, image_w), dtype=bool)
    area, inside = mask.on(whole)
    area[:] = inside
    flat = whole.reshape(-1, order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(ends).tolist()
    return {"size": [image_h, image_w], "counts": [0, *counts] if flat[0] else counts}


def coco_results(
    found: Sequence[FoundObject], path: Path, image_h: int, image_w: int, classes: int | None
) -> list[dict[str, Any]]:
    """The entries of one picture, best first."""
    entries = []
    for one in found:
        x1, y1, x2, y2 = one.box
        entry: dict[str, Any] = {
            "image_id": image_id_of(path),
            "category_id": category_of(one.index, classes),
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "score": one.score,
        }
        if one.points:
            entry["keypoints"] = [value for point in one.points for value in point]
        if one.mask is not None:
            entry["segmentation"] = run_lengths(one.mask, image_h, image_w)
        entries.append(entry)
    return entries
