"""Detection of objects: from pictures to named objects, through the delegate."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from delegate.errors import UsageError
from delegate.options import Options
from rk3588_vision.class_ranking import embedded_labels, read_label_lines
from rk3588_vision.classification import Labels
from rk3588_vision.detection.boxes import Detections, Mask
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.detection.detector import (
    DEFAULT_IOU,
    DEFAULT_LIMIT,
    DEFAULT_THRESHOLD,
    DetectorPlan,
    Thresholds,
)
from rk3588_vision.detection.recognise import DECODERS
from rk3588_vision.images import Picture, as_image
from rk3588_vision.placement import Placement
from rk3588_vision.session import CORES, Arrays, Session

Point = tuple[float, float, float]

_ALONE: Final = ("person", "face", "palm", "hand")
"""The classes that models of one class are made for, as the names of their files say."""


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
        """Return the name that people read: the label, or the class's number."""
        return self.label or f"class {self.index}"


def named_objects(found: Detections, labels: Sequence[str] | None) -> tuple[FoundObject, ...]:
    """Detections one by one, with labels."""

    def label_of(index: int) -> str | None:
        """Return the label; None where the file has an empty or no line, too."""
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


def check_labels(path: str | Path, labels: Sequence[str], plan: DetectorPlan) -> None:
    """Raises UsageError for a label file of another length than the model has classes."""
    expected = plan.head.classes
    if expected is not None and len(labels) != expected:
        raise UsageError(f"{path}: {len(labels)} labels for {expected} classes")


class Detector(Session[tuple[FoundObject, ...]]):
    """A detector that stays loaded: objects, people, masks or key points of pictures. A result is
    what was found on one, best first.

    ``labels``: a file with one line per class, or the names; without them those in the model's
    file, or what the family finds (face, palm, person). ``threshold``: the least score; ``iou``:
    the largest overlap of two boxes of a class; ``limit``: the most objects. ``decoder``: how the
    outputs are read, where the model does not tell (names: ``rk3588-delegate detect --help``).
    ``options``: the delegate's. Raises ModelError if the model is no detector or could be several,
    UsageError for a bad label file, decoder or option.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        labels: Labels | None = None,
        threshold: float = DEFAULT_THRESHOLD,
        iou: float = DEFAULT_IOU,
        limit: int = DEFAULT_LIMIT,
        decoder: str | None = None,
        plan: DetectorPlan | None = None,
        workers: int = CORES,
        queue: int | None = None,
        **options: Any,
    ) -> None:
        """``plan``: how the model is read, if somebody has made it already; ``decoder`` is then
        its.
        """
        if decoder is not None and decoder not in DECODERS:
            raise UsageError(f"no decoder {decoder!r}; there are: {', '.join(DECODERS)}")
        if not 0.0 <= threshold <= 1.0:
            raise UsageError(f"the threshold {threshold} is not from 0 to 1")
        effective, path = Options.from_mapping(options), Path(model)
        names = read_label_lines(Path(labels)) if isinstance(labels, str | Path) else labels
        classes = len(names) if names is not None else None
        self.plan: Final = plan or DetectorPlan.read(path, Hints(decoder, classes))
        if names is not None:
            check_labels(labels if isinstance(labels, str | Path) else "labels", names, self.plan)
        self.labels: Final = names if names is not None else known_names(path, self.plan)
        self._thresholds = Thresholds(threshold, iou, limit)
        super().__init__(path, effective, workers=workers, queue=queue)

    def prepare(self, picture: Picture) -> tuple[npt.NDArray[Any], Placement]:
        """Return the model's input tensor for ``picture``, and where the picture lies in it."""
        return self.plan.place(as_image(picture))

    def decode(self, outputs: Arrays, placement: Placement) -> tuple[FoundObject, ...]:
        """Return the objects that the model's outputs mean, whoever computed them, in pixels of the
        picture. ``placement``: what ``prepare`` gave.
        """
        found = self.plan.decode(outputs, self.output_details, placement, self._thresholds)
        return named_objects(found, self.labels)


def known_names(path: Path, plan: DetectorPlan) -> Sequence[str] | None:
    """Return the names of the classes: of what its family finds, where that is one thing, else
    those that the model's file has, or that its family has; None: nothing says them.
    """
    family = plan.head.class_names
    if plan.head.classes == 1 and family is None:
        words = re.split(r"[^a-z]+", path.stem.lower())
        family = next(((name,) for name in _ALONE if name in words), None)
    if plan.head.classes == 1 and family is not None:
        return family
    return embedded_labels(path, plan.head.classes) or family
