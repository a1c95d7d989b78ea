"""Detections in JSON and on drawn pictures; what pictures and videos share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.files import write_file
from delegate.errors import UsageError
from delegate.vision.detection.boxes import Detections
from delegate.vision.detection.draw import label_of

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".webp": "WEBP"}


def save_picture(picture: Image, target: Path) -> None:
    """Writes a picture in the format of its name. Raises UsageError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None
    content = io.BytesIO()
    picture.save(content, FORMATS[target.suffix.lower()])
    write_file(target, content.getvalue())


def detection_list(found: Detections, labels: Sequence[str] | None) -> list[dict[str, Any]]:
    """The JSON of detections, best first; "points" are [x, y, how sure], "outline" the corners of a
    box that lies aslant.
    """
    return [
        {
            "class": int(found.classes[i]),
            "label": label_of(int(found.classes[i]), labels),
            "score": float(found.scores[i]),
            "box": [float(v) for v in found.boxes[i]],
            **({} if found.points is None else {"points": found.points[i].tolist()}),
            **({} if found.outlines is None else {"outline": found.outlines[i].tolist()}),
        }
        for i in range(len(found))
    ]
