"""SSD: the outputs of TFLite_Detection_PostProcess, and the two tensors that go into it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, best_classes
from rk3588_vision.detection.head import Head, OutputTensor, as_probability
from rk3588_vision.placement import LABEL_IMAGE

# The box coder of the object detection API, and the rule by which it spreads anchors.
_SCALE_Y, _SCALE_X, _SCALE_H, _SCALE_W = 10.0, 10.0, 5.0, 5.0
_LAYERS = 6
_FIRST_STRIDE = 16
_SMALLEST, _LARGEST = 0.2, 0.95
_LOWEST_LAYER = ((0.1, 1.0), (_SMALLEST, 2.0), (_SMALLEST, 0.5))
_ASPECTS = (1.0, 2.0, 0.5, 3.0, 1.0 / 3.0)


@dataclass(frozen=True, slots=True)
class PostProcessedHead(Head):
    """Boxes, classes, scores and a count, as the post-process operator gives them.

    ``order``: which of the model's outputs are the operator's boxes, classes, scores and count.
    """

    name = "ssd"
    preparation = LABEL_IMAGE

    order: tuple[int, ...]

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        boxes, classes, scores, count = (outputs[i] for i in self.order)
        n = int(np.clip(count.reshape(-1)[0], 0, scores.size))
        y1, x1, y2, x2 = boxes.reshape(-1, 4)[:n].T
        size = np.array([self.input_w, self.input_h, self.input_w, self.input_h])
        # The runtime leaves what it did not fill as it was.
        corners = np.stack([x1, y1, x2, y2], axis=1) * size
        found = Detections(
            corners, classes.reshape(-1)[:n].astype(np.int64), scores.reshape(-1)[:n]
        )
        return found.take(np.isfinite(corners).all(axis=1)).above(threshold)


@dataclass(frozen=True, slots=True, eq=False)
class RawSsdHead(Head):
    """Box encodings [1, n, 4] and class scores [1, n, classes] with background first."""

    name = "ssd-raw"
    preparation = LABEL_IMAGE
    needs_suppression = True

    boxes: int
    scores: OutputTensor
    scores_at: int
    anchors: Floats = field(repr=False)

    @property
    def classes(self) -> int:
        return self.scores.shape[2] - 1

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        encoded = outputs[self.boxes].reshape(-1, 4)
        scores = as_probability(outputs[self.scores_at][0], self.scores)[:, 1:]
        size_y, size_x = self.anchors[:, 2], self.anchors[:, 3]
        y = encoded[:, 0] / _SCALE_Y * size_y + self.anchors[:, 0]
        x = encoded[:, 1] / _SCALE_X * size_x + self.anchors[:, 1]
        half_h = np.exp(encoded[:, 2] / _SCALE_H) * size_y / 2
        half_w = np.exp(encoded[:, 3] / _SCALE_W) * size_x / 2
        corners = np.stack([x - half_w, y - half_h, x + half_w, y + half_h], axis=1)
        size = np.array([self.input_w, self.input_h, self.input_w, self.input_h])
        return best_classes(corners * size, scores, threshold)


def ssd_anchors(input_h: int, input_w: int) -> Floats:
    """The anchors (y, x, h, w as shares of the input) of the object detection API's SSD models.

    Six layers from stride 16, each half as large as the one before; scales from 0.2 to 0.95 in
    equal steps; three boxes per cell of the first layer and six of the others.
    """
    scales = [_SMALLEST + (_LARGEST - _SMALLEST) * i / (_LAYERS - 1) for i in range(_LAYERS)]
    scales.append(1.0)
    h, w = -(-input_h // _FIRST_STRIDE), -(-input_w // _FIRST_STRIDE)
    parts = []
    for layer in range(_LAYERS):
        if layer == 0:
            kinds = list(_LOWEST_LAYER)
        else:
            kinds = [(scales[layer], aspect) for aspect in _ASPECTS]
            kinds.append((float(np.sqrt(scales[layer] * scales[layer + 1])), 1.0))
        sizes = np.array([[s / np.sqrt(a), s * np.sqrt(a)] for s, a in kinds])
        # Square boxes stay square on inputs that are not: sizes are shares of the shorter side.
        sizes *= np.array([min(input_h, input_w) / input_h, min(input_h, input_w) / input_w])
        y, x = np.meshgrid((np.arange(h) + 0.5) / h, (np.arange(w) + 0.5) / w, indexing="ij")
        centres = np.stack([y, x], axis=-1).reshape(-1, 1, 2)
        cells = np.broadcast_to(centres, (h * w, len(kinds), 2))
        boxes = np.broadcast_to(sizes, (h * w, len(kinds), 2))
        parts.append(np.concatenate([cells, boxes], axis=2).reshape(-1, 4))
        h, w = -(-h // 2), -(-w // 2)
    return np.concatenate(parts)
