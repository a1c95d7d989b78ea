"""Where tensors that are parts of one another lie in the piece of memory they share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor begins in the piece of memory of its group, named by one of its tensors.
    ``pixel``: of the image, counted row by row.
    """

    group: int
    image: int
    pixel: int
    channel: int
