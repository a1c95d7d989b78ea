"""Semantic segmentation: a class for every pixel, as DeepLab and its relatives give it.

What a class covers becomes one object: its mask, the box around it, and its mean probability.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from rk3588_vision.class_ranking import softmax
from rk3588_vision.detection.boxes import Detections, Floats
from rk3588_vision.detection.candidate import USUAL, Candidate, Outputs, class_score
from rk3588_vision.detection.head import Head, are_probabilities, as_probability
from rk3588_vision.placement import LABEL_IMAGE

PASCAL: Final = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair",
    "cow", "dining table", "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa",
    "train", "tv",
)  # fmt: skip
"""Classes of PASCAL VOC, in the order of DeepLab's label maps."""
CITYSCAPES: Final = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign",
    "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle",
    "bicycle",
)  # fmt: skip
_NAMES: Final = {len(PASCAL): PASCAL, len(CITYSCAPES): CITYSCAPES}
_LEAST_SHARE: Final = 0.001
"""The share of the picture that a class must cover: single pixels are noise."""
_MOST_SHRUNK: Final = 32
"""The largest ratio of a side of the input to that of the map."""
_LEAST_CLASSES: Final = 5
"""Fewer channels may be colours: a picture is an output of other networks."""


@dataclass(frozen=True, slots=True)
class SegmentationHead(Head):
    """Scores of ``classes`` per pixel, [1, h, w, classes] or, ``channels_first``,
    [1, classes, h, w]. With one channel it is how likely each pixel belongs to the object. Class 0
    is the background, unless the classes are those of Cityscapes, which has none.
    """

    preparation = LABEL_IMAGE

    channels: int
    channels_first: bool

    @property
    def name(self) -> str:
        return "mask" if self.channels == 1 else "segmentation"

    @property
    def classes(self) -> int:
        return self.channels

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes, where their number tells the data set."""
        return _NAMES.get(self.classes)

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        shares = self._shares(outputs)
        best = shares.argmax(axis=0)
        boxes, classes, scores = [], [], []
        for index in range(self._first, len(shares)):
            rows, columns = np.nonzero(best == index)
            if rows.size < _LEAST_SHARE * best.size or not rows.size:
                continue
            boxes.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            classes.append(index - (self.classes == 1))
            scores.append(shares[index, rows, columns].mean())
        scale = np.array([self.input_w / best.shape[1], self.input_h / best.shape[0]] * 2)
        found = Detections(
            np.array(boxes, np.float64).reshape(-1, 4) * scale,
            np.array(classes, np.int64),
            np.array(scores, np.float64),
        )
        return found.above(threshold)

    def logits(self, found: Detections, outputs: Sequence[Floats]) -> Iterable[Floats]:
        """Return by how much each class is more likely than all others."""
        shares, classes = self._shares(outputs), found.classes + (self.classes == 1)
        return (shares[i] - np.delete(shares, i, axis=0).max(axis=0) for i in classes)

    @property
    def _first(self) -> int:
        """The first class that is no background."""
        return 0 if self.classes == len(CITYSCAPES) else 1

    def _shares(self, outputs: Sequence[Floats]) -> Floats:
        """Return the probability of every class [classes, h, w]; of one class, that of the rest
        before it.
        """
        values = outputs[0][0] if self.channels_first else np.moveaxis(outputs[0][0], -1, 0)
        if len(values) == 1:
            likely = as_probability(values)
            return np.concatenate([1.0 - likely, likely])
        if are_probabilities(values):
            return values
        return np.moveaxis(softmax(np.moveaxis(values, 0, -1)), -1, 0)


@dataclass(frozen=True, slots=True)
class LabelMapHead(Head):
    """The class of every pixel as a number, [1, h, w] or [1, h, w, 1]: the largest was taken inside
    the model, so that there are no probabilities, and every score is 1.
    """

    name = "label-map"
    class_names = PASCAL
    preparation = LABEL_IMAGE

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        return self._as_scores().decode(self._hot(outputs), threshold)

    def logits(self, found: Detections, outputs: Sequence[Floats]) -> Iterable[Floats]:
        return self._as_scores().logits(found, self._hot(outputs))

    def _as_scores(self) -> SegmentationHead:
        return SegmentationHead(self.input_h, self.input_w, 0, True)

    def _hot(self, outputs: Sequence[Floats]) -> list[Floats]:
        """Return 1 at the class of every pixel, 0 at the others [1, classes, h, w]."""
        classes = outputs[0].reshape(outputs[0].shape[1:3]).astype(np.int64)
        several = range(max(int(classes.max()) + 1, 2))
        return [np.stack([(classes == index) * 1.0 for index in several])[np.newaxis]]


def segmentation_candidates(outputs: Outputs) -> Iterator[Candidate]:
    """Yield the readings of one output that is a map over the input."""
    if len(outputs.tensors) != 1:
        return
    output = outputs.tensors[0]
    shape, size = output.shape, (outputs.input_h, outputs.input_w)
    if len(shape) == 3 and shape[1:] == size:
        yield Candidate(LabelMapHead(*size), "a class per pixel, as a number", USUAL)
        return
    if len(shape) != 4 or shape[0] != 1:
        return
    for channels_first in (False, True):
        h, w, classes = (*shape[2:], shape[1]) if channels_first else shape[1:]
        if size[0] > _MOST_SHRUNK * h or size[1] > _MOST_SHRUNK * w or h > size[0] or w > size[1]:
            continue
        if h * size[1] != w * size[0] or max(h, w) <= classes:
            continue
        named = outputs.hints.decoder == "segmentation" or outputs.hints.classes == classes
        if classes == 1:
            if outputs.hints.decoder == "label-map":
                yield Candidate(LabelMapHead(*size), "a class per pixel, as a number", 0)
            head = SegmentationHead(*size, 1, channels_first)
            doubt = "depth and brightness are maps of one channel, too"
            yield Candidate(head, "an object's mask", 0, (), doubt)
        elif classes >= _LEAST_CLASSES or named:
            head = SegmentationHead(*size, classes, channels_first)
            score, reasons = class_score(classes, outputs.hints)
            if head.class_names:
                score, reasons = score + USUAL, (*reasons, "as many as a known data set has")
            whole = (h, w) == size
            yield Candidate(head, f"{classes} classes per pixel", score + 2 * whole, reasons)
