"""Which layers share their rows among the cores, and in which bands.

A layer that is shared costs an epoch of its own: every core gets a submit, and the host waits for
all of them before anything may read what another core wrote. So a layer is shared only if that
takes less time by estimate. Rows are contiguous per core: neighbours exchange little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from delegate.chip.rates import Rates
from delegate.lower.cost import ceil_div

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class RowSharing:
    """Over how many cores layers may be spread.

    ``always``: also where the estimate loses. ``separate_memory``: cores have no memory in common
    (rocket gives every open file an address space), so the host copies what they exchange.
    """

    cores: int
    always: bool = False
    separate_memory: bool = False
    rates: Rates = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Share:
    """What one core would do of a layer, or one core alone all of it."""

    cost_cycles: int
    moved_bytes: int


def bands(rows: int, cores: int) -> tuple[tuple[int, int], ...]:
    """Output rows [begin, end) of each core, as even as possible; fewer bands than cores if there
    are fewer rows.
    """
    count = min(rows, cores)
    size, extra = divmod(rows, count)
    result, begin = [], 0
    for core in range(count):
        end = begin + size + (core < extra)
        result.append((begin, end))
        begin = end
    return tuple(result)


def epoch_cycles(rates: Rates, shares: list[Share]) -> int:
    """Cores run side by side but share the memory."""
    moved = sum(share.moved_bytes for share in shares)
    bus = rates.shared_cycles(moved, len(shares))
    return max(bus, *(share.cost_cycles for share in shares))


def is_worth_it(sharing: RowSharing, alone: Share, shares: list[Share], output_bytes: int) -> bool:
    """Whether a layer is faster in bands. ``output_bytes``: what it writes."""
    if len(shares) < 2:
        return False
    if sharing.always:
        return True
    cycles = epoch_cycles(sharing.rates, shares) + len(shares) * sharing.rates.submit_cycles
    if sharing.separate_memory:
        cycles += ceil_div(output_bytes * len(shares), sharing.rates.host_bytes_per_cycle)
    return cycles < alone.cost_cycles


def over_cores(
    sharing: RowSharing | None,
    rows: int,
    alone: Work,
    part: Callable[[int, int], Work],
    share: Callable[[Work], Share],
    output_bytes: int,
) -> tuple[Work, ...]:
    """``alone``, or where that is faster what each of several cores does instead: ``part`` of the
    output rows [begin, end). ``share``: what such work costs. ``output_bytes``: what all of it
    writes.
    """
    if sharing is None:
        return (alone,)
    parts = tuple(part(begin, end) for begin, end in bands(rows, sharing.cores))
    gains = is_worth_it(sharing, share(alone), [share(work) for work in parts], output_bytes)
    return parts if gains else (alone,)
