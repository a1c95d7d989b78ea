"""Which operations leave surfaces unwritten that others read to complete a group of channels.

What is read there has no influence on any result, but nothing may be read before it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from delegate.chip.limits import CHANNELS_PER_SURFACE, surfaces_of
from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.places import Place
from delegate.lower.operation import Planning


def unwritten_reads(planning: Planning, footprints: Sequence[Footprint]) -> frozenset[int]:
    """The nodes of ``footprints`` whose ``unwritten`` surfaces some of them read, beyond the
    channels of an operand.
    """
    found: dict[tuple[int, int], set[int]] = {}
    for footprint in footprints:
        first = footprint.writes
        for surface in _of_piece(planning, footprint.result, first, first + footprint.unwritten):
            found.setdefault(surface, set()).add(footprint.node.index)
    if not found:
        return frozenset()
    missed: set[int] = set()
    for footprint in footprints:
        for tensor, surfaces in footprint.reads:
            own = surfaces_of(planning.tensor(tensor).view.channels)
            for surface in _of_piece(planning, tensor, own, surfaces):
                missed |= found.get(surface, set())
    return frozenset(missed)


def _of_piece(planning: Planning, tensor: int, begin: int, end: int) -> Iterable[tuple[int, int]]:
    """Surfaces of ``tensor``, its own first one being 0, as those of the memory it shares."""
    place = planning.joined.get(tensor, Place(-1 - tensor, 0, 0, 0))
    first = place.channel // CHANNELS_PER_SURFACE
    return ((place.group, first + surface) for surface in range(begin, end))
