"""Inferences of a model: partitions as they ran, and the CPU operators between them.

In: the moments around an invoke, the runs that the native part logged in between, and the order in
which the runtime executes nodes. The runtimes tell no times of single operators, so what runs on
the CPU is measured as the gap between two partitions.

When the phases of the delegate's runs happened, as the native part logged them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from delegate.compile.compiler import CompileResult
from delegate.host.delegated import DelegatedModel
from delegate.host.runtimes import invoke
from delegate.host.samples import Sample
from delegate.partition.partitions import execution_order


@dataclass(frozen=True, slots=True)
class CpuSpan:
    """Consecutive nodes on the CPU, with the runtime's own work around them. Times as in Run."""

    nodes: tuple[int, ...]
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Inference:
    """One invoke; ``runs`` and ``cpu`` in order of time."""

    start_ns: int
    end_ns: int
    runs: tuple[Run, ...]
    cpu: tuple[CpuSpan, ...]


def inference_of(
    start_ns: int,
    end_ns: int,
    runs: Sequence[Run],
    order: Sequence[tuple[int, ...]],
    delegated: frozenset[int],
) -> Inference:
    """Assigns the gaps between the runs of one invoke to the CPU nodes executed in them.

    ``order``: runs of nodes as the runtime executes them. A gap without CPU nodes is the runtime's
    own overhead and counts as a span of no nodes.
    """
    inside = sorted(
        (run for run in runs if start_ns <= run.start_ns and run.end_ns <= end_ns),
        key=lambda run: run.start_ns,
    )
    waiting: dict[int, tuple[int, ...]] = {}
    before: list[int] = []
    for nodes in order:
        if nodes[0] in delegated:
            waiting[min(nodes)] = tuple(before)
            before = []
        else:
            before += nodes
    spans = []
    moment = start_ns
    for run in inside:
        first = run.first_node
        nodes = waiting.get(first, ()) if first is not None else ()
        spans.append(CpuSpan(nodes, moment, run.start_ns))
        moment = run.end_ns
    spans.append(CpuSpan(tuple(before), moment, end_ns))
    return Inference(start_ns, end_ns, tuple(inside), tuple(spans))


def run_inferences(
    model: DelegatedModel,
    result: CompileResult,
    sample: Sample,
    count: int,
    done: Callable[[], None] = lambda: None,
) -> list[Inference]:
    """``count`` inferences of the same sample, the first included. ``result``: the same model and
    options, compiled. Raises DelegateError if the runtime fails.
    """
    model.give(sample)
    moments: list[tuple[int, int]] = []
    with run_log(count * max(model.delegation.partitions, 1)) as runs:
        for _ in range(count):
            begin = time.monotonic_ns()
            invoke(model.interpreter)
            moments.append((begin, time.monotonic_ns()))
            done()
    parts = [compiled.partition.delegated for compiled in result.partitions]
    delegated = frozenset().union(*parts)
    order = execution_order(result.graph, delegated, parts)
    return [inference_of(begin, end, runs, order, delegated) for begin, end in moments]


_NODES = re.compile(r"nodes (\d+)\.\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one partition. Times in nanoseconds of ``time.monotonic_ns``.

    ``submitted_ns`` is None where the device does not tell handing over from waiting.
    """

    name: str
    start_ns: int
    converted_ns: int
    submitted_ns: int | None
    done_ns: int
    end_ns: int

    @property
    def first_node(self) -> int | None:
        """The partition's first node, which no other partition has; None for a foreign program."""
        match = _NODES.search(self.name)
        return int(match.group(1)) if match is not None else None


@contextmanager
def run_log(capacity: int) -> Iterator[list[Run]]:
    """Logs up to ``capacity`` runs of this process; the list is filled when the block ends.

    Only one log at a time: a second one ends the first.
    """
    from delegate._native import start_run_log, take_run_log

    runs: list[Run] = []
    start_run_log(capacity)
    try:
        yield runs
    finally:
        for name, start, converted, submitted, done, end in take_run_log():
            runs.append(Run(name, start, converted, submitted or None, done, end))
