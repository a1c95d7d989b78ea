"""Blocks of operators that follow each other several times: one box each in the report's graph."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_LONGEST = 64
"""Nodes of a block: the largest that detectors repeat, a bottleneck with its SiLUs, has 20."""
_LEAST_SAVED = 2
"""Boxes; one box instead of two would tell less than both."""


@dataclass(frozen=True, slots=True)
class Block:
    """``length`` items from ``first`` on, ``times`` times one after the other."""

    first: int
    length: int
    times: int


def repeated_blocks(items: Sequence[Hashable]) -> tuple[Block, ...]:
    """``items`` from begin to end as blocks; what does not repeat is a block of one item, once.

    Where several could begin, the one that saves most boxes, the shortest of these.
    """
    blocks = []
    first = 0
    while first < len(items):
        best = Block(first, 1, 1)
        for length in range(1, min(_LONGEST, (len(items) - first) // 2) + 1):
            block = Block(first, length, _times(items, first, length))
            if _saved(block) > max(_saved(best), _LEAST_SAVED - 1):
                best = block
        blocks.append(best)
        first += best.length * best.times
    return tuple(blocks)


def _saved(block: Block) -> int:
    return block.length * block.times - 1 if block.times > 1 else 0


def _times(items: Sequence[Hashable], first: int, length: int) -> int:
    block = items[first : first + length]
    times = 1
    while items[first + times * length : first + (times + 1) * length] == block:
        times += 1
    return times
