"""Detection of the objects on one picture: from the files to named objects, for ``detect``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from delegate.options import Options
from rk3588_vision.class_ranking import read_label_lines
from rk3588_vision.detection.boxes import Detections, Mask
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import DetectorPlan, Thresholds, detect
from rk3588_vision.detection.recognise import DECODERS
from rk3588_vision.images import open_image

Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class FoundObject:
    """One object: its class counted from 0, the label (None without a label file), the score, and
    the box (x1, y1, x2, y2) in pixels of the picture.

    ``points``: key points as x, y and how sure, empty without; ``outline``: the corners of a box
    that lies aslant, empty without; ``mask``: the pixels of the object, None without.
    """

    index: int
    label: str | None
    score: float
    box: tuple[float, float, float, float]
    points: tuple[Point, ...] = ()
    outline: tuple[tuple[float, float], ...] = ()
    mask: Mask | None = None

    @property
    def name(self) -> str:
        """What people read: the label, or the class's number."""
        return self.label or f"class {self.index}"


def named_objects(found: Detections, labels: Sequence[str] | None) -> tuple[FoundObject, ...]:
    """Detections one by one, with labels."""

    def label_of(index: int) -> str | None:
        """None where the file has an empty or no line, too."""
        return labels[index] or None if labels and 0 <= index < len(labels) else None

    objects = []
    for i in range(len(found)):
        index = int(found.classes[i])
        x1, y1, x2, y2 = (float(v) for v in found.boxes[i])
        points = () if found.points is None else found.points[i].tolist()
        outline = () if found.outlines is None else found.outlines[i].tolist()
        objects.append(
            FoundObject(
                index,
                label_of(index),
                float(found.scores[i]),
                (x1, y1, x2, y2),
                tuple((x, y, sure) for x, y, sure in points),
                tuple((x, y) for x, y in outline),
                None if found.masks is None else found.masks[i],
            )
        )
    return tuple(objects)


def check_labels(path: Path, labels: Sequence[str], plan: DetectorPlan) -> None:
    """Raises UsageError for a label file of another length than the model has classes."""
    expected = plan.head.classes
    if expected is not None and len(labels) != expected:
        raise UsageError(f"{path}: {len(labels)} labels for {expected} classes")


def detect_objects(
    image: Path,
    model: Path,
    options: Options,
    *,
    labels: Path | None,
    threshold: float,
    decoder: str | None,
) -> tuple[FoundObject, ...]:
    """The objects on ``image``, best first. Raises ModelError, UsageError, DelegateError."""
    if decoder is not None and decoder not in DECODERS:
        raise UsageError(f"no decoder {decoder!r}; there are: {', '.join(DECODERS)}")
    if not 0.0 <= threshold <= 1.0:
        raise UsageError(f"the threshold {threshold} is not from 0 to 1")
    names = read_label_lines(labels) if labels is not None else None
    plan = DetectorPlan.read(model, Hints(decoder, len(names) if names is not None else None))
    if names is not None and labels is not None:
        check_labels(labels, names, plan)
    picture = open_image(image)
    delegated = DelegatedModel.load(model, options)
    return named_objects(detect(plan, delegated, picture, Thresholds(threshold)), names)
