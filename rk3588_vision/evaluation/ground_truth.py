"""Reads what is on pictures, from the forms in which labelled pictures usually lie in folders.

Classes of pictures: file names that begin with the class ("386_n02504458_African_elephant.jpg"), or
a CSV file of image names and classes. Objects: YOLO's text files beside the pictures (class, centre
and size as shares of the picture), or COCO's JSON.
"""

import csv
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from delegate.errors import UsageError
from delegate.model.files import read_text

_SHOWN = 200  # characters of what a parser says
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
_CLASS = re.compile(r"[0-9]{1,9}")
_CLASS_IN_NAME = re.compile(rf"^({_CLASS.pattern})[_.-]")

Box = tuple[int, float, float, float, float]
"""Class, then x1, y1, x2, y2 as shares of the picture."""


Objects = tuple[Box, ...]
"""The objects of one picture."""


def classes_of(images: Sequence[Path], table: Path | None) -> dict[str, int]:
    """The class of every picture by file name. Raises UsageError naming a picture without one."""
    if table is not None:
        known = _read_table(table)
    else:
        known = {
            path.name: int(match.group(1))
            for path in images
            if (match := _CLASS_IN_NAME.match(path.name)) is not None
        }
    missing = next((path for path in images if path.name not in known), None)
    if missing is not None:
        source = f"in {table}" if table is not None else "at the beginning of its name"
        raise UsageError(f"{missing}: no class {source}; --truth takes a CSV of image,class")
    return {path.name: known[path.name] for path in images}


def _read_table(path: Path) -> dict[str, int]:
    text = read_text(path, "file")
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:
        raise UsageError(f"{path}: cannot be read as CSV: {error}") from None
    known = {}
    for number, row in enumerate(rows, start=1):
        if len(row) < 2 or not _CLASS.fullmatch(row[1].strip()):
            if number == 1:
                continue  # headings
            raise UsageError(f"{path}: line {number} is not image,class")
        known[row[0].strip()] = int(row[1])
    return known


def objects_of(images: Sequence[Path], annotations: Path | None) -> dict[str, Objects]:
    """The objects of every picture by file name. Raises UsageError for malformed files.

    A picture without a text file has no objects, but a folder without any text file is refused.
    """
    if annotations is not None:
        return _read_coco(images, annotations)
    texts = {path.name: path.with_suffix(".txt") for path in images}
    if not any(text.exists() for text in texts.values()):
        raise UsageError(
            f"{images[0].parent}: no label files (.txt) beside the pictures; --truth takes COCO's "
            "JSON"
        )
    return {name: _read_yolo(text) for name, text in texts.items()}


def _read_yolo(path: Path) -> Objects:
    if not path.exists():
        return ()
    boxes: list[Box] = []
    for number, line in enumerate(read_text(path, "label file").splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        try:
            if len(words) < 5 or not _CLASS.fullmatch(words[0]):
                raise ValueError
            boxes.append(_box(int(words[0]), *(float(word) for word in words[1:5])))
        except ValueError:
            raise UsageError(f"{path}: line {number} is not class x y w h") from None
    return tuple(boxes)


def _box(index: int, cx: float, cy: float, w: float, h: float) -> Box:
    """Raises ValueError unless the numbers are finite."""
    box = (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
    if not all(map(math.isfinite, box)):
        raise ValueError(f"the box {box} is not finite")
    return (index, *box)


def _coco_boxes(document: Any) -> dict[str, list[Box]]:
    """Raises ValueError, KeyError, TypeError, AttributeError or ArithmeticError."""
    categories = sorted(entry["id"] for entry in document["categories"])
    place = {category: number for number, category in enumerate(categories)}
    sizes = {e["id"]: (e["file_name"], e["width"], e["height"]) for e in document["images"]}
    found: dict[str, list[Box]] = {name: [] for name, _, _ in sizes.values()}
    for entry in document["annotations"]:
        name, w, h = sizes[entry["image_id"]]
        x, y, bw, bh = map(float, entry["bbox"])
        if entry.get("iscrowd"):
            continue
        index = place[entry["category_id"]]
        found[name].append(_box(index, (x + bw / 2) / w, (y + bh / 2) / h, bw / w, bh / h))
    return found


def _read_coco(images: Sequence[Path], path: Path) -> dict[str, Objects]:
    text = read_text(path, "file")
    try:
        found = _coco_boxes(json.loads(text))
    except _MALFORMED as error:
        detail = " ".join(str(error).split())
        raise UsageError(
            f"{path}: not a COCO annotation file: {type(error).__name__}: {detail[:_SHOWN]}"
        ) from None
    return {path.name: tuple(found.get(path.name, ())) for path in images}


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", " ")


def class_map(labels: Sequence[str] | None, truth_labels: Sequence[str] | None) -> dict[int, int]:
    """Classes of the model as classes of the truth, by equal names; empty: they are the same."""
    if labels is None or truth_labels is None:
        return {}
    place = {_plain(name): number for number, name in enumerate(truth_labels)}
    return {i: place[_plain(name)] for i, name in enumerate(labels) if _plain(name) in place}
