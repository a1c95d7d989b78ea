"""Whether a program for several cores is faster than the one for a single core, by estimate.

In: both programs. Out: microseconds, and one line for the user. Launches cost what programs are
tiled by, whichever driver runs them; nothing here was measured on silicon by this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from delegate.chip.rates import Rates
from delegate.lower.cost import ceil_div
from delegate.lower.lowered import LoweredPartition
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import BufferId
from delegate.lower.tiling.bands import RowSharing, Share, epoch_cycles
from delegate.npu.program_types import Program, ProgramTask


@dataclass(frozen=True, slots=True)
class SharingDecision:
    """``text``: one line of what was decided and why."""

    is_shared: bool
    text: str


def decide(
    sharing: RowSharing, alone: Program, shared: Program, lowered: LoweredPartition
) -> SharingDecision:
    """Compares ``alone`` with ``shared``, the program that ``lowered`` became."""
    cores = len({task.core for task in shared.tasks})
    if cores == 1:
        return SharingDecision(False, "one core: no layer gains by sharing its rows")
    cycles_per_us = sharing.rates.clock_hz // 1_000_000
    one = _single_cycles(sharing.rates, alone) // cycles_per_us
    several = shared_cycles(sharing, shared, lowered) // cycles_per_us
    layers = len({task.layer for task in shared.tasks if task.core > 0})
    epochs = 1 + shared.tasks[-1].epoch
    facts = (
        f"{layers} of {len(shared.layers)} layers over {cores} cores in {epochs} epochs: "
        f"estimated {several} us, one core {one} us"
    )
    if several < one:
        return SharingDecision(True, facts)
    if sharing.always:
        return SharingDecision(True, f"{facts}; slower, but split_rows=always")
    return SharingDecision(False, f"one core: {facts}")


def _single_cycles(rates: Rates, program: Program) -> int:
    kicks = len(program.tasks) * rates.kick_cycles
    return rates.submit_cycles + kicks + sum(task.estimate.cycles for task in program.tasks)


def shared_cycles(sharing: RowSharing, program: Program, lowered: LoweredPartition) -> int:
    """All epochs one after the other: cores side by side, then a wait for each of them."""
    total, rates = 0, sharing.rates
    for _, epoch in groupby(program.tasks, lambda task: task.epoch):
        shares = [_share(rates, list(tasks)) for _, tasks in groupby(epoch, lambda task: task.core)]
        total += epoch_cycles(rates, shares) + len(shares) * rates.submit_cycles
        if sharing.separate_memory:
            # Outputs and scratch go to the host and back, for every core.
            synchronised = sum(program.buffers[b].size_bytes for b in _WRITTEN) * len(shares) * 2
            total += ceil_div(synchronised, rates.synchronised_bytes_per_cycle)
    if sharing.separate_memory:
        total += ceil_div(
            _exchanged_bytes(lowered) * (sharing.cores - 1), rates.host_bytes_per_cycle
        )
    return total


_WRITTEN = (BufferId.SCRATCH, BufferId.OUTPUT)


def _share(rates: Rates, tasks: Sequence[ProgramTask]) -> Share:
    cycles = sum(task.estimate.cycles + rates.kick_cycles for task in tasks)
    return Share(cycles, sum(task.bytes for task in tasks))


def _exchanged_bytes(lowered: LoweredPartition) -> int:
    """At most what layers that are shared write."""
    return sum(
        access.surfaces * access.surface_bytes
        for layer in lowered.layers
        if any(task.core > 0 for task in layer.tasks)
        for task in layer.tasks
        for access in accesses(task)
        if access.is_write
    )
