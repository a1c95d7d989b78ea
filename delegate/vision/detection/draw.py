"""Boxes with labels and scores, drawn on a copy of the picture."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from delegate.vision.detection.boxes import Detections

if TYPE_CHECKING:
    from PIL.Image import Image

_GOLDEN_SHARE = 0.618033988749895
"""Steps of the hue that keep the colours of neighbouring classes far apart."""

_LEAST_TEXT_PIXELS = 11
_TEXT_SHARE = 1 / 36  # of the picture's shorter side
_LINE_SHARE = 1 / 200

Colour = tuple[int, int, int]


def class_colour(index: int) -> Colour:
    """The same colour for a class on every picture."""
    r, g, b = colorsys.hsv_to_rgb(index * _GOLDEN_SHARE % 1.0, 0.85, 0.95)
    return round(255 * r), round(255 * g), round(255 * b)


def _text_colour(background: Colour) -> Colour:
    r, g, b = background
    return (0, 0, 0) if 0.299 * r + 0.587 * g + 0.114 * b > 140 else (255, 255, 255)


def label_of(index: int, labels: Sequence[str] | None) -> str | None:
    """The label of a class, None without labels or where the file has an empty or no line."""
    if labels is None or not 0 <= index < len(labels):
        return None
    return labels[index] or None


def draw(image: Image, found: Detections, labels: Sequence[str] | None) -> Image:
    """An RGB copy of ``image`` with the boxes; the best ones are drawn last, on top."""
    from PIL import ImageDraw, ImageFont

    picture = image.convert("RGB")
    canvas = ImageDraw.Draw(picture)
    short = min(picture.size)
    line = max(2, round(short * _LINE_SHARE))
    font = ImageFont.load_default(max(_LEAST_TEXT_PIXELS, round(short * _TEXT_SHARE)))
    for number in reversed(range(len(found))):
        x1, y1, x2, y2 = (float(v) for v in found.boxes[number])
        index = int(found.classes[number])
        colour = class_colour(index)
        canvas.rectangle((x1, y1, x2, y2), outline=colour, width=line)
    for number in reversed(range(len(found))):  # no line may cross a label
        x1, y1 = (float(v) for v in found.boxes[number][:2])
        index = int(found.classes[number])
        colour = class_colour(index)
        name = label_of(index, labels) or f"class {index}"
        text = f"{name} {found.scores[number]:.2f}"
        left, top, right, bottom = canvas.textbbox((0, 0), text, font=font)
        w, h = right - left + 2 * line, bottom - top + 2 * line
        x = min(max(x1, 0.0), max(picture.width - w, 0.0))
        y = y1 - h if y1 >= h else y1  # inside the box where there is no room above it
        canvas.rectangle((x, y, x + w, y + h), fill=colour)
        canvas.text((x + line - left, y + line - top), text, _text_colour(colour), font=font)
    return picture
