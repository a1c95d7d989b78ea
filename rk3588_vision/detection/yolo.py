"""Share the work of YOLO heads; the head of those that need no suppression.

All give boxes in pixels of the model's input. Exporters write boxes as pixels or as shares of the
input; a tensor whose range ends at about 1 holds shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rk3588_vision.detection.boxes import Detections, Floats, cells
from rk3588_vision.detection.head import OutputTensor
from rk3588_vision.placement import Fit, Preparation

YOLO_PREPARATION = Preparation(Fit.LETTERBOX, 0.0, 255.0)
# Darknet trains with letter_box=0, which stretches, and its users' programs do the same.
DARKNET_PREPARATION = Preparation(Fit.STRETCH, 0.0, 255.0)
YOLOX_PREPARATION = Preparation(Fit.CORNER, 0.0, 1.0, is_bgr=True)

# Boxes as shares may reach over the edge, but no model predicts them twice as large as the picture;
# boxes in pixels of a useful model are far larger than 2.
_LARGEST_SHARE = 2.0


def to_pixels(values: Floats, output: OutputTensor, input_h: int, input_w: int) -> Floats:
    """Pairs of x and y (or width and height) [..., 2 k] in pixels of the input, where the model may
    give them as shares of it.
    """
    highest = output.highest if output.highest is not None else float(values.max(initial=0.0))
    if highest > _LARGEST_SHARE:
        return values
    pixels: Floats = values * np.tile([input_w, input_h], values.shape[-1] // 2)
    return pixels


def decode_yolox(boxes: Floats, strides: Sequence[int], input_h: int, input_w: int) -> Floats:
    """Offsets and logarithms [n, 4] as centres and sizes in pixels."""
    places, sizes = cells(strides, input_h, input_w)
    centres = (boxes[:, :2] + places) * sizes
    return np.concatenate([centres, np.exp(boxes[:, 2:4]) * sizes], axis=1)


@dataclass(frozen=True, slots=True)
class EndToEndHead:
    """v10 and models exported with suppression inside: rows (x1, y1, x2, y2, score, class)."""

    input_h: int
    input_w: int
    output: OutputTensor
    name: str = "end-to-end"
    preparation: Preparation = YOLO_PREPARATION
    needs_suppression: bool = False
    classes: int | None = None

    def decode(self, outputs: Sequence[Floats], threshold: float) -> Detections:
        rows = outputs[0][0]
        boxes = to_pixels(rows[:, :4], self.output, self.input_h, self.input_w)
        return Detections(boxes, rows[:, 5].astype(np.int64), rows[:, 4]).above(threshold)
