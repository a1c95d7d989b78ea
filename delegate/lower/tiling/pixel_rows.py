"""Other rows for convolutions that see single pixels.

A 1 x 1 kernel of stride 1 without padding does not care how an image's pixels form rows, and a
surface holds them one after the other. Rows of another length can need fewer tasks: an image
wider than a task's 2047 pixels has to be cut into columns, its pixels in shorter rows do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from delegate.chip.chip import Chip
from delegate.lower.memory.tensors import View
from delegate.lower.resolved import Convolution

# Of rows that are multiples of so many pixels, the longest is tried: whole groups of the array
# (16), whole entries of CBUF (4), any.
GRANULES = (16, 4, 1)


def sees_single_pixels(conv: Convolution) -> bool:
    """Whether every pixel of a dense convolution's result comes from the same one of its source."""
    return not conv.is_depthwise and conv.kernel == (1, 1) and _keeps_pixels(conv)


def other_rows(conv: Convolution) -> Iterator[Convolution]:
    """``conv`` with other row lengths, if its kernel sees single pixels."""
    if conv.kernel != (1, 1) or not _keeps_pixels(conv):
        return
    for width in row_lengths(conv.chip, conv.input_view):
        height = conv.input_view.pixels // width
        yield replace(
            conv,
            input_view=replace(conv.input_view, height=height, width=width),
            output_view=replace(conv.output_view, height=height, width=width),
        )


def _keeps_pixels(conv: Convolution) -> bool:
    """With strides of one pixel, without padding, and not on what the host folds."""
    is_same = conv.padding == (0, 0) and conv.input_view.pixels == conv.output_view.pixels
    return conv.strides == conv.spread == (1, 1) and is_same and conv.source.fold is None


def row_lengths(chip: Chip, view: View) -> list[int]:
    """Divisors of the pixel count: for every granule the longest row; and the squarest image, whose
    short rows let a tile end where CBUF is full. None shorter than the array's group of pixels.
    """
    pixels = view.pixels
    longest = min(pixels, chip.limits.feature_size)
    divisors = [n for n in range(chip.rates.step_pixels, longest + 1) if pixels % n == 0]
    if not divisors:
        return []
    chosen = [min(divisors, key=lambda n: abs(n * n - pixels))]
    for granule in GRANULES:
        chosen += [n for n in divisors if n % granule == 0][-1:]
    return [width for width in dict.fromkeys(chosen) if width != view.width]


def rows_text(conv: Convolution) -> str:
    """Describe it for the explanation of a plan."""
    view, seen = conv.target.view, conv.output_view
    if view.pixels != seen.pixels or view.width == seen.width:
        return ""
    return f"pixels as {seen.height} x {seen.width}, "
