"""Found objects in JSON and on drawn pictures; what pictures and videos share."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.cli.files import write_file
from delegate.cli.table import print_pairs
from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from rk3588_vision.detection.detector import DetectorPlan
from rk3588_vision.detection.objects import FoundObject

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


def print_detector(
    path: Path, plan: DetectorPlan, model: DelegatedModel, *more: tuple[str, object]
) -> None:
    """Print what finds the objects, and ``more`` about it."""
    facts = model.delegation
    print_pairs(
        ("model", path),
        ("decoder", plan.head.name),
        ("device", model.device),
        ("delegated", f"{facts.delegated_nodes} of {facts.total_nodes} nodes"),
        *more,
    )


def picture_document(image: Image, found: Sequence[FoundObject]) -> dict[str, Any]:
    """The JSON of a picture and the objects on it; "points" are [x, y, how sure], "outline" the
    corners of a box that lies aslant.
    """
    return {
        "width": image.width,
        "height": image.height,
        "detections": [
            {
                "class": one.index,
                "label": one.label,
                "score": one.score,
                "box": one.box,
                **({"points": one.points} if one.points else {}),
                **({"outline": one.outline} if one.outline else {}),
            }
            for one in found
        ],
    }
