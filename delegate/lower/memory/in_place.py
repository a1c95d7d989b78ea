"""Which results lie where their operand lies, so that both need memory once.

In: footprints in execution order. An operation that makes every byte from the byte at the same
place may write over its operand if nothing reads that later. The last operation of a partition
never does: what shows that a run is done is that its last task wrote something else than it read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from delegate.lower.memory.footprint import Footprint
from delegate.lower.memory.tensors import memory_view
from delegate.model.graph import Graph


def results_in_place(
    graph: Graph, footprints: Sequence[Footprint], fixed: Collection[int]
) -> Mapping[int, int]:
    """The operand of every result that lies in its place. ``fixed``: tensors that the host
    converts or that share memory in other ways, which stay where they are.
    """
    last_read = {t: when for when, found in enumerate(footprints) for t, _ in found.reads}
    written = {footprint.result for footprint in footprints}
    found = {}
    for when, footprint in enumerate(footprints[:-1]):
        if not footprint.byte_by_byte:
            continue
        ((operand, _),) = footprint.reads
        shapes = {memory_view(graph.tensor(t)) for t in (operand, footprint.result)}
        is_free = operand in written and last_read[operand] == when
        if is_free and len(shapes) == 1 and not {operand, footprint.result} & set(fixed):
            found[footprint.result] = operand
    return found
