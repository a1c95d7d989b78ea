"""Boxes, masks and key points with labels and scores, drawn on a copy of the picture."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rk3588_vision.detection.boxes import Floats
from rk3588_vision.detection.candidate import COCO_POINTS
from rk3588_vision.detection.mediapipe import BLAZEPOSE_POINTS, HAND_POINTS
from rk3588_vision.detection.objects import FoundObject

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_GOLDEN_SHARE = 0.618033988749895
"""Steps of the hue that keep the colours of neighbouring classes far apart."""

_LEAST_TEXT_PIXELS = 11
_TEXT_SHARE = 1 / 36  # of the picture's shorter side
_LINE_SHARE = 1 / 200

_MASK_SHARE = 0.45
"""The share of a mask's colour in the colour of its pixels."""
_LEAST_SEEN = 0.5
"""The least score of a key point that is drawn, as the models' own programs have it."""

_COCO_LIMBS = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip
"""Pairs of a person's 17 key points that COCO joins ("skeleton" of its annotations, from 0)."""

_HAND_BONES = (
    (0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 6), (6, 7), (7, 8), (5, 9), (9, 10), (10, 11),
    (11, 12), (9, 13), (13, 14), (14, 15), (15, 16), (13, 17), (0, 17), (17, 18), (18, 19),
    (19, 20),
)  # fmt: skip
"""Lines between a hand's 21 points: the fingers from the wrist (0), and the palm's edge."""

_BLAZEPOSE_LIMBS = (
    (11, 12), (11, 13), (13, 15), (12, 14), (14, 16), (11, 23), (12, 24), (23, 24), (23, 25),
    (25, 27), (24, 26), (26, 28), (27, 31), (28, 32), (0, 2), (0, 5), (2, 7), (5, 8), (9, 10),
)  # fmt: skip
"""Lines between BlazePose's 33 points: arms, trunk, legs, and lines of the face."""

_LINES = {BLAZEPOSE_POINTS: _BLAZEPOSE_LIMBS, COCO_POINTS: _COCO_LIMBS, HAND_POINTS: _HAND_BONES}
"""The lines by the number of points."""

Colour = tuple[int, int, int]


def class_colour(index: int) -> Colour:
    """The same colour for a class on every picture."""
    r, g, b = colorsys.hsv_to_rgb(index * _GOLDEN_SHARE % 1.0, 0.85, 0.95)
    return round(255 * r), round(255 * g), round(255 * b)


def _text_colour(background: Colour) -> Colour:
    r, g, b = background
    return (0, 0, 0) if 0.299 * r + 0.587 * g + 0.114 * b > 140 else (255, 255, 255)


def draw(image: Image, found: Sequence[FoundObject]) -> Image:
    """An RGB copy of ``image`` with what was found, the first ones on top."""
    from PIL import ImageFont
    from PIL.ImageDraw import Draw

    picture = _with_masks(image.convert("RGB"), found)
    canvas = Draw(picture)
    short = min(picture.size)
    line = max(2, round(short * _LINE_SHARE))
    font = ImageFont.load_default(max(_LEAST_TEXT_PIXELS, round(short * _TEXT_SHARE)))
    for one in reversed(found):
        colour = class_colour(one.index)
        if one.outline:
            corners = [*one.outline, *one.outline[:2]]
            canvas.line(corners, fill=colour, width=line, joint="curve")
        else:
            canvas.rectangle(one.box, outline=colour, width=line)
        if one.points:
            _draw_points(canvas, np.array(one.points), colour, line)
    for one in reversed(found):  # no line may cross a label
        x1, y1, _, _ = one.box
        colour = class_colour(one.index)
        text = f"{one.name} {one.score:.2f}"
        left, top, right, bottom = canvas.textbbox((0, 0), text, font=font)
        w, h = right - left + 2 * line, bottom - top + 2 * line
        x = min(max(x1, 0.0), max(picture.width - w, 0.0))
        y = y1 - h if y1 >= h else y1  # inside the box where there is no room above it
        canvas.rectangle((x, y, x + w, y + h), fill=colour)
        canvas.text((x + line - left, y + line - top), text, _text_colour(colour), font=font)
    return picture


def _with_masks(picture: Image, found: Sequence[FoundObject]) -> Image:
    from PIL.Image import fromarray

    pixels = np.array(picture, dtype=np.uint8)
    for one in reversed(found):
        if one.mask is None:
            continue
        area, inside = one.mask.on(pixels)
        colour = np.array(class_colour(one.index), dtype=np.float64)
        mixed = area[inside] * (1.0 - _MASK_SHARE) + colour * _MASK_SHARE
        area[inside] = np.rint(mixed).astype(np.uint8)
    return fromarray(pixels)


def _draw_points(canvas: ImageDraw, points: Floats, colour: Colour, line: int) -> None:
    seen = points[:, 2] >= _LEAST_SEEN
    for a, b in _LINES.get(len(points), ()):
        if seen[a] and seen[b]:
            ends = [(float(x), float(y)) for x, y in points[[a, b], :2]]
            canvas.line(ends, fill=colour, width=line)
    for x, y in points[seen, :2]:
        at = (float(x) - 1.5 * line, float(y) - 1.5 * line)
        to = (float(x) + 1.5 * line, float(y) + 1.5 * line)
        canvas.ellipse((*at, *to), fill=colour, outline=_text_colour(colour))
