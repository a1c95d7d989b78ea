"""Whether a program for several cores is faster than the one for a single core, by estimate.

In: both programs. Out: microseconds, and one line for the user. Launches cost what the stock rocket
driver takes; nothing here was measured on silicon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from delegate.lower.cost import (
    HOST_BYTES_PER_CYCLE,
    KICK_CYCLES,
    SUBMIT_CYCLES,
    SYNCHRONISED_BYTES_PER_CYCLE,
    ceil_div,
)
from delegate.lower.memory.footprint import accesses
from delegate.lower.task import BufferId, LoweredPartition
from delegate.lower.tiling.bands import Share, Split, stage_cycles
from delegate.npu.program_types import Program, ProgramTask

_CYCLES_PER_US = 1000


@dataclass(frozen=True, slots=True)
class SplitDecision:
    """``text``: one line of what was decided and why."""

    is_split: bool
    text: str


def decide(
    split: Split, alone: Program, shared: Program, lowered: LoweredPartition
) -> SplitDecision:
    """Compares ``alone`` with ``shared``, the program that ``lowered`` became."""
    cores = len({task.core for task in shared.tasks})
    if cores == 1:
        return SplitDecision(False, "one core: no layer gains by sharing its rows")
    one = _single_cycles(alone) // _CYCLES_PER_US
    several = shared_cycles(split, shared, lowered) // _CYCLES_PER_US
    layers = len({task.layer for task in shared.tasks if task.core > 0})
    stages = 1 + shared.tasks[-1].stage
    facts = (
        f"{layers} of {len(shared.layers)} layers over {cores} cores in {stages} stages: "
        f"estimated {several} us, one core {one} us"
    )
    if several < one:
        return SplitDecision(True, facts)
    if split.always:
        return SplitDecision(True, f"{facts}; slower, but split_rows=always")
    return SplitDecision(False, f"one core: {facts}")


def _single_cycles(program: Program) -> int:
    return SUBMIT_CYCLES + sum(task.estimate.cycles + KICK_CYCLES for task in program.tasks)


def shared_cycles(split: Split, program: Program, lowered: LoweredPartition) -> int:
    """All stages one after the other: cores side by side, then a wait for each of them."""
    total = 0
    for _, stage in groupby(program.tasks, lambda task: task.stage):
        shares = [_share(list(tasks)) for _, tasks in groupby(stage, lambda task: task.core)]
        total += stage_cycles(shares) + len(shares) * SUBMIT_CYCLES
        if split.separate_memory:
            # Outputs and scratch go to the host and back, for every core.
            synchronised = sum(program.buffers[b].size_bytes for b in _WRITTEN) * len(shares) * 2
            total += ceil_div(synchronised, SYNCHRONISED_BYTES_PER_CYCLE)
    if split.separate_memory:
        total += ceil_div(_exchanged_bytes(lowered) * (split.cores - 1), HOST_BYTES_PER_CYCLE)
    return total


_WRITTEN = (BufferId.SCRATCH, BufferId.OUTPUT)


def _share(tasks: Sequence[ProgramTask]) -> Share:
    cycles = sum(task.estimate.cycles + KICK_CYCLES for task in tasks)
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
