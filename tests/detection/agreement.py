"""Two sets of detections of one picture: how many of one are in the other."""

import numpy as np

from rk3588_vision.detection.boxes import Detections

BOX_TOLERANCE = 0.02
"""The share of the picture's longer side that a box may be off."""


def found_again(
    wanted: Detections, among: Detections, image_h: int, image_w: int
) -> tuple[int, int]:
    """Return how many of ``wanted`` are in ``among`` by class and box, and how many there are."""
    tolerance = BOX_TOLERANCE * max(image_h, image_w)
    free = np.ones(len(among), dtype=bool)
    same = 0
    for box, index in zip(wanted.boxes, wanted.classes, strict=True):
        distance = np.abs(among.boxes - box).max(axis=1, initial=0.0)
        near = np.flatnonzero(free & (among.classes == index) & (distance <= tolerance))
        if near.size:
            free[near[distance[near].argmin()]] = False
            same += 1
    return same, len(wanted)
