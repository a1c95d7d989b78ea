"""Where tensors that are parts of one another lie in the piece of memory they share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor begins in the piece of memory of its group, named by one of its tensors."""

    group: int
    image: int
    row: int
    channel: int
