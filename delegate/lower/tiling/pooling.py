"""Windows that slide over a map, of pooling and reductions: sizes, strides and borders."""

from __future__ import annotations

from dataclasses import dataclass

from delegate.lower.tiling.geometry import Axis


@dataclass(frozen=True, slots=True)
class Pooling:
    """The windows over rows and columns."""

    rows: Axis
    columns: Axis

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of the image with its border."""
        return self.rows.padded, self.columns.padded

    @property
    def is_padded(self) -> bool:
        return self.rows.padding + self.columns.padding > 0


LINE_BUFFER_COLUMNS = 128
"""Columns of a result whose windows do not overlap in rows, per pooling task: what the line buffer
holds (every one of 30 recorded programs of the vendor keeps to it; wider ones hung at others)."""


def pooled_columns(kernel_rows: int, stride_rows: int) -> int:
    """Return the most columns that one pooling task may give: rows of windows that overlap share
    the line buffer, their number rounded up to a power of two.
    """
    overlapping = -(-kernel_rows // stride_rows)
    return LINE_BUFFER_COLUMNS >> (overlapping - 1).bit_length()


def doublings(axis: Axis, gap: int = 1) -> tuple[int, ...]:
    """Return the shifts that make maxima of windows, of which points ``gap`` apart count, from
    single values: each is the maximum so far and itself shifted.
    """
    points, covered, shifts = (axis.kernel - 1) // gap + 1, 1, []
    while covered < points:
        step = min(covered, points - covered)
        shifts.append(step * gap)
        covered += step
    return tuple(shifts)
